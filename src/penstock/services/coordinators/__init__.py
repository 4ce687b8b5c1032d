"""The coordinator runtime: what groups and transactions have in common, one partition of an internal topic at a time.

    coordinator      Coordinator: all shards of one kind; finds, loads and asks them
    instance         LoadedShard: one loaded shard under one leader epoch; write, replay, answer when it is safe; timers
    writing          Writer: decisions into the log, those of one turn of the loop together
    loading          the state of a shard out of its partition's log
    internal_topics  the topics themselves, created when first needed
    coordinators     Coordinators: the two kinds there are, as handlers find them in the services

What a shard is and what it decides is in `core.coordination`. A request handler says

    answer = await services.coordinators.groups.ask(group_id, lambda shard, now_ms: shard.heartbeat(request, now_ms))

and gets the shard's answer once it is safe, or a `Refusal`. An instance whose append failed, or whose partition got
another leader or leader epoch, is dropped as a whole: whoever waits is told NOT_COORDINATOR, and the next request loads
the state again from the log. `leadership_changed` does so at once, and loads what this broker leads from now on.
"""
