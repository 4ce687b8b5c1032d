"""Readers: members of groups, one that watches what groups have committed, and the last one, who reads everything."""

import contextlib
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from penstock.base.ids import TopicPartition as Place
from penstock.sim.checkers import Commit, CommittedRead, FinalRead, OperationOutcome, Poll, Seen
from penstock.sim.checkers import SentMessage as Sent
from penstock.sim.checkers.history import NO_OFFSET
from tests.chaos.cluster.producing import CLIENT_SETTINGS, PATIENCE_S
from tests.chaos.cluster.recording import Recorder, log_of, number_in

UNKNOWN_HIGH_WATERMARK = 2**63 - 1  # librdkafka prefetches, and does not say which one came with a record
LOOK_EVERY_S = 0.5


class GroupReader(threading.Thread):
    """A member of a group that reads until `stop`, and records what it was given."""

    def __init__(self, recorder: Recorder, name: str, group: str) -> None:
        super().__init__(name=name, daemon=True)
        self.group = group
        self.seen: set[tuple[str, int, int]] = set()  # topic, partition, number
        self._recorder = recorder
        self._positions: dict[tuple[str, int], int] = {}
        self._session = 0
        self._stopping = threading.Event()

    def stop(self) -> None:
        self._stopping.set()

    def _begin_session(self) -> None:
        """It has other partitions now, and other positions."""
        self._session += 1
        self._positions.clear()

    def _note_poll(self, where: tuple[str, int], seen: Sequence[Seen], *, began: int, ended: int) -> None:
        next_position = seen[-1].offset + 1
        self._recorder.history.polls.append(
            Poll(
                self.name,
                self._session,
                log_of(*where),
                self._positions.get(where, seen[0].offset),
                next_position,
                tuple(seen),
                began=began,
                ended=ended,
                high_watermark=UNKNOWN_HIGH_WATERMARK,
                committed_only=True,
            )
        )
        self._positions[where] = next_position
        self.seen |= {(*where, each.message.number) for each in seen}

    def _note_commit(
        self, where: tuple[str, int], offset: int, *, began: int, ended: int, is_known: bool
    ) -> None:
        outcome = OperationOutcome.OK if is_known else OperationOutcome.UNKNOWN
        self._recorder.history.commits.append(
            Commit(self.group, Place(*where), offset, began, ended, outcome, self.name)
        )


class Member(GroupReader):
    """librdkafka's: reads its share and commits what it has read."""

    def __init__(
        self, recorder: Recorder, name: str, group: str, topics: Sequence[str], settings: dict[str, Any]
    ) -> None:
        super().__init__(recorder, name, group)
        self._topics = list(topics)
        self._settings = settings

    def run(self) -> None:
        consumer = Consumer(self._settings)
        try:
            consumer.subscribe(self._topics, on_assign=self._new_session, on_revoke=self._new_session)
            while not self._stopping.is_set():
                began = self._recorder.tick()
                messages = [each for each in consumer.consume(100, 0.2) if each.error() is None]
                if messages:
                    self._commit(consumer, self._note(messages, began))
        except Exception as error:
            self._recorder.complain(self.name, repr(error))
        finally:
            consumer.close()

    def _new_session(self, _consumer: Consumer, _partitions: object) -> None:
        self._begin_session()

    def _note(self, messages: Iterable[Message], began: int) -> list[TopicPartition]:
        by_partition: dict[tuple[str, int], list[Seen]] = defaultdict(list)
        for message in messages:
            by_partition[message.topic(), message.partition()].append(_seen(message))
        ended = self._recorder.tick()
        for where, seen in by_partition.items():
            self._note_poll(where, seen, began=began, ended=ended)
        return [TopicPartition(*where, seen[-1].offset + 1) for where, seen in by_partition.items()]

    def _commit(self, consumer: Consumer, offsets: list[TopicPartition]) -> None:
        began = self._recorder.tick()
        try:
            answers = consumer.commit(offsets=offsets, asynchronous=False)
            refused = {(each.topic, each.partition) for each in answers or () if each.error is not None}
        except KafkaException:
            refused = {(each.topic, each.partition) for each in offsets}
        ended = self._recorder.tick()
        for each in offsets:
            where = (each.topic, each.partition)
            self._note_commit(where, each.offset, began=began, ended=ended, is_known=where not in refused)


