"""The log on a disk, in Kafka's own format.

    segment      one file of record batches, named by the first offset it may hold, with two sparse indexes
    log          the segments of one partition in order: appended to at the end, cut at both ends
    recovery     what opening a log after a crash trusts, checks, rebuilds and cuts
    epochs       which leader epoch began at which offset
    snapshot     what idempotent producers had written when a segment began
    directory    all logs of a broker below one data directory, with its checkpoints and its lock
    compaction   rewriting a log so that only the newest record of each key stays
    examining    what is damaged in a segment; mending puts sound batches there

Every file is one that Apache Kafka's tools read. Producer state itself lives above, in `core`; a log
reaches it through the `ProducerMemory` protocol.
"""
