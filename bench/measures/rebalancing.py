"""A thousand members share ten thousand partitions: how long it takes, and how long other clients wait."""

from bench.contestants import Contestant
from bench.load.gathering import gather
from bench.load.members import PROTOCOLS
from bench.load.pinging import pinging
from bench.rows import Better, Goal, Row
from bench.scale import Scale

NAME = "rebalancing"
TITLE = "a rebalance of many members"
WARM = True

_PAUSE_MS_MAX = 20
_SECONDS_MAX = 10
_MEMBERS_BEFORE = 5  # in a group that is not counted: what is measured has been run before


def rounds(_scale: Scale) -> int:
    return 1  # creating and deleting ten thousand partitions takes minutes


def seconds(scale: Scale) -> float:
    return len(PROTOCOLS) * 10 + scale.rebalanced_partitions / 150


def rows(scale: Scale) -> list[Row]:
    found = []
    for protocol in PROTOCOLS:
        title = (
            f"{scale.rebalanced_members:,} members join, {scale.rebalanced_partitions:,} partitions "
            f"({protocol} protocol)"
        )
        key = f"{NAME}.{protocol}"
        found += [
            Row(f"{key}.total", f"{title}: all settled", "s", Better.LESS, Goal(limit=_SECONDS_MAX)),
            Row(
                f"{key}.pause",
                f"{title}: longest wait of others",
                "ms",
                Better.LESS_AT_THE_TAIL,
                Goal(limit=_PAUSE_MS_MAX),
            ),
        ]
    return found


def turn(contestant: Contestant, scale: Scale) -> dict[str, float]:
    found = {}
    with contestant.topics(partitions=scale.rebalanced_partitions) as topics:
        for protocol in PROTOCOLS:
            gather(contestant.bootstrap, protocol, topics, members=_MEMBERS_BEFORE)
            with pinging(contestant.bootstrap) as pings:
                took_s = gather(contestant.bootstrap, protocol, topics, members=scale.rebalanced_members)
            found[f"{NAME}.{protocol}.total"] = took_s
            found[f"{NAME}.{protocol}.pause"] = pings.longest_ms
    return found
