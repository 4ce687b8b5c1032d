"""The record batch: what a producer sends, what is stored on disk, what a follower replicates and a consumer reads.

    batch        the 61-byte header, its CRC, and all checks that do not need the records
    compression  the codecs, each with a limit on what it may inflate to
    record       the records inside a batch, read and validated one by one
    builder      new batches out of records, and old ones under another codec
    producer     what a log remembers of one idempotent producer

Only format version 2 ("magic" 2) is supported: like Kafka 4, Penstock rejects the older ones. Everything is pure: bytes
in, values out.
"""
