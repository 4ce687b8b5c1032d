"""Members of a group: librdkafka's consumers, each polled by a thread of its own, and who has which partition."""

import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer

CLASSIC = "classic"
CONSUMER = "consumer"
PROTOCOLS = (CLASSIC, CONSUMER)

_STRATEGY = "cooperative-sticky"  # the classic protocol's best: members that keep a partition read on
_POLL_S = 0.1
_PATIENCE_S = 90


def consumer_settings(bootstrap: str, group: str, protocol: str, *, heartbeat_ms: int) -> dict[str, object]:
    """A member that reads partitions without committed offsets from the beginning; all else is librdkafka's default."""
    settings: dict[str, object] = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
    }
    if protocol == CLASSIC:
        settings["partition.assignment.strategy"] = _STRATEGY
        settings["heartbeat.interval.ms"] = heartbeat_ms
    return settings


class Members:
    """All members of one group on this side, what they own, and when a record of each partition was last heard of."""

    def __init__(self, topic: str, partitions: int) -> None:
        self.topic = topic
        self.partitions = frozenset(range(partitions))
        self.arrivals_s: dict[int, list[float]] = {partition: [] for partition in range(partitions)}
        self._running: dict[Member, None] = {}
        self._changed = threading.Condition()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for member in list(self._running):
            member.leave()

    def join(self, settings: Mapping[str, object]) -> "Member":
        member = Member(self, settings)
        with self._changed:
            self._running[member] = None
        member.start()
        return member

    def wait_until_settled(self) -> None:
        """Every partition has one owner, every member some partitions, and records come out of all of them."""
        with self._changed:
            assert self._changed.wait_for(self._is_settled, _PATIENCE_S), f"not settled: {self._state()}"

    def left(self, member: "Member") -> None:
        with self._changed:
            del self._running[member]
            self._changed.notify_all()

    def heard(self, member: "Member", owned: frozenset[int], partition: int | None) -> None:
        """A member polled: it owns these, and a record of `partition` came."""
        now = time.monotonic()
        with self._changed:
            if member.owned != owned:
                member.owned = owned
                member.heard_of &= owned
            if partition is not None:
                self.arrivals_s[partition].append(now)
                member.heard_of.add(partition)
            self._changed.notify_all()

    def _is_settled(self) -> bool:
        owned = [partition for member in self._running for partition in member.owned]
        return (
            len(owned) == len(self.partitions)
            and frozenset(owned) == self.partitions
            and all(member.owned and member.heard_of >= member.owned for member in self._running)
        )

    def _state(self) -> str:
        return ", ".join(
            f"{sorted(member.owned)} heard of {sorted(member.heard_of)}" for member in self._running
        )


class Member(threading.Thread):
    """Polls until it leaves."""

    def __init__(self, members: Members, settings: Mapping[str, object]) -> None:
        super().__init__(daemon=True)
        self.owned: frozenset[int] = frozenset()
        self.heard_of: set[int] = set()  # of what it owns, since it does
        self._members = members
        self._settings = settings
        self._leaving = threading.Event()

    def run(self) -> None:
        consumer = Consumer(dict(self._settings))
        consumer.subscribe([self._members.topic])
        while not self._leaving.is_set():
            message = consumer.poll(_POLL_S)
            owned = frozenset(each.partition for each in consumer.assignment())
            partition = None if message is None or message.error() else message.partition()
            self._members.heard(self, owned, partition)
        consumer.close()

    def leave(self) -> None:
        """Commit, give everything back, and be gone."""
        self._leaving.set()
        self.join(_PATIENCE_S)
        assert not self.is_alive(), "a member does not leave"
        self._members.left(self)
