"""Features: levels of behaviour that all brokers of a cluster support and have finalised (KIP-584).

    group.version         1: groups of the consumer protocol (KIP-848)
    transaction.version   1: records in __transaction_state have tagged fields
                          2: every end of a transaction bumps the producer epoch (KIP-890)
    penstock.version      the format of data directories and metadata, as Kafka's metadata.version
                          2: a data directory records its level, so that an older version refuses to open it
    penstock.peer.version requests between brokers beyond Kafka's protocol
                          1: brokers prove to each other that they belong to the cluster, and have private API keys

A broker has a *supported* range of levels, the cluster has a *finalised* level. A change of formats or of requests
between brokers needs a new level here, and takes effect only when that level is finalised.

Three checks keep out a program that does not support a finalised level: the data directory records the level of
`penstock.version`; a broker compares the finalised levels before it opens a log; and the controller does not unfence a
broker that registered while a level was raised.
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

# The levels of clusters and brokers from before levels were recorded.
LEVELS_BEFORE: Final[Mapping[str, int]] = {GROUP_VERSION: 1, PENSTOCK_VERSION: 1, TRANSACTION_VERSION: 2}
RANGES_BEFORE: Final[Mapping[str, LevelRange]] = {
    name: LevelRange(level, level) for name, level in LEVELS_BEFORE.items()
}


def lowered(limits: Iterable[str]) -> dict[str, LevelRange]:
    """The supported ranges without the levels above `limits` (NAME=LEVEL each), as an older version had them.

    For tests of rolling upgrades.
    """
    ranges = dict(SUPPORTED)
    for limit in limits:
        name, level = _split(limit)
        ranges[name] = ranges[name]._replace(highest=level)
    return ranges


def are_limits(limits: Iterable[str]) -> bool:
    """Whether all of them are NAME=LEVEL with a supported level."""
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
