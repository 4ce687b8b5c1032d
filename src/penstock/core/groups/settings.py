"""The limits and times of classic groups and of committed offsets, with Kafka's names and defaults."""

from dataclasses import dataclass

_MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """What the broker's settings say, in the units the shard works with."""

    # group.min.session.timeout.ms, group.max.session.timeout.ms
    session_timeout_ms_min: int = 6_000
    session_timeout_ms_max: int = 30 * _MINUTE_MS
    # group.initial.rebalance.delay.ms
    initial_rebalance_delay_ms: int = 3_000
    # group.max.size
    members_max: int = 2**31 - 1
    # penstock.group.heartbeat.wait.ms
    heartbeat_wait_ms: int = 2_900
    # offset.metadata.max.bytes
    offset_metadata_bytes_max: int = 4_096
    # offsets.retention.minutes
    offsets_retention_ms: int = 7 * 24 * 60 * _MINUTE_MS
    # offsets.retention.check.interval.ms
    offsets_check_interval_ms: int = 10 * _MINUTE_MS
    # A new member that waits for a rebalance sends no heartbeats and may have disconnected. No setting in Kafka either.
    new_member_join_timeout_ms: int = 5 * _MINUTE_MS
