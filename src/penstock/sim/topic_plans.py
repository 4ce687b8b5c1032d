"""The topics of a plan: what each is configured to keep, and what a checker may therefore expect of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from penstock.sim.checkers import Keeping

FOREVER = "-1"

# Small, so that a few batches fill a segment.
_SEGMENT_BYTES = (300, 700, 2000, 20_000)
_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """One topic: as it is created, and created again."""

    name: str
    partitions: int
    configs: Mapping[str, str]
    replication_factor: int = -1  # as the broker likes

    @property
    def is_keyed(self) -> bool:
        """Whether records need a key."""
        return "compact" in self.configs["cleanup.policy"]


def keeping(configs: Mapping[str, str]) -> Keeping:
    """What a topic with these configs promises."""
    policy = configs["cleanup.policy"]
    compacts, deletes = "compact" in policy, "delete" in policy
    return Keeping(
        flushes_every_batch=configs.get("flush.messages") == "1",
        in_memory=configs.get("penstock.storage") == "memory",
        compacts=compacts,
        tombstones_ms=int(configs.get("delete.retention.ms", _DAY_MS)) if compacts else None,
        retention_ms=_limit(configs["retention.ms"]) if deletes else None,
        retention_bytes=_limit(configs["retention.bytes"]) if deletes else None,
    )


def _limit(value: str) -> int | None:
    return None if value == FOREVER else int(value)


def draw_topic(chance: Random, name: str) -> TopicPlan:
    """One topic of any sort."""
    configs = {
        "cleanup.policy": "delete",
        "retention.ms": FOREVER,
        "retention.bytes": FOREVER,
        "internal.segment.bytes": str(chance.choice(_SEGMENT_BYTES)),
        "index.interval.bytes": str(chance.choice((1, 100, 4096))),
        "file.delete.delay.ms": str(chance.choice((0, 300, 60_000))),
    }
    sort = chance.choice(("kept", "kept", "compacted", "compacted", "short", "old", "memory"))
    if sort == "compacted":
        configs |= compaction(chance)
    elif sort == "short":
        configs["retention.bytes"] = str(chance.choice((500, 2000)))
    elif sort == "old":
        configs["retention.ms"] = str(chance.choice((2_000, 10_000)))
    if sort == "memory":
        configs["penstock.storage"] = "memory"
    elif chance.random() < 0.6:
        configs["flush.messages"] = "1"
    return TopicPlan(name, chance.randint(1, 2), configs)


def compaction(chance: Random) -> dict[str, str]:
    """What makes compaction run all the time."""
    return {
        "cleanup.policy": chance.choice(("compact", "compact", "compact,delete")),
        "min.cleanable.dirty.ratio": "0",
        "segment.ms": str(chance.choice((500, 2_000))),
        "delete.retention.ms": str(chance.choice((0, 3_000, _DAY_MS))),
        "max.compaction.lag.ms": "1000",
    }
