"""The broker settings of groups, committed offsets and transactions, under Kafka's names.

They are part of the broker's catalogue. The configs of a single group are in `group_settings`.
"""

from typing import Final

from penstock.base.allowed_values import Between, EachOneOf, Matching
from penstock.base.settings import (
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    SECOND_MS,
    Setting,
    SettingKind,
    boolean,
    integer,
    long,
    text,
    words,
)

_MIB: Final = 1024**2
_POSITIVE: Final = Between(1)
_NOT_NEGATIVE: Final = Between(0)
_SEGMENT_BYTES: Final = Between(_MIB)  # as the topic config has it, or the topic could never be created
_INT_MAX: Final = 2**31 - 1

MIGRATION_POLICIES: Final = ("disabled", "downgrade", "upgrade", "bidirectional")
ASSIGNORS: Final = ("uniform", "range")

# Committed offsets, and the topic that holds them and the groups.

OFFSET_METADATA_MAX_BYTES = integer(
    "offset.metadata.max.bytes",
    4096,
    "Length of the metadata string that a client may commit with an offset.",
)
OFFSETS_COMMIT_TIMEOUT_MS = integer(
    "offsets.commit.timeout.ms",
    5 * SECOND_MS,
    "How long a group coordinator waits until its records are replicated before it answers with an error.",
    allowed=_POSITIVE,
)
GROUP_COORDINATOR_APPEND_LINGER_MS = integer(
    "group.coordinator.append.linger.ms",
    -1,
    "How long a group coordinator collects records for one batch; -1: adaptive, without a delay for a single client.",
    allowed=Between(-1),
)
OFFSETS_RETENTION_MINUTES = integer(
    "offsets.retention.minutes",
    7 * 24 * 60,
    "How long a committed offset is kept after its group became empty, or is no longer subscribed to the topic.",
    allowed=_POSITIVE,
)
OFFSETS_RETENTION_CHECK_INTERVAL_MS = long(
    "offsets.retention.check.interval.ms",
    10 * MINUTE_MS,
    "How often expired offsets are removed.",
    allowed=_POSITIVE,
)
OFFSETS_TOPIC_NUM_PARTITIONS = integer(
    "offsets.topic.num.partitions",
    50,
    "Partitions of `__consumer_offsets` when it is created.",
    allowed=_POSITIVE,
)
OFFSETS_TOPIC_REPLICATION_FACTOR = Setting(
    "offsets.topic.replication.factor",
    SettingKind.SHORT,
    3,
    "Replicas of `__consumer_offsets`. With fewer brokers it gets one on each, and the others when more brokers join.",
    allowed=_POSITIVE,
)
OFFSETS_TOPIC_SEGMENT_BYTES = integer(
    "offsets.topic.segment.bytes",
    100 * _MIB,
    "The topic config `segment.bytes` of `__consumer_offsets` when it is created.",
    allowed=_SEGMENT_BYTES,
)

# Groups of the classic protocol.

GROUP_INITIAL_REBALANCE_DELAY_MS = integer(
    "group.initial.rebalance.delay.ms",
    3 * SECOND_MS,
    "How long the first rebalance of an empty group waits for more members.",
)
GROUP_MIN_SESSION_TIMEOUT_MS = integer(
    "group.min.session.timeout.ms", 6 * SECOND_MS, "The shortest session timeout that a member may ask for."
)
GROUP_MAX_SESSION_TIMEOUT_MS = integer(
    "group.max.session.timeout.ms", 30 * MINUTE_MS, "The longest session timeout that a member may ask for."
)
GROUP_MAX_SIZE = integer(
    "group.max.size",
    _INT_MAX,
    "Members of a group; further ones are rejected with GROUP_MAX_SIZE_REACHED.",
    allowed=_POSITIVE,
)
PENSTOCK_GROUP_HEARTBEAT_WAIT_MS = integer(
    "penstock.group.heartbeat.wait.ms",
    2_900,
    "How long the response to a classic member's heartbeat may be delayed, so that the member learns of a rebalance at "
    "once: at most a quarter of its session timeout, and only for clients that do not wait for it. Most "
    "clients send a heartbeat every 3 s and none while one is in flight, so slightly less than that is best; clients "
    "with a shorter request timeout need less. 0: answered at once.",
    allowed=_NOT_NEGATIVE,
)

# Groups of the consumer protocol.

