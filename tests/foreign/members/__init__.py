"""Members of consumer groups as programs: each holds one member of several groups and tells what happens to it.

reporting           what all of the Python programs share: their orders, and the lines by which they report
confluent_member    confluent-kafka: a thread for each group
aiokafka_member     aiokafka: a task for each group
kafka_python_member kafka-python: a thread for each group
GroupMember.java    Kafka's own client: a thread for each group
crew                starts and ends these programs and gathers what they say
ledger              what they said: who owned what and read what when, and what is wrong with it

A member reads, reports each record, and commits before it asks for more: only a member that was killed leaves
records that are read a second time. SIGTERM lets it leave its groups; nothing else ends it.
"""
