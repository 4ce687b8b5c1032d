"""One Kafka client, for everything in Penstock that talks to a broker, and for brokers that are not Penstock.

Decisions, without I/O or clock:
    addresses     "host:port" lists
    versions      which version of a request both sides know
    cluster       cached metadata: brokers, topics, leaders and leader epochs
    retries       which errors call for fresh metadata; exponential backoff
    partitioner   which partition a record goes to
    conversation  one connection's requests and responses, as bytes in and out
    security      `Security`: whether and how to use TLS and SASL; security_settings, jaas: from Kafka's names for it
    sasl, scram   the messages of SASL mechanisms

Shells around them:
    connection    one connection, on a world's loop
    authentication   SASL on a connection, and reauthentication
    client        `Client`: connections, metadata, requests to a node, the controller or any broker
    topics, configs, offsets, produce, fetch    requests, as functions that take a `Client`
    coordinators, groups, group_offsets, transactions   requests to coordinators
    producer, fetcher     send records in batches; fetch batches from many partitions
    transactional_producer   records and offsets in one transaction
    group_consumer        a fetcher that is a member of a group, by `classic_member` or `consumer_member`
    blocking      the same client for programs without an event loop

Errors are in `errors`, drawn as a tree.
"""
