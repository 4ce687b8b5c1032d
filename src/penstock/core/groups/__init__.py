"""The state of the group coordinator in one partition of `__consumer_offsets`, and everything it decides.

    shard.py            GroupShard, one per partition: a method per request, replay, timers
    group.py            Group: what offset requests, listing, deletion and expiry need of a group of any kind
    kinds.py            GroupKind: the interface of a kind of groups, and the tables by which the shard dispatches
    classic_groups.py   the classic kind: the members' leader computes the assignment; lists its modules
    consumer_groups.py  the consumer kind (KIP-848): the coordinator computes the assignment; lists its modules
    migration.py        upgrade and downgrade between the two while the group has members
    requests.py         requests and responses, as plain dataclasses
    settings.py         GroupSettings, the limits and times of classic groups and offsets
    effects.py          Effects: records and completions, collected on the way to one decision
    offsets.py          committed offsets, and those that wait for the end of a transaction
    offset_requests.py  OffsetCommit, TxnOffsetCommit, OffsetFetch, OffsetDelete; DeleteGroups
    offset_expiry.py    expired offsets, offsets of deleted topics, and empty groups
    listing.py          ListGroups

Rules that hold in all of them:

- A method takes its request and `now_ms` and returns a `Decision`: a response and the records to append, or a
  `Refusal`. Durable state is changed by `replay` alone. Waiting requests, sessions and rebalances in progress are not
  durable: they are lost when the shard is unloaded.
- A JoinGroup or SyncGroup that has to wait is answered with a `Pending`; the decision that ends the wait names it in
  `completes`, with the response. When a shard is unloaded, the runtime answers NOT_COORDINATOR to all that still wait.
- Each decision is carried out (appended and replayed) before the next request is decided. `expire` is a generator that
  relies on this too, and other requests may come between two of its decisions.
- Groups of all kinds are in `GroupShard.groups`, by group id. A group changes its kind by tombstones of the old kind
  and records of the new one in one decision. Replaying a tombstone removes a group of its own kind only.
- All kinds share the shard's `Deadlines` (`core.deadlines`): the first element of a key is the type of the group
  ("classic", "consumer"), or "offsets".
"""
