"""Idle partitions of a follower's fetch session: a fetch skips them until something happens there.

A follower fetches twice a second. To read a thousand idle partitions each time would be most of the CPU time of an idle
broker; with one busy partition among them it would be done for every batch. So a partition is idle if the follower has
all of its records, and its current offsets: a sentinel among the partition's delayed fetches is notified of the next
append, high watermark advance or role change, and makes the partition active again.
"""

from collections.abc import Callable
from typing import Final

from penstock.core.fetch_sessions import PartitionKey
from penstock.services.purgatory import FetchWait
from penstock.services.replicas.replica import Replica

# All partitions are read at least this often: some changes that responses carry are not signalled (retention).
LOOK_AT_ALL_S: Final = 10.0


class IdlePartitions:
    """The idle partitions of one session: the watch of `core.fetch_sessions`."""

    __slots__ = ("_asked_ms", "_follower", "_looked_at_all_s", "_sentinels", "_wake", "_who", "waiting")

    def __init__(self, follower: int, wake: Callable[[PartitionKey], None]) -> None:
        self._follower = follower
        self._wake = wake
        self._who: object = None
        self._asked_ms = 0
        self._looked_at_all_s = 0.0
        self._sentinels: dict[PartitionKey, _IdlePartitionWaiter] = {}
        self.waiting: FetchWait | None = None  # the session's delayed fetch

    def asks(self, who: object, now_s: float) -> bool:
        """Note a fetch of the follower, with its broker epoch; False if it has to read every partition."""
        self._asked_ms = int(now_s * 1000)
        if who == self._who and now_s - self._looked_at_all_s < LOOK_AT_ALL_S:
            return True
        self._who, self._looked_at_all_s = who, now_s
        return False

    def add(self, key: PartitionKey, partition: Replica) -> None:
        """Watch a partition that is idle from now on."""
        found = self._sentinels.get(key)
        if found is None or found.partition is not partition:
            sentinel = self._sentinels[key] = _IdlePartitionWaiter(self, key, partition)
            partition.follower_fetches.add(sentinel)

    def happened(self, sentinel: "_IdlePartitionWaiter") -> FetchWait | None:
        """Mark a partition as active again; the session's delayed fetch to notify, if there is one."""
        sentinel.leave()
        if self._sentinels.get(sentinel.key) is sentinel:
            del self._sentinels[sentinel.key]
            # Up to its last fetch the follower had asked for the log end offset, and so was caught up.
            leader = sentinel.partition.leader
            if leader is not None:
                leader.follower_fetched_again(self._follower, at_ms=self._asked_ms)
            self._wake(sentinel.key)
        return self.waiting

    def recheck(self, sentinel: "_IdlePartitionWaiter") -> None:
        """Have the follower's next fetch read a partition; its sentinel stays until then."""
        self._wake(sentinel.key)

    def end(self) -> None:
        """Remove the sentinels of a session that is over."""
        for sentinel in self._sentinels.values():
            sentinel.leave()
        self._sentinels.clear()


class _IdlePartitionWaiter:
    """Stands among the delayed follower fetches of an idle partition, until something happens there."""

    __slots__ = ("_idle", "key", "partition")

    def __init__(self, idle: IdlePartitions, key: PartitionKey, partition: Replica) -> None:
        self._idle = idle
        self.key = key
        self.partition = partition

    def leave(self) -> None:
        self.partition.follower_fetches.discard(self)

    def bytes_appended(self, count: int) -> None:
        waiting = self._idle.happened(self)
        if waiting is not None:
            waiting.bytes_appended(count)

    def high_watermark_advanced(self) -> None:
        waiting = self._idle.happened(self)
        if waiting is not None:
            waiting.high_watermark_advanced()

    def end(self) -> None:
        waiting = self._idle.happened(self)
        if waiting is not None:
            waiting.end()

    def recheck(self) -> None:
        self._idle.recheck(self)
