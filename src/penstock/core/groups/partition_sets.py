"""Sets of partitions by topic id: target assignments, owned partitions, heartbeats.

Immutable by convention: a change makes a new mapping. A topic without partitions is never in it, so that equal sets
are equal mappings.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from penstock.base.ids import TopicId

Assignment: TypeAlias = Mapping[TopicId, frozenset[int]]

NOTHING: Final[Assignment] = {}


def assignment_of(topics: Iterable[tuple[TopicId, Iterable[int]]]) -> Assignment:
    """From topics and their partitions, as records and requests list them; a topic may be listed more than once."""
    gathered: dict[TopicId, frozenset[int]] = {}
    for topic_id, partitions in topics:
        wanted = gathered.get(topic_id, frozenset()).union(partitions)
        if wanted:
            gathered[topic_id] = wanted
    return gathered


def listed(assignment: Assignment) -> Iterator[tuple[TopicId, list[int]]]:
    """Topics and their partitions, both sorted: records and responses do not depend on hashes."""
    for topic_id in sorted(assignment):
        yield topic_id, sorted(assignment[topic_id])


def common(one: Assignment, other: Assignment) -> Assignment:
    """What is in both."""
    shared = (
        (topic_id, partitions & other.get(topic_id, frozenset())) for topic_id, partitions in one.items()
    )
    return {topic_id: partitions for topic_id, partitions in shared if partitions}


def without(one: Assignment, other: Assignment) -> Assignment:
    """What is in `one` and not in `other`."""
    rest = ((topic_id, partitions - other.get(topic_id, frozenset())) for topic_id, partitions in one.items())
    return {topic_id: partitions for topic_id, partitions in rest if partitions}


def together(one: Assignment, other: Assignment) -> Assignment:
    """What is in either."""
    return assignment_of((*one.items(), *other.items()))


def is_within(one: Assignment, other: Assignment) -> bool:
    """Is all of `one` in `other`?"""
    return not without(one, other)


def count(assignment: Assignment) -> int:
    return sum(map(len, assignment.values()))
