"""The broker settings of groups, committed offsets and transactions, under Kafka's names.

They are a part of the broker's catalogue. What a single group may have of its own is in `group_settings`.
"""

from typing import Final

from penstock.base.allowed import Between, EachOneOf, Matching
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
    "The most that a client may say about an offset it commits.",
)
OFFSETS_COMMIT_TIMEOUT_MS = integer(
    "offsets.commit.timeout.ms",
    5 * SECOND_MS,
    "How long a group's coordinator waits until what it wrote is safe, before it answers with an error.",
    allowed=_POSITIVE,
)
GROUP_COORDINATOR_APPEND_LINGER_MS = integer(
    "group.coordinator.append.linger.ms",
    -1,
    "How long a group's coordinator waits for more to write in one batch; -1: no longer than it pays.",
    allowed=Between(-1),
)
OFFSETS_RETENTION_MINUTES = integer(
    "offsets.retention.minutes",
    7 * 24 * 60,
    "How long a committed offset is kept after its group lost its last member, or stopped to subscribe to its topic.",
    allowed=_POSITIVE,
)
OFFSETS_RETENTION_CHECK_INTERVAL_MS = long(
    "offsets.retention.check.interval.ms",
    10 * MINUTE_MS,
    "How often expired offsets are looked for.",
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
    "Replicas of `__consumer_offsets`; as many as there are brokers, if that is fewer. It gets the others when more "
    "brokers come.",
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
    "group.max.size", _INT_MAX, "Members of a group; one more is refused.", allowed=_POSITIVE
)
PENSTOCK_GROUP_HEARTBEAT_WAIT_MS = integer(
    "penstock.group.heartbeat.wait.ms",
    2_900,
    "How long the answer to a member's heartbeat may wait for news, so that it hears of a rebalance at once; at most a "
    "quarter of its session timeout, and only for clients that do other work meanwhile. Most send one every 3 s, but "
    "none while the last is not answered, so a little less than that is best. Clients with a request timeout below it "
    "need less. 0 answers at once.",
    allowed=_NOT_NEGATIVE,
)

# Groups of the consumer protocol.

GROUP_CONSUMER_SESSION_TIMEOUT_MS = integer(
    "group.consumer.session.timeout.ms",
    45 * SECOND_MS,
    "How long a member may be silent before it is taken for dead.",
    allowed=_POSITIVE,
)
GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS = integer(
    "group.consumer.min.session.timeout.ms",
    45 * SECOND_MS,
    "The least that a group's `consumer.session.timeout.ms` may be.",
    allowed=_POSITIVE,
)
GROUP_CONSUMER_MAX_SESSION_TIMEOUT_MS = integer(
    "group.consumer.max.session.timeout.ms",
    60 * SECOND_MS,
    "The most that a group's `consumer.session.timeout.ms` may be.",
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
    "The least that a group's `consumer.heartbeat.interval.ms` may be.",
    allowed=_POSITIVE,
)
GROUP_CONSUMER_MAX_HEARTBEAT_INTERVAL_MS = integer(
    "group.consumer.max.heartbeat.interval.ms",
    15 * SECOND_MS,
    "The most that a group's `consumer.heartbeat.interval.ms` may be.",
    allowed=_POSITIVE,
)
GROUP_CONSUMER_ASSIGNMENT_INTERVAL_MS = integer(
    "group.consumer.assignment.interval.ms",
    SECOND_MS,
    "The least time between two assignments of a group, so that members that come together are assigned together.",
    allowed=_NOT_NEGATIVE,
    dynamic=True,
)
GROUP_CONSUMER_MIN_ASSIGNMENT_INTERVAL_MS = integer(
    "group.consumer.min.assignment.interval.ms",
    0,
    "The least that a group's `consumer.assignment.interval.ms` may be.",
    allowed=_NOT_NEGATIVE,
)
GROUP_CONSUMER_MAX_ASSIGNMENT_INTERVAL_MS = integer(
    "group.consumer.max.assignment.interval.ms",
    15 * SECOND_MS,
    "The most that a group's `consumer.assignment.interval.ms` may be.",
    allowed=_NOT_NEGATIVE,
)
GROUP_CONSUMER_MAX_SIZE = integer(
    "group.consumer.max.size",
    _INT_MAX,
    "Members of a group of the consumer protocol; one more is refused.",
    allowed=_POSITIVE,
)
GROUP_CONSUMER_ASSIGNORS = words(
    "group.consumer.assignors",
    ASSIGNORS,
    "How partitions may be given to members; the first is taken by members that do not care.",
    allowed=EachOneOf(ASSIGNORS),
)
GROUP_CONSUMER_MIGRATION_POLICY = text(
    "group.consumer.migration.policy",
    "bidirectional",
    "Which groups with members may move between the protocols: `upgrade` to the consumer protocol, `downgrade` to the "
    "classic one, `bidirectional`, or `disabled`.",
    allowed=Matching(
        lambda value: value.lower() in MIGRATION_POLICIES,
        f"one of, in any case: {', '.join(MIGRATION_POLICIES)}",
    ),
)
GROUP_CONSUMER_REGEX_REFRESH_INTERVAL_MS = integer(
    "group.consumer.regex.refresh.interval.ms",
    10 * MINUTE_MS,
    "How often subscriptions by regular expression are looked at again even if no topic changed.",
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
    "How long a transactional id without a transaction is remembered.",
    allowed=_POSITIVE,
)
TRANSACTION_ABORT_TIMED_OUT_TRANSACTION_CLEANUP_INTERVAL_MS = integer(
    "transaction.abort.timed.out.transaction.cleanup.interval.ms",
    10 * SECOND_MS,
    "How often transactions that took too long are looked for, and aborted.",
    allowed=_POSITIVE,
)
TRANSACTION_REMOVE_EXPIRED_TRANSACTION_CLEANUP_INTERVAL_MS = integer(
    "transaction.remove.expired.transaction.cleanup.interval.ms",
    HOUR_MS,
    "How often expired transactional ids are looked for.",
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
    "Whether a partition's leader asks the coordinator about a transaction before the first batch of it, for clients "
    "that do not use transactions of version 2.",
    dynamic=True,
)
TRANSACTION_TWO_PHASE_COMMIT_ENABLE = boolean(
    "transaction.two.phase.commit.enable",
    False,
    "Whether producers may prepare transactions, which then wait, without a timeout, for somebody to commit or abort.",
)

COORDINATOR_SETTINGS: Final = tuple(
    member for member in list(globals().values()) if isinstance(member, Setting)
)
