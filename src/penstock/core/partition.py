"""A partition leader's decisions: timestamps, epochs, what may be fetched.

Checking a batch by itself is `records`' part, producers' sequences are `core.producer_state`'.
"""

from typing import NamedTuple

from penstock.base.errors import ErrorCode, Refusal
from penstock.records.batch import NO_TIMESTAMP, BatchHeader

NO_EPOCH = -1


class TimestampRule(NamedTuple):
    """What a topic says about timestamps: whose clock, and how far from the broker's a producer's may be."""

    log_append_time: bool
    before_max_ms: int
    after_max_ms: int


def timestamp_refusal(header: BatchHeader, rule: TimestampRule, *, now_ms: int) -> Refusal | None:
    """Why a batch's timestamps cannot be taken, or None.

    Looks at the header's first and newest timestamp; the records stay closed. A producer that claims the
    broker's clock is always refused; Kafka takes that on CreateTime topics, and consumers see the claim.
    """
    if header.log_append_time:
        return Refusal(ErrorCode.INVALID_TIMESTAMP, "only a broker may mark a batch as LogAppendTime")
    if rule.log_append_time:
        return None
    earliest, latest = now_ms - rule.before_max_ms, now_ms + rule.after_max_ms
    if earliest <= header.base_timestamp <= latest and earliest <= header.max_timestamp <= latest:
        return None
    for timestamp in (header.base_timestamp, header.max_timestamp):
        if timestamp == NO_TIMESTAMP:
            continue
        ahead_ms = timestamp - now_ms
        if ahead_ms > rule.after_max_ms or -ahead_ms > rule.before_max_ms:
            return Refusal(
                ErrorCode.INVALID_TIMESTAMP,
                f"timestamp {timestamp} is out of range: {now_ms - rule.before_max_ms} to "
                f"{now_ms + rule.after_max_ms} is allowed now",
            )
    return None


def epoch_error(client_epoch: int, *, leader_epoch: int) -> ErrorCode:
    """Whether the leader epoch a client has in mind is the current one; a client without one passes."""
    if client_epoch in (NO_EPOCH, leader_epoch):
        return ErrorCode.NONE
    if client_epoch < leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    return ErrorCode.UNKNOWN_LEADER_EPOCH


def fetch_offset_error(offset: int, *, start_offset: int, end_offset: int) -> ErrorCode:
    """Whether a fetch may begin at `offset`: anywhere in the log, its end included.

    Between high watermark and end there is nothing to give yet, which is not an error.
    """
    if start_offset <= offset <= end_offset:
        return ErrorCode.NONE
    return ErrorCode.OFFSET_OUT_OF_RANGE
