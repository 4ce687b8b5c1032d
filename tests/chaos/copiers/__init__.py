"""Workers that copy one topic to another in transactions, each partition to its namesake: a program for each client.

orders             what all of them are told
confluent_copier   confluent-kafka: older transactions, classic group
aiokafka_copier    aiokafka: older transactions, a fixed share of the partitions
penstock_copier    Penstock's own client: an epoch for each transaction, the new group protocol

The offsets that a worker has read are part of the transaction that holds what it made of them. When a transaction
fails it is aborted and its input read again; whatever else goes wrong ends the program, and somebody starts it again.
SIGTERM lets it finish its transaction and leave.
"""
