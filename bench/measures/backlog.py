"""Latency at the tail while another consumer reads a cold backlog from the disk.

Broker, reader and the two ends of the latency measurement share the machine, so some of the tail is the scheduler's;
it is the same for both brokers.
"""

import multiprocessing
import os
import shutil
import tempfile
import time
from multiprocessing.synchronize import Event
from pathlib import Path

from confluent_kafka import TopicPartition

from bench.contestants import Contestant
from bench.load.frames import batch_of_size, good_answer, produce_frames
from bench.load.paced import measure_latency, new_stop
from bench.load.raw import run_load
from bench.load.throughput import new_consumer, read_count
from bench.measures import latency
from bench.rows import Better, Row
from bench.scale import Scale
from penstock.records.batch import read_header

NAME = "backlog"
TITLE = "latency beside a cold backlog"
WARM = True

_PARTITIONS = 6
_BATCH_BYTES = 256 * 1024
_SECONDS_MAX = 300
_SAMPLES = 200
_ROOM_TO_SPARE = 2 << 30
_PROCESSES = multiprocessing.get_context("spawn")


class NoRoomError(Exception):
    """The disk is too full for the backlog."""


def rounds(_scale: Scale) -> int:
    return 1


def seconds(scale: Scale) -> float:
    return 8 + scale.backlog_bytes / 150e6


def rows(_scale: Scale) -> list[Row]:
    return [
        *latency.latency_rows(NAME, "latency beside a cold read"),
        Row(f"{NAME}.read", "cold read beside the latency load", "MB/s", Better.MORE),
        Row(f"{NAME}.cold", "share of the backlog that was cold", "", Better.MORE, compared=False),
    ]


def turn(contestant: Contestant, scale: Scale) -> dict[str, float]:
    free = shutil.disk_usage(tempfile.gettempdir()).free
    if free < scale.backlog_bytes + _ROOM_TO_SPARE:
        raise NoRoomError(
            f"{free / 1e9:.0f} GB are free, {scale.backlog_bytes / 1e9:.0f} and some are needed"
        )
    with contestant.topic(partitions=_PARTITIONS) as backlog, contestant.topic(partitions=1) as tail:
        message_count = _write(contestant.bootstrap, backlog, scale.backlog_bytes)
        cold = cool(contestant.broker.data, backlog)
        stop = new_stop()
        result = _PROCESSES.Queue()
        reader = _PROCESSES.Process(
            target=_read, args=(contestant.bootstrap, backlog, message_count, stop, result)
        )
        reader.start()
        try:
            found = measure_latency(
                contestant.bootstrap, tail, rate=latency.RATE, seconds=_SECONDS_MAX, until=stop
            )
            read_seconds = result.get(timeout=_SECONDS_MAX)
        finally:
            reader.join(_SECONDS_MAX)
    return {
        **latency.figures(NAME, found),
        f"{NAME}.read": scale.backlog_bytes / 1e6 / read_seconds,
        f"{NAME}.cold": cold,
    }


def _write(bootstrap: str, topic: str, total_bytes: int) -> int:
    """Fill the partitions evenly; how many messages that were."""
    batch = batch_of_size(_BATCH_BYTES)
    load = run_load(
        bootstrap,
        produce_frames(topic, range(_PARTITIONS), batch),
        good_answer(topic),
        connections=_PARTITIONS,
        in_flight=2,
        seconds=_SECONDS_MAX,
        laps=-(-total_bytes // (len(batch) * _PARTITIONS)),
    )
    return load.requests * read_header(batch).record_count


def cool(data: Path, topic: str) -> float:
    """Take the topic's segments out of the page cache; the share that is gone from it, by samples."""
    os.sync()  # what is not on the disk yet cannot be dropped
    segments = sorted(data.glob(f"{topic}-*/*.log"))
    found = []
    for segment in segments:
        descriptor = os.open(segment, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            size = os.fstat(descriptor).st_size
            found += [_is_cold(descriptor, size * sample // _SAMPLES) for sample in range(_SAMPLES)]
        finally:
            os.close(descriptor)
    return sum(found) / len(found) if found else 0.0


def _is_cold(descriptor: int, position: int) -> bool:
    try:
        os.preadv(descriptor, [bytearray(1)], position, os.RWF_NOWAIT)
    except BlockingIOError:
        return True
    return False


def _read(
    bootstrap: str, topic: str, message_count: int, stop: Event, result: "multiprocessing.Queue[float]"
) -> None:
    """A process of its own: reads everything once, then ends the measurement."""
    consumer = new_consumer(bootstrap)
    consumer.list_topics(topic)
    time.sleep(1.5)  # the latency load is running and past its first second
    started = time.perf_counter()
    consumer.assign([TopicPartition(topic, index, 0) for index in range(_PARTITIONS)])
    finished = read_count(consumer, message_count)
    stop.set()
    result.put(finished - started)
    consumer.close()
