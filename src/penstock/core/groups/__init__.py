"""Consumer groups: everything that one partition of `__consumer_offsets` decides about.

    shard.py            GroupShard, the one object per partition: a method per request, replay, timers
    group.py            Group: what offsets, listing and deleting ask of a group, whichever its protocol
    requests.py         what is asked, and what is answered, as plain dataclasses
    settings.py         GroupSettings, the limits and times of classic groups and offsets
    effects.py          Effects: records and completions, collected on the way to one decision
    classic*.py         the classic protocol: members choose a leader, the leader assigns
    consumer*.py        the consumer protocol (KIP-848): the coordinator assigns; consumer.py lists its parts
    migration.py        from one protocol to the other, with members on board
    offsets.py          committed offsets, and those that wait for the end of a transaction
    offset_requests.py  committing, fetching and deleting them
    describing.py       describing and listing
    expiry.py           offsets and groups that nobody needs any more

Rules that hold in all of them:

- A method takes its request and `now_ms` and returns a `Decision`: an answer and the records that make it last, or a
  `Refusal`. What has to outlive a fail-over is changed by `replay` alone; who waits, who is alive and what is being
  gathered is kept beside it and is lost with the instance.
- A JoinGroup or SyncGroup that has to wait is answered with a `Pending`; the decision that ends the wait names it in
  `completes` with the answer. An instance that is dropped takes its pending answers with it: the runtime answers
  NOT_COORDINATOR to whoever still waits.
- Each decision is carried out (appended and replayed) before the shard is asked again; `expire` is a generator that
  counts on it too, and other requests may come between two of its decisions.
- The shard holds groups of both protocols in `GroupShard.groups`. A classic request to a group of the consumer
  protocol that has members goes to `GroupShard.consumer` (see `shard.ConsumerSide`), which makes a classic group one of
  its own, or the other way round, with tombstones and records: `ClassicGroup.release` frees whoever waits in the old
  one, `ClassicRequests.begin_rebalance` is for the new. Replaying a tombstone removes a group of its own protocol only.
- Both protocols share the shard's `Deadlines` (`core.deadlines`), in which the first element of a key says whose timer
  it is ("classic", "consumer", "offsets").
"""
