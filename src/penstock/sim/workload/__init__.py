"""Clients that carry out the operations of a plan, and record what brokers answered.

    records             messages as records and back; each carries its number in a header
    tracking_client     a client that records which topic ids its attempts were sent to
    writer, reader, admin, operator    one actor each
    pipelined_writer    a writer with several batches in flight
    recording_client    a client that records the offsets that it commits for groups
    member, copier, transactor    the actors that need a coordinator; transaction_runner runs their transactions
    known_topics        which topics have to exist
    topic_promises      what the topics of a plan promise to keep, given all config changes that were requested
    coordinator_check   at the end of a run: whether every coordinator serves
    final_reader        at the end of a run: reads every log; final_fetch: how it and coordinator_check fetch

They use `penstock.client` on any loop: the simulated one, or a real one.
"""
