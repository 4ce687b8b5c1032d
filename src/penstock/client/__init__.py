"""One Kafka client, for everything in Penstock that talks to a broker, and for brokers that are not Penstock.

Decisions, without I/O or clock:
    addresses     "host:port" lists
    versions      which version of a request both sides know
    cluster       what metadata says: brokers, topics, leaders and their epochs
    retries       how long to wait before trying again
    partitioner   which partition a record goes to
    conversation  one connection's requests and answers, as bytes in and out
    security      `Security`: whether and how to use TLS and SASL; security_settings, jaas: from Kafka's names for it
    sasl, scram   what is said to prove who we are

Shells around them:
    connection    one connection, on a world's loop
    authentication   proving on it who we are, and again in time
    client        `Client`: connections, metadata, requests to a node, the controller or any broker
    topics, configs, offsets, produce, fetch    what one can ask for, as functions that take a `Client`
    coordinators, groups, group_offsets, transactions   the same for what coordinators look after
    producer, fetcher     records out in batches, batches in from many partitions
    transactional_producer   records and offsets out together, or not at all
    group_consumer        a fetcher that is a member of a group, by `classic_member` or `consumer_member`
    blocking      the same client for programs without an event loop

Errors are in `errors`, drawn as a tree.
"""
