"""Slowing down the copying of replicas: which ones, and how much there may be. Time is an argument.

Bytes are counted when they have come or gone, since nobody knows before how many there will be: one answer may go over
the limit, and then nothing goes until the debt is paid.
"""

from collections.abc import Set

EVERY_REPLICA = "*"
# What was not used may be made up for as long as this: more at once, and what producers wait for would stand in line.
_MADE_UP_S = 0.1


def names_replica(words: Set[str], *, partition: int, node_id: int) -> bool:
    """Whether a list like 0:1,0:2,1:3 (partition:broker), or *, has the replica of a partition on a broker."""
    return bool(words) and (EVERY_REPLICA in words or f"{partition}:{node_id}" in words)


class Throttle:
    """So many bytes a second, evenly."""

    def __init__(self) -> None:
        self._debt = 0.0  # negative: what may still go at once
        self._counted_at = 0.0

    def count(self, size: int, *, rate: int, now: float) -> None:
        """So many bytes have gone."""
        self._debt = self._owed(rate, now) + size
        self._counted_at = now

    def wait_s(self, *, rate: int, now: float) -> float:
        """How long nothing may go; 0 if something may go now."""
        return max(0.0, self._owed(rate, now)) / rate

    def _owed(self, rate: int, now: float) -> float:
        return max(self._debt - rate * (now - self._counted_at), -_MADE_UP_S * rate)
