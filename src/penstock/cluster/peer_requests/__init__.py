"""What this broker asks of other brokers: plain values in and out, wire messages inside.

    leader_fetch    a follower's fetch from the leader of its partitions, and the leader's offsets
    replica_read    records of another replica, read as a consumer reads them
    markers         transaction markers for the leaders of partitions
    coordinators    questions for transaction coordinators: add partitions to a transaction, or verify them

`services` imports these and no wire message; connections come from `cluster.peers`.
"""
