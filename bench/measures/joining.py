"""From joining a group to the first record: a member that is alone, and one that joins others; both protocols.

The clock starts when librdkafka's consumer is made, so connecting and finding the coordinator are in it. Neither
broker waits for more members before it answers the first (`group.initial.rebalance.delay.ms=0`); who is in a group
already learns at its next heartbeat, of 3 s in the classic protocol and 5 s in the new one, that a member joined.
"""

import itertools
import statistics
import time

from confluent_kafka import Consumer

from bench.contestants import Contestant
from bench.load.members import PROTOCOLS, Members, consumer_settings
from bench.load.steady import fill
from bench.rows import Better, Goal, Row
from bench.scale import Scale

NAME = "joining"
TITLE = "joining a group"
WARM = True

_PARTITIONS = 8
_OTHERS = 3
_PATIENCE_S = 60
_EXPECTED_S = {"alone": 0.3, "beside": 6.0}

_numbers = itertools.count()


def rounds(_scale: Scale) -> int:
    return 1  # joins several times by itself


def seconds(scale: Scale) -> float:
    alone, beside = _EXPECTED_S.values()
    return len(PROTOCOLS) * ((scale.joins + 1) * alone + (scale.joins_beside_others + 2) * beside)


def rows(_scale: Scale) -> list[Row]:
    found = []
    for protocol in PROTOCOLS:
        title = f"join to first record ({protocol} protocol)"
        found += [
            Row(f"{NAME}.{protocol}.alone", title, "ms", Better.LESS, Goal(ratio=1), charted=True),
            Row(f"{NAME}.{protocol}.beside", f"{title}, beside {_OTHERS} others", "ms", Better.LESS),
        ]
    return found


def turn(contestant: Contestant, scale: Scale) -> dict[str, float]:
    found = {}
    with contestant.topic(partitions=_PARTITIONS) as topic:
        fill(contestant.bootstrap, topic, partitions=_PARTITIONS)
        for protocol in PROTOCOLS:
            alone = [
                _first_record_ms(_member_of_new_group(contestant, topic, protocol, scale), topic)
                for _ in range(scale.joins + 1)
            ]
            found[f"{NAME}.{protocol}.alone"] = statistics.median(alone[1:])
            settings = _member_of_new_group(contestant, topic, protocol, scale)
            beside = _join_others(settings, topic, times=scale.joins_beside_others)
            found[f"{NAME}.{protocol}.beside"] = statistics.median(beside)
    return found


def _member_of_new_group(
    contestant: Contestant, topic: str, protocol: str, scale: Scale
) -> dict[str, object]:
    group = f"{topic}-{next(_numbers)}"
    settings = consumer_settings(contestant.bootstrap, group, protocol, heartbeat_ms=scale.heartbeat_ms)
    # No member commits: each reads its partitions from the beginning.
    return {**settings, "enable.auto.commit": False}


def _join_others(settings: dict[str, object], topic: str, *, times: int) -> list[float]:
    found = []
    with Members(topic, _PARTITIONS) as members:
        for _ in range(_OTHERS):
            members.join(settings)
        for _ in range(times):
            members.wait_until_settled()
            found.append(_first_record_ms(settings, topic))
    return found


def _first_record_ms(settings: dict[str, object], topic: str) -> float:
    started = time.perf_counter()
    consumer = Consumer(settings)
    try:
        consumer.subscribe([topic])
        message = consumer.poll(_PATIENCE_S)
        found_ms = (time.perf_counter() - started) * 1000
        assert message is not None, "a member was given no record"
        assert message.error() is None, message.error()
    finally:
        consumer.close()
    return found_ms
