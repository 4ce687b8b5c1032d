"""Workers that copy one topic to another in transactions, each partition to its namesake: a program for each client.

orders             the argument that all of them take
confluent_copier   confluent-kafka: older transactions, classic group
aiokafka_copier    aiokafka: older transactions, a fixed share of the partitions
penstock_copier    Penstock's own client: an epoch for each transaction, the new group protocol

The offsets that a worker has read are part of the transaction that holds what it made of them. When a transaction
fails it is aborted and its input read again; any other error ends the program, and the run starts it again.
SIGTERM lets it finish its transaction and leave.
"""
