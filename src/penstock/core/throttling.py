"""Replication throttling: which replicas are throttled, and the token bucket. Time is an argument.

Bytes are counted after they were sent or received, since their number is not known before: one response may exceed the
limit, and then nothing is sent until the rate is met again.
"""

from collections.abc import Set

EVERY_REPLICA = "*"
# Unused rate is saved for this long: a larger burst would delay the fetches that producers wait for.
_BURST_S = 0.1


def names_replica(words: Set[str], *, partition: int, node_id: int) -> bool:
    """Whether a list like 0:1,0:2,1:3 (partition:broker), or *, names the replica of a partition on a broker."""
    return bool(words) and (EVERY_REPLICA in words or f"{partition}:{node_id}" in words)


class Throttle:
    """A token bucket of bytes per second."""

    def __init__(self) -> None:
        self._debt = 0.0  # negative: bytes that may be sent at once
        self._counted_at = 0.0

    def count(self, size: int, *, rate: int, now: float) -> None:
        """Note that `size` bytes were sent or received."""
        self._debt = self._debt_at(rate, now) + size
        self._counted_at = now

    def wait_s(self, *, rate: int, now: float) -> float:
        """How long nothing may be sent; 0 if something may be sent now."""
        return max(0.0, self._debt_at(rate, now)) / rate

    def _debt_at(self, rate: int, now: float) -> float:
        return max(self._debt - rate * (now - self._counted_at), -_BURST_S * rate)