class Observer(threading.Thread):
    """Asks again and again what groups have committed."""

    def __init__(
        self,
        recorder: Recorder,
        groups: dict[str, Sequence[str]],
        settings: dict[str, Any],
        *,
        partitions: int,
    ) -> None:
        super().__init__(name="observer", daemon=True)
        self._recorder = recorder
        self._settings = settings
        self._wanted = {
            group: [TopicPartition(topic, index) for topic in topics for index in range(partitions)]
            for group, topics in groups.items()
        }
        self._stopping = threading.Event()

    def stop(self) -> None:
        self._stopping.set()

    def run(self) -> None:
        with contextlib.ExitStack() as stack:
            consumers = {
                group: stack.enter_context(
                    contextlib.closing(Consumer({**self._settings, "group.id": group}))
                )
                for group in self._wanted
            }
            while not self._stopping.wait(LOOK_EVERY_S):
                for group, consumer in consumers.items():
                    with contextlib.suppress(KafkaException):  # no answer: asked again next time
                        self._look(group, consumer)

    def _look(self, group: str, consumer: Consumer) -> None:
        began = self._recorder.tick()
        found = consumer.committed(self._wanted[group], timeout=5)
        ended = self._recorder.tick()
        self._recorder.history.committed_reads.extend(
            CommittedRead(
                group,
                Place(each.topic, each.partition),
                each.offset if each.offset >= 0 else NO_OFFSET,
                began,
                ended,
            )
            for each in found
            if each.error is None
        )


def consumer_settings(bootstrap: str, group: str, **more: object) -> dict[str, Any]:
    return {
        **CLIENT_SETTINGS,
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        **more,
    }


def read_to_the_end(
    recorder: Recorder, bootstrap: str, topic: str, partition: int, *, committed_only: bool
) -> list[int]:
    """Everything one partition holds, noted as the final read; the numbers, in their order."""
    isolation = "read_committed" if committed_only else "read_uncommitted"
    settings = consumer_settings(
        bootstrap, "last", **{"isolation.level": isolation, "enable.partition.eof": True}
    )
    where = TopicPartition(topic, partition, 0)
    seen: list[Seen] = []
    with contextlib.closing(Consumer(settings)) as consumer:
        began = recorder.tick()
        start, end = consumer.get_watermark_offsets(where, timeout=PATIENCE_S, cached=False)
        consumer.assign([where])
        deadline_s = time.monotonic() + PATIENCE_S
        is_at_end = False
        while not is_at_end and time.monotonic() < deadline_s:
            for message in consumer.consume(1000, 0.2):
                error = message.error()
                if error is None:
                    seen.append(_seen(message))
                elif error.name() == "_PARTITION_EOF":
                    is_at_end = message.offset() >= end  # else a transaction's end is still on its way
        if not is_at_end:
            recorder.complain(
                "last reader", f"{topic}-{partition}: the end, {end}, is not in sight ({isolation})"
            )
    log, ended = log_of(topic, partition), recorder.tick()
    recorder.history.polls.append(
        Poll(
            f"last reader ({isolation})",
            0,
            log,
            start,
            end if is_at_end else start,
            tuple(seen),
            began=began,
            ended=ended,
            high_watermark=end,
            committed_only=committed_only,
        )
    )
    if not committed_only:
        recorder.history.final_reads.append(FinalRead(log, start, end, recorder.tick(), now_ms=0))
    return [each.message.number for each in seen]


def _seen(message: Message) -> Seen:
    topic, value, offset = message.topic(), message.value(), message.offset()
    assert topic is not None
    assert value is not None
    assert offset is not None
    return Seen(offset, Sent(number_in(topic, value)))
