"""The log on a disk, in Kafka's own format.

    log                      one partition's segments: append, roll, read, sync
    log_factory, recovery    creating and opening a log; recovery after a crash (recovery_scan)
    segment                  one .log file with its indexes; segment_lookup finds a batch in it
    offset_index, time_index, transaction_index    the indexes of a segment
    leader_epoch_checkpoint  which leader epoch began at which offset
    producer_snapshots       the state of idempotent and transactional producers
    truncation, retention    removing the end, and the beginning, of a log
    compaction               Kafka's log cleaner, with compaction_rules and segment_swap
    damage_handling          damaged batches and indexes: found, marked, rebuilt (damage_scan, segment_repair)
    data_directory           all logs of a broker, their offset checkpoints, meta.properties and the lock

Apache Kafka's tools can read every file. Producer state itself is in `core`; a log uses it through the
`ProducerMemory` protocol.
"""
