"""The records of the internal topics, in Kafka's own formats.

record               a key and a value, or a key and nothing; to bytes and back
group_records        __consumer_offsets: committed offsets, and both kinds of groups
transaction_records  __transaction_state: one record per transactional id
fast_encoders        faster encoders with the same result, for committed offsets and transactions
*_shapes             their declarations, written by tools/generate_messages.py
"""
