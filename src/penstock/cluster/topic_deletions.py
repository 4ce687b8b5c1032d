"""The records of deleted topics, which allow a broker to delete the directories of their partitions.

A topic that is missing in the metadata may have been deleted while the broker was down. It may also belong to another
cluster, or its metadata may have been lost. So the controller records each deletion by topic id, in the same `multi`
that deletes the topic, as a node `/deletions/NUMBER.ID`. A broker deletes a partition's directory only if its topic id
(in `partition.metadata`) has such a record, or if the topic exists and has this partition's replicas on other brokers:
moved replicas need no record. `services/other_directories.py` applies this when a broker starts.

The last `KEPT` records are kept. A broker that was down during more deletions than that keeps the directories of the
older ones, and names them in a warning when it starts.
"""

from collections.abc import Iterable
from typing import NamedTuple

from penstock.base.errors import UserError
from penstock.base.ids import TopicId, format_id, parse_id

KEPT = 10_000  # some 400 kB as a list of names; a ZooKeeper response is limited to 1 MB
TRIMMED_EVERY = 500  # deletions


class Deletion(NamedTuple):
    """A deleted topic; `number` is None if the deletion has no record."""

    topic_id: TopicId
    number: int | None

    @property
    def is_recorded(self) -> bool:
        return self.number is not None

    @property
    def node(self) -> str:
        """The name of the record's node."""
        assert self.number is not None
        return f"{self.number:010}.{format_id(self.topic_id)}"

    @property
    def is_time_to_trim(self) -> bool:
        """Whether the controller deletes surplus records with this deletion."""
        return self.number is not None and self.number % TRIMMED_EVERY == 0

    @classmethod
    def of_node(cls, name: str) -> "Deletion | None":
        """Parse the name of a record's node; None if it is not one."""
        number, _, topic_id = name.partition(".")
        try:
            return cls(parse_id(topic_id), int(number))
        except (UserError, ValueError):
            return None


class Deletions:
    """The recorded deletions by topic id, as this broker has loaded them."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}  # oldest first
        self._next_number = 0

    def __contains__(self, topic_id: object) -> bool:
        return topic_id in self._numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def of(self, topic_id: TopicId) -> Deletion:
        """The deletion of a topic, with its number if it is recorded."""
        return Deletion(topic_id, self._numbers.get(topic_id))

    def next(self, topic_id: TopicId) -> Deletion:
        """A deletion with the next free number, for a topic that is about to be deleted."""
        return Deletion(topic_id, self._next_number)

    def add(self, deletions: Iterable[Deletion]) -> None:
        """Add records that were written to the store, or read from it."""
        for topic_id, number in deletions:
            if number is not None:
                self._numbers[topic_id] = number
                self._next_number = max(self._next_number, number + 1)
        for oldest in list(self._numbers)[: max(0, len(self._numbers) - KEPT - TRIMMED_EVERY)]:
            del self._numbers[oldest]


def surplus(nodes: Iterable[str]) -> list[str]:
    """Of all record nodes, those to delete: all but the last `KEPT`."""
    return sorted(nodes)[:-KEPT]
