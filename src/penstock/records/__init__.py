"""The record batch, Kafka's unit of everything: it is what a producer sends, what lies on disk, what a
follower copies and what a consumer reads.

    batch        the 61-byte header, its CRC, and every check that needs no look at the records
    compression  the codecs, each with a limit on what it may inflate to
    record       the records inside a batch, read and validated one by one
    builder      new batches out of records, and old ones under another codec
    producer     what a log remembers of one idempotent producer

Only format version 2 ("magic" 2) exists here: like Kafka 4, Penstock refuses the older ones. Everything is
pure: bytes in, values out. Varints and CRCs are done here and nowhere else.
"""
