"""Many partitions: the same 16 KiB batches to 10, 1,000 and 10,000 of them, with and without a sync per batch.

Every batch goes to another partition than the one before, in a request of its own, with five requests in flight per
connection (what an idempotent producer has at most).
"""

import time
from collections.abc import Sequence

from bench.contestants import Contestant
from bench.load.frames import Answer, Frame, batch_of_size, good_answer, produce_frames
from bench.load.raw import LoadError, run_load
from bench.rows import Better, Goal, Row
from bench.scale import Scale

NAME = "partitions"
TITLE = "many partitions"
WARM = True

_BATCH_BYTES = 16 * 1024
_CONNECTIONS = 50
_IN_FLIGHT = 5
_OWN_SHARE = 0.8
_READY_WITHIN_S = 300
_LAPS_BEFORE = 2  # the first batch of a partition creates files, the second begins Kafka's index


def rounds(_scale: Scale) -> int:
    return 1  # creating and deleting ten thousand partitions takes minutes


def seconds(scale: Scale) -> float:
    return 2 * sum(scale.load_seconds + 2 + count / 150 for count in scale.partition_counts)


def rows(scale: Scale) -> list[Row]:
    fewest, most = scale.partition_counts[0], scale.partition_counts[-1]
    found = []
    for synced in (False, True):
        for count in scale.partition_counts:
            goal = Goal(ratio=1)
            if count == most and most != fewest:
                goal = Goal(ratio=_OWN_SHARE, of_row=_key(fewest, synced))
            title = f"{count:,} partitions{', flush.messages=1' * synced}"
            charted = count == most
            found.append(Row(_key(count, synced), title, "MB/s", Better.MORE, goal, charted=charted))
    return found


def turn(contestant: Contestant, scale: Scale) -> dict[str, float]:
    return {
        _key(count, synced): _rate(contestant, count, synced=synced, seconds=scale.load_seconds)
        for synced in (False, True)
        for count in scale.partition_counts
    }


def _rate(contestant: Contestant, count: int, *, synced: bool, seconds: float) -> float:
    batch = batch_of_size(_BATCH_BYTES)
    configs = {"flush.messages": "1"} if synced else {}
    with contestant.topics(partitions=count, configs=configs) as topics:
        frames: list[Frame] = []
        for name, partitions in topics.items():
            frames += produce_frames(name, range(partitions), batch)
        answer = good_answer(next(iter(topics)))
        _touch_all(contestant.bootstrap, frames, answer)
        load = run_load(
            contestant.bootstrap,
            frames,
            answer,
            connections=min(_CONNECTIONS, len(frames)),
            in_flight=_IN_FLIGHT,
            seconds=seconds,
        )
    return load.rate * len(batch) / 1e6


def _touch_all(bootstrap: str, frames: Sequence[Frame], answer: Answer) -> None:
    """Get past what a partition costs once; and Kafka may need a while until it leads them all."""
    deadline = time.monotonic() + _READY_WITHIN_S
    while True:
        try:
            run_load(
                bootstrap,
                frames,
                answer,
                connections=min(_CONNECTIONS, len(frames)),
                in_flight=1,
                seconds=_READY_WITHIN_S,
                laps=_LAPS_BEFORE,
            )
            return
        except LoadError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def _key(count: int, synced: bool) -> str:
    return f"{NAME}.{count}{'.synced' * synced}"
