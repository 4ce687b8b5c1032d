"""The coordinator runtime, which the group coordinator and the transaction coordinator share.

    coordinator      Coordinator: the shards of one internal topic; finds, loads and unloads them, passes requests on
    loaded_shard     LoadedShard: one shard in one leader epoch; appends and replays decisions, answers, runs timers
    shard_writer     ShardWriter: the records of decisions into batches of the log, one batch per turn of the loop
    loading          the state of a shard from its partition's log
    steady_clock     the shards' clock
    internal_topics  the topics themselves, created when first needed
    image_topics     the topics that groups subscribe to
    group_kinds      the kinds of groups, with the broker's settings
    coordinators     Coordinators: both coordinators, as handlers find them in the services

A shard and its decisions are defined in `core.coordinator_shard`. A request handler calls

    answer = await services.coordinators.groups.ask(group_id, lambda shard, now_ms: shard.heartbeat(request, now_ms))

and gets the shard's response once its records are committed (below the high watermark), or a `Refusal`. A shard whose
append failed, or whose partition got another leader or leader epoch, is unloaded: its waiting requests are answered
with NOT_COORDINATOR, and the next request loads the state from the log again. `leadership_changed` does so at once, and
loads the shards that this broker leads from now on.
"""
