"""A rolling restart of a group: one member after the other leaves and comes back, while records keep coming.

Every partition gets a record each 50 ms. It stalls while no consumer gets one: distances of more than 100 ms
between two records are added up, over the whole restart. The next member is restarted when records come out of all
partitions again. Clients have their own intervals of heartbeats, 3 s (classic) and 5 s (new), on both brokers.
"""

import itertools
import statistics
import time
from collections.abc import Iterable
from typing import NamedTuple

from bench.contestants import Contestant
from bench.load.members import PROTOCOLS, Members, consumer_settings
from bench.load.steady import steady_records
from bench.rows import Better, Goal, Row
from bench.scale import Scale

NAME = "restarting"
TITLE = "a rolling restart of a group"
WARM = True

_PARTITIONS_EACH = 2
_EVERY_S = 0.05
_STILL_S = 0.1
_EXPECTED_S = 7  # until all is settled after one restart

_numbers = itertools.count()


class Restart(NamedTuple):
    """How long it took, and how long a partition stood still meanwhile."""

    seconds: float
    still_seconds: float  # the mean of all partitions
    still_seconds_max: float  # of the partition that was worst off


def rounds(_scale: Scale) -> int:
    return 1


def seconds(scale: Scale) -> float:
    return len(PROTOCOLS) * (scale.group_members + 2) * _EXPECTED_S


def rows(scale: Scale) -> list[Row]:
    found = []
    for protocol in PROTOCOLS:
        title = f"rolling restart of {scale.group_members} members ({protocol} protocol)"
        key = f"{NAME}.{protocol}"
        found += [
            Row(f"{key}.still", f"{title}: stand-still", "s", Better.LESS, Goal(ratio=0.5), charted=True),
            Row(f"{key}.worst", f"{title}: worst partition", "s", Better.LESS),
            Row(f"{key}.total", f"{title}: in all", "s", Better.LESS),
        ]
    return found


def turn(contestant: Contestant, scale: Scale) -> dict[str, float]:
    found = {}
    for protocol in PROTOCOLS:
        restart = _restart_all(contestant, protocol, scale)
        found[f"{NAME}.{protocol}.still"] = restart.still_seconds
        found[f"{NAME}.{protocol}.worst"] = restart.still_seconds_max
        found[f"{NAME}.{protocol}.total"] = restart.seconds
    return found


def _restart_all(contestant: Contestant, protocol: str, scale: Scale) -> Restart:
    count = scale.group_members
    partitions = count * _PARTITIONS_EACH
    with (
        contestant.topic(partitions=partitions) as topic,
        steady_records(contestant.bootstrap, topic, partitions=partitions, every_s=_EVERY_S),
        Members(topic, partitions) as members,
    ):
        group = f"{topic}-{next(_numbers)}"
        settings = consumer_settings(contestant.bootstrap, group, protocol, heartbeat_ms=scale.heartbeat_ms)
        running = [members.join(settings) for _ in range(count)]
        members.wait_until_settled()
        started = time.monotonic()
        for member in running:
            member.leave()
            members.join(settings)
            members.wait_until_settled()
        ended = time.monotonic()
        still = [still_seconds(arrivals_s, started, ended) for arrivals_s in members.arrivals_s.values()]
    return Restart(ended - started, statistics.mean(still), max(still))


def still_seconds(arrivals_s: Iterable[float], started: float, ended: float) -> float:
    """How much of the time from start to end lies in distances between records that are too long."""
    inside = [moment for moment in arrivals_s if started < moment < ended]
    moments = [started, *inside, ended]
    distances = (later - sooner for sooner, later in itertools.pairwise(moments))
    return sum(distance for distance in distances if distance > _STILL_S)
