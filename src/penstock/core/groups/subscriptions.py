"""Topics that members of consumer groups subscribe to, by name or by regular expression."""

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, NamedTuple, Protocol

from penstock.base.ids import TopicId
from penstock.core.groups.regex import Expression

# Names matched between two yields: well under a millisecond's worth, even of long names.
_NAMES_IN_ONE_GO: Final = 20

NO_TOPICS_HASH: Final = 0


class SubscribableTopic(NamedTuple):
    """A topic that exists."""

    name: str
    topic_id: TopicId
    partition_count: int


class Topics(Protocol):
    """The topics of the cluster, as groups see them."""

    @property
    def version(self) -> int:
        """Grows whenever a topic is created, deleted or changed."""
        ...

    def named(self, name: str) -> SubscribableTopic | None: ...

    def with_id(self, topic_id: TopicId) -> SubscribableTopic | None: ...

    def names(self) -> Sequence[str]: ...


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    """The topics that matched a regular expression, and when."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


def matching(
    expressions: Mapping[str, Expression], names: Iterable[str]
) -> Generator[None, None, dict[str, frozenset[str]]]:
    """For each expression the names that match it; yields between small steps."""
    matched: dict[str, set[str]] = {text: set() for text in expressions}
    steps = 0
    for name in names:
        for text, expression in expressions.items():
            if (yield from expression.matching(name)):
                matched[text].add(name)
            steps += 1
            if steps % _NAMES_IN_ONE_GO == 0:
                yield
    return {text: frozenset(topics) for text, topics in matched.items()}


def hash_of(names: Iterable[str], topics: Topics) -> int:
    """A number that changes with the topics a group subscribes to: which of them exist, and their partitions."""
    digest = blake2b(digest_size=8)
    found = False
    for name in sorted(names):
        topic = topics.named(name)
        if topic is not None:
            found = True
            digest.update(f"{topic.topic_id.hex()} {topic.partition_count}\n".encode())
    return int.from_bytes(digest.digest(), "big", signed=True) if found else NO_TOPICS_HASH
