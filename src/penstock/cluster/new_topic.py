"""A topic that is to be created: by a client, by a coordinator that needs its internal topic, or by Metadata."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

DEFAULT = -1  # as the broker's settings have it


@dataclass(frozen=True)
class TopicSpec:
    """A topic to create, as a client asks for it."""

    name: str
    partition_count: int = DEFAULT
    replication_factor: int = DEFAULT
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)
    configs: Mapping[str, str] = field(default_factory=dict)
