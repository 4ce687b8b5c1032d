"""Retries: which error codes call for fresh metadata, and the backoff between attempts."""

from typing import NamedTuple

from penstock.base.errors import ErrorCode

# The leader, the controller or the topic id has changed: the next attempt needs fresh metadata.
_STALE_METADATA = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)


def is_stale_metadata(code: ErrorCode) -> bool:
    """Whether an error code means that the client's metadata are stale."""
    return code in _STALE_METADATA


class Backoff(NamedTuple):
    """Exponential backoff with jitter, so that many clients do not retry at the same moment."""

    first_ms: int = 50
    ceiling_ms: int = 1000
    spread_percent: int = 20

    def delay_ms(self, attempt: int, *, chance: int) -> int:
        """The delay after attempt number `attempt`, counted from 0; `chance` is in [0, 100)."""
        whole_ms = min(self.ceiling_ms, self.first_ms << min(attempt, 32))
        swing_percent = self.spread_percent * (2 * chance - 100) // 100
        return max(1, whole_ms + whole_ms * swing_percent // 100)
