"""Features: what a cluster's brokers have agreed to do, each by a level that all of them support (KIP-584).

    group.version         1: groups of the consumer protocol (KIP-848)
    transaction.version   1: records in __transaction_state that can carry more than the oldest ones
                          2: every end of a transaction brings a new epoch (KIP-890)
    penstock.version      what is written to data directories and to the metadata, as Kafka's metadata.version
                          2: a data directory says which level it is of, so that a program that does not know that level
                             keeps off it
    penstock.peer.version what brokers ask each other beyond Kafka's protocol
                          1: they prove to each other that they belong to the cluster, and have private API keys

A *supported* range is of one broker's program, a *finalised* level is the cluster's. A change of what is written, or of
what brokers tell each other, comes with a new level here, and is made only where that level is finalised.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

GROUP_VERSION: Final = "group.version"
TRANSACTION_VERSION: Final = "transaction.version"
PENSTOCK_VERSION: Final = "penstock.version"
PEER_VERSION: Final = "penstock.peer.version"


class LevelRange(NamedTuple):
    """The levels of a feature that a broker supports, both ends included."""

    lowest: int
    highest: int

    def covers(self, level: int) -> bool:
        return self.lowest <= level <= self.highest

    def __str__(self) -> str:
        return f"{self.lowest}-{self.highest}" if self.lowest < self.highest else str(self.lowest)


SUPPORTED: Final[Mapping[str, LevelRange]] = {
    GROUP_VERSION: LevelRange(0, 1),
    PEER_VERSION: LevelRange(0, 1),
    PENSTOCK_VERSION: LevelRange(1, 2),
    TRANSACTION_VERSION: LevelRange(0, 2),
}

# Of clusters, and brokers, from before there were levels: what they did is this.
LEVELS_BEFORE: Final[Mapping[str, int]] = {GROUP_VERSION: 1, PENSTOCK_VERSION: 1, TRANSACTION_VERSION: 2}
RANGES_BEFORE: Final[Mapping[str, LevelRange]] = {
    name: LevelRange(level, level) for name, level in LEVELS_BEFORE.items()
}


def lowered(limits: Iterable[str]) -> dict[str, LevelRange]:
    """What this program supports, without the levels above `limits`, each NAME=LEVEL: the program before it, for tests
    of rolling upgrades.
    """
    ranges = dict(SUPPORTED)
    for limit in limits:
        name, level = _split(limit)
        ranges[name] = ranges[name]._replace(highest=level)
    return ranges


def are_limits(limits: Iterable[str]) -> bool:
    """Whether all of them are levels that there are."""
    return all(_is_limit(limit) for limit in limits)


def _is_limit(limit: str) -> bool:
    name, is_pair, level = limit.partition("=")
    return (
        bool(is_pair)
        and name in SUPPORTED
        and level.isascii()
        and level.isdecimal()
        and SUPPORTED[name].covers(int(level))
    )


def _split(limit: str) -> tuple[str, int]:
    name, _, level = limit.partition("=")
    return name, int(level)
