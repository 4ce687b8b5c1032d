"""Replication: this broker's followers fetch from their leaders, and its leaders maintain the ISR.

    replication       starts and stops fetchers: which leader each replica is fetched from
    fetcher           one loop per leader: fetch, apply, fetch again
    replica_appender  applies a leader's fetch response to one replica: append, truncate, or restart the log
    log_repair        replaces damaged batches by copies from other replicas
    throttling        replication quotas, of leaders and of followers
    isr               proposes ISR changes to the controller

The leader's side of a fetch is `services.fetching.follower_fetches`; decisions are in `core.replication`. Requests to
other brokers are made in `cluster.peer_requests`.
"""
