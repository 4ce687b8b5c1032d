"""The properties of a topic to create: for CreateTopics, internal topics of coordinators and auto-creation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

DEFAULT = -1  # the broker's setting applies


@dataclass(frozen=True)
class TopicSpec:
    """A topic to create, as it was requested."""

    name: str
    partition_count: int = DEFAULT
    replication_factor: int = DEFAULT
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)
    configs: Mapping[str, str] = field(default_factory=dict)