GROUP_CONSUMER_SESSION_TIMEOUT_MS = integer(
    "group.consumer.session.timeout.ms",
    45 * SECOND_MS,
    "A member that sends no heartbeat for this long is removed from its group.",
    allowed=_POSITIVE,
)
GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS = integer(
    "group.consumer.min.session.timeout.ms",
    45 * SECOND_MS,
    "The lower bound of the group config `consumer.session.timeout.ms`.",
    allowed=_POSITIVE,
)
GROUP_CONSUMER_MAX_SESSION_TIMEOUT_MS = integer(
    "group.consumer.max.session.timeout.ms",
    60 * SECOND_MS,
    "The upper bound of the group config `consumer.session.timeout.ms`.",
    allowed=_POSITIVE,
)
GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS = integer(
    "group.consumer.heartbeat.interval.ms",
    5 * SECOND_MS,
    "How often members are told to send a heartbeat.",
    allowed=_POSITIVE,
)
GROUP_CONSUMER_MIN_HEARTBEAT_INTERVAL_MS = integer(
    "group.consumer.min.heartbeat.interval.ms",
    5 * SECOND_MS,
    "The lower bound of the group config `consumer.heartbeat.interval.ms`.",
    allowed=_POSITIVE,
)
GROUP_CONSUMER_MAX_HEARTBEAT_INTERVAL_MS = integer(
    "group.consumer.max.heartbeat.interval.ms",
    15 * SECOND_MS,
    "The upper bound of the group config `consumer.heartbeat.interval.ms`.",
    allowed=_POSITIVE,
)
GROUP_CONSUMER_ASSIGNMENT_INTERVAL_MS = integer(
    "group.consumer.assignment.interval.ms",
    SECOND_MS,
    "The shortest time between two assignments of a group, so that members that join together are assigned together.",
    allowed=_NOT_NEGATIVE,
    dynamic=True,
)
GROUP_CONSUMER_MIN_ASSIGNMENT_INTERVAL_MS = integer(
    "group.consumer.min.assignment.interval.ms",
    0,
    "The lower bound of the group config `consumer.assignment.interval.ms`.",
    allowed=_NOT_NEGATIVE,
)
GROUP_CONSUMER_MAX_ASSIGNMENT_INTERVAL_MS = integer(
    "group.consumer.max.assignment.interval.ms",
    15 * SECOND_MS,
    "The upper bound of the group config `consumer.assignment.interval.ms`.",
    allowed=_NOT_NEGATIVE,
)
GROUP_CONSUMER_MAX_SIZE = integer(
    "group.consumer.max.size",
    _INT_MAX,
    "Members of a group of the consumer protocol; further ones are rejected with GROUP_MAX_SIZE_REACHED.",
    allowed=_POSITIVE,
)
GROUP_CONSUMER_ASSIGNORS = words(
    "group.consumer.assignors",
    ASSIGNORS,
    "The server-side assignors; the first is the default for members that name none.",
    allowed=EachOneOf(ASSIGNORS),
)
GROUP_CONSUMER_MIGRATION_POLICY = text(
    "group.consumer.migration.policy",
    "bidirectional",
    "How groups that have members may change their protocol: `upgrade` to the consumer protocol, `downgrade` to the "
    "classic one, `bidirectional`, or `disabled`.",
    allowed=Matching(
        lambda value: value.lower() in MIGRATION_POLICIES,
        f"one of, in any case: {', '.join(MIGRATION_POLICIES)}",
    ),
)
GROUP_CONSUMER_REGEX_REFRESH_INTERVAL_MS = integer(
    "group.consumer.regex.refresh.interval.ms",
    10 * MINUTE_MS,
    "How often regular expressions in subscriptions are resolved again even if no topic changed.",
    allowed=Between(10 * SECOND_MS),
    internal=True,
)

# Transactions, and the topic that holds them.

TRANSACTION_MAX_TIMEOUT_MS = integer(
    "transaction.max.timeout.ms",
    15 * MINUTE_MS,
    "The longest transaction timeout that a producer may ask for.",
    allowed=_POSITIVE,
)
TRANSACTIONAL_ID_EXPIRATION_MS = integer(
    "transactional.id.expiration.ms",
    7 * DAY_MS,
    "How long a transactional id is kept after its last transaction ended.",
    allowed=_POSITIVE,
)
TRANSACTION_ABORT_TIMED_OUT_TRANSACTION_CLEANUP_INTERVAL_MS = integer(
    "transaction.abort.timed.out.transaction.cleanup.interval.ms",
    10 * SECOND_MS,
    "How often the coordinator aborts transactions that have exceeded their timeout.",
    allowed=_POSITIVE,
)
TRANSACTION_REMOVE_EXPIRED_TRANSACTION_CLEANUP_INTERVAL_MS = integer(
    "transaction.remove.expired.transaction.cleanup.interval.ms",
    HOUR_MS,
    "How often expired transactional ids are removed.",
    allowed=_POSITIVE,
)
TRANSACTION_STATE_LOG_NUM_PARTITIONS = integer(
    "transaction.state.log.num.partitions",
    50,
    "Partitions of `__transaction_state` when it is created.",
    allowed=_POSITIVE,
)
TRANSACTION_STATE_LOG_REPLICATION_FACTOR = Setting(
    "transaction.state.log.replication.factor",
    SettingKind.SHORT,
    3,
    "Replicas of `__transaction_state`; as many as there are brokers, if that is fewer. It gets the others when more "
    "brokers come.",
    allowed=_POSITIVE,
)
TRANSACTION_STATE_LOG_MIN_ISR = integer(
    "transaction.state.log.min.isr",
    2,
    "The topic config `min.insync.replicas` of `__transaction_state`; as many as it has replicas, if that is fewer.",
    allowed=_POSITIVE,
)
TRANSACTION_STATE_LOG_SEGMENT_BYTES = integer(
    "transaction.state.log.segment.bytes",
    100 * _MIB,
    "The topic config `segment.bytes` of `__transaction_state` when it is created.",
    allowed=_SEGMENT_BYTES,
)
TRANSACTION_PARTITION_VERIFICATION_ENABLE = boolean(
    "transaction.partition.verification.enable",
    True,
    "Whether a partition leader asks the transaction coordinator, before the first batch of a transaction, whether the "
    "partition is part of it; for clients without transactions of version 2.",
    dynamic=True,
)
TRANSACTION_TWO_PHASE_COMMIT_ENABLE = boolean(
    "transaction.two.phase.commit.enable",
    False,
    "Whether producers may use two-phase commit: a prepared transaction has no timeout and stays open until it is "
    "committed or aborted.",
)

COORDINATOR_SETTINGS: Final = tuple(
    member for member in list(globals().values()) if isinstance(member, Setting)
)
