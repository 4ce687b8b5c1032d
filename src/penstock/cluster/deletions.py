"""Which topics were deleted: what lets a broker delete a partition's directory that the metadata do not know.

A topic that the metadata do not know may have been deleted while the broker was away. It may as well be another
cluster's, or its metadata were lost. So a deletion is recorded by the topic's id, in the same `multi` that deletes the
topic: a node `/deletions/NUMBER.ID`. The last `KEPT` are kept; whoever was away for longer than that keeps the
directories of the rest, and names them when it starts.

Replicas that were moved to other brokers need no record: the metadata of their topic say who has them.
"""

from collections.abc import Iterable
from typing import NamedTuple

from penstock.base.errors import UserError
from penstock.base.ids import TopicId, format_id, parse_id

KEPT = 10_000  # some 400 kB as a list of names, of the megabyte that ZooKeeper gives in an answer
TRIMMED_EVERY = 500  # deletions


class Deletion(NamedTuple):
    """A topic that was deleted; a number that is None says that no record of it was found."""

    topic_id: TopicId
    number: int | None

    @property
    def is_recorded(self) -> bool:
        return self.number is not None

    @property
    def node(self) -> str:
        """The record's name."""
        assert self.number is not None
        return f"{self.number:010}.{format_id(self.topic_id)}"

    @property
    def is_time_to_trim(self) -> bool:
        """Whether older records are looked through now."""
        return self.number is not None and self.number % TRIMMED_EVERY == 0

    @classmethod
    def of_node(cls, name: str) -> "Deletion | None":
        """The deletion that a record is of; None for what is no record."""
        number, _, topic_id = name.partition(".")
        try:
            return cls(parse_id(topic_id), int(number))
        except (UserError, ValueError):
            return None


class Deletions:
    """The topics that were deleted last, by id, as a broker has heard of them."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}  # oldest first
        self._next_number = 0

    def __contains__(self, topic_id: object) -> bool:
        return topic_id in self._numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def of(self, topic_id: TopicId) -> Deletion:
        """What is known of a topic's deletion."""
        return Deletion(topic_id, self._numbers.get(topic_id))

    def next(self, topic_id: TopicId) -> Deletion:
        """The record of a deletion that is about to be made."""
        return Deletion(topic_id, self._next_number)

    def add(self, deletions: Iterable[Deletion]) -> None:
        """Take records that were written, or read."""
        for topic_id, number in deletions:
            if number is not None:
                self._numbers[topic_id] = number
                self._next_number = max(self._next_number, number + 1)
        for oldest in list(self._numbers)[: max(0, len(self._numbers) - KEPT - TRIMMED_EVERY)]:
            del self._numbers[oldest]


def surplus(nodes: Iterable[str]) -> list[str]:
    """The records that need not be kept, of all that there are."""
    return sorted(nodes)[:-KEPT]
