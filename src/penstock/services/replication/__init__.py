"""Following leaders: this broker's replicas copy what their leaders have.

    replication   starts and stops fetchers: which leader each replica is fetched from
    fetcher       one loop per leader: fetch, apply, fetch again
    copying       applies a leader's answer to one replica: append, truncate, or restart the log
    mending       replaces damaged batches by copies from other replicas
    throttling    replication quotas, of leaders and of followers
    isr           proposes ISR changes to the controller

The leader's side of a fetch is `services.fetching.follower_fetches`; decisions are in `core.replication`. What is asked
of other brokers goes through `cluster.peer_requests`.
"""
