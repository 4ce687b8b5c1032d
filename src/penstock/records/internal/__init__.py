"""The records of the internal topics, in Kafka's own formats: one could read what the other wrote.

record               a key and a value, or a key and nothing; to bytes and back
group_records        __consumer_offsets: committed offsets, and both kinds of groups
transaction_records  __transaction_state: one record per transactional id
often_written        the same bytes sooner, for committed offsets and transactions
*_shapes             their declarations, written by tools/generate_messages.py
"""
