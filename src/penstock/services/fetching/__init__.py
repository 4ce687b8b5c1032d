"""Fetching: what consumers and followers read from this broker's partitions.

    consumer_fetches  a consumer's read of several partitions: isolation level, min bytes, max wait, rack
    follower_fetches  a follower's fetch: notes its progress, then reads up to the log end offset
    idle_partitions   partitions of a follower's session that a fetch skips until something happens there
    delayed_fetch     DelayedFetch: one fetch, and its wait for enough bytes (in Kafka, the fetch purgatory)
    partition_read    PartitionRead: one partition of a fetch, with its checks and what came of it

Values go in and out; no wire message is known here. A consumer's fetch is a list of partitions and positions, whatever
the protocol. Fetch sessions (KIP-227) shorten requests and responses, so for consumers they belong to the protocol:
`apis.k01_fetch` asks `core.fetch_sessions` which partitions a request means and which the response has. A follower's
fetch takes its session in here, because the session says which partitions are idle. Leader hints (KIP-951), and error
codes that depend on a request's version, belong to the protocol, too.
"""
