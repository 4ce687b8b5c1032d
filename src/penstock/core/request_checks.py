"""Checks of single requests to a partition: timestamps of a batch, the client's leader epoch, the fetch offset.

The format of a batch is checked in `records.batch`, sequences in `core.producer_state`.
"""

from typing import NamedTuple

from penstock.base.errors import ErrorCode, Refusal
from penstock.records.batch import NO_TIMESTAMP, BatchHeader

NO_EPOCH = -1


class TimestampRule(NamedTuple):
    """A topic's settings for timestamps: message.timestamp.type, .before.max.ms and .after.max.ms."""

    log_append_time: bool
    before_max_ms: int
    after_max_ms: int


def timestamp_refusal(header: BatchHeader, rule: TimestampRule, *, now_ms: int) -> Refusal | None:
    """Why a batch is rejected for its timestamps, or None.

    Checks the base and max timestamp of the header; the records are not decoded. A producer's batch that is marked as
    LogAppendTime is always rejected; Kafka accepts it on CreateTime topics, and consumers see the mark.
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
    """Fence a client by its leader epoch: NONE if it is the current one, or if the client has none."""
    if client_epoch in (NO_EPOCH, leader_epoch):
        return ErrorCode.NONE
    if client_epoch < leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    return ErrorCode.UNKNOWN_LEADER_EPOCH


def fetch_offset_error(offset: int, *, start_offset: int, end_offset: int) -> ErrorCode:
    """OFFSET_OUT_OF_RANGE unless `offset` is from the log start offset to the log end offset.

    An offset above the high watermark is no error: there is nothing to read yet.
    """
    if start_offset <= offset <= end_offset:
        return ErrorCode.NONE
    return ErrorCode.OFFSET_OUT_OF_RANGE
