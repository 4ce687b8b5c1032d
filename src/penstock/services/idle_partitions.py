"""Partitions of a follower's session at which nothing happens: they are looked at when something does.

A follower asks again twice a second. To look at a thousand quiet partitions each time would be most of what an idle
broker does, and with one busy partition among them it would be done for every batch. So a partition of which a follower
has everything, and has been told everything, rests; a sentinel where its fetches wait hears of whatever happens.
"""

from collections.abc import Callable
from typing import Final

from penstock.core.fetch_sessions import PartitionKey
from penstock.services.replicas.replica import Replica
from penstock.services.waiting import WaitingFetch

# Everything is looked at this often all the same: not all that a follower is told of comes with a signal (retention).
LOOK_AT_ALL_S: Final = 10.0


class IdlePartitions:
    """Those of one session: the watch that `core.fetch_sessions` speaks of."""

    __slots__ = ("_asked_ms", "_follower", "_looked_at_all_s", "_sentinels", "_wake", "_who", "waiting")

    def __init__(self, follower: int, wake: Callable[[PartitionKey], None]) -> None:
        self._follower = follower
        self._wake = wake
        self._who: object = None
        self._asked_ms = 0
        self._looked_at_all_s = 0.0
        self._sentinels: dict[PartitionKey, _Sentinel] = {}
        self.waiting: WaitingFetch | None = None  # the fetch that waits now

    def asks(self, who: object, now_s: float) -> bool:
        """The follower asks, in this life of it; False if everything is to be looked at."""
        self._asked_ms = int(now_s * 1000)
        if who == self._who and now_s - self._looked_at_all_s < LOOK_AT_ALL_S:
            return True
        self._who, self._looked_at_all_s = who, now_s
        return False

    def add(self, key: PartitionKey, partition: Replica) -> None:
        """A partition rests from now on."""
        found = self._sentinels.get(key)
        if found is None or found.partition is not partition:
            sentinel = self._sentinels[key] = _Sentinel(self, key, partition)
            partition.follower_fetches.add(sentinel)

    def happened(self, sentinel: "_Sentinel") -> WaitingFetch | None:
        """Something happened at a partition; the fetch that has to hear of it."""
        sentinel.leave()
        if self._sentinels.get(sentinel.key) is sentinel:
            del self._sentinels[sentinel.key]
            # Until then it had asked for what is behind the end, and there was nothing.
            sentinel.partition.follower_asked(self._follower, at_ms=self._asked_ms)
            self._wake(sentinel.key)
        return self.waiting

    def recheck(self, sentinel: "_Sentinel") -> None:
        """A partition is to be looked at when the follower asks the next time; until then its sentinel stays."""
        self._wake(sentinel.key)

    def end(self) -> None:
        """The session is over."""
        for sentinel in self._sentinels.values():
            sentinel.leave()
        self._sentinels.clear()


class _Sentinel:
    """Stands where a partition's followers wait, once."""

    __slots__ = ("_resting", "key", "partition")

    def __init__(self, resting: IdlePartitions, key: PartitionKey, partition: Replica) -> None:
        self._resting = resting
        self.key = key
        self.partition = partition

    def leave(self) -> None:
        self.partition.follower_fetches.discard(self)

    def bytes_came(self, count: int) -> None:
        waiting = self._resting.happened(self)
        if waiting is not None:
            waiting.bytes_came(count)

    def high_watermark_moved(self) -> None:
        waiting = self._resting.happened(self)
        if waiting is not None:
            waiting.high_watermark_moved()

    def end(self) -> None:
        waiting = self._resting.happened(self)
        if waiting is not None:
            waiting.end()

    def recheck(self) -> None:
        self._resting.recheck(self)
