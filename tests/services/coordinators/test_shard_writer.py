"""Decisions of one turn of the event loop are written as one batch, with the same results as separate batches."""

import asyncio
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from penstock.base.errors import ErrorCode, Refusal
from penstock.base.ids import CONSUMER_OFFSETS, TopicPartition
from penstock.core.coordinator_shard import BatchProducer, Decision
from penstock.core.groups.requests import FetchOffsets, OffsetCommit, OffsetToCommit
from penstock.records.batch import BatchHeader, headers
from penstock.records.builder import build_plain_batch
from penstock.records.control import Marker, MarkerType
from penstock.services.coordinators.coordinator import Coordinator
from penstock.storage.errors import NoRoomError
from tests.broker.controlled import ControlledBroker
from tests.services.coordinators.counting import (
    TOPIC,
    CountingShard,
    bump_leader_epoch,
    new_coordinator,
    partition_of,
)

NOT_COORDINATOR = Refusal(ErrorCode.NOT_COORDINATOR)
PRODUCER = BatchProducer(77, 3)
INDEX = 0


@pytest.fixture
def controlled() -> Iterator[ControlledBroker]:
    with ControlledBroker() as broker:
        yield broker


class Asked:
    """A loaded shard, asked without waiting for its answers."""

    def __init__(self, controlled: ControlledBroker, coordinator: Coordinator[CountingShard]) -> None:
        self._controlled = controlled
        self.coordinator = coordinator
        self.name = next(name for name in "abcdefgh" if coordinator.index_for(name) == INDEX)

    @classmethod
    async def started(cls, controlled: ControlledBroker, **configs: str) -> "Asked":
        coordinator = new_coordinator(controlled.broker, **configs)
        assert not isinstance(await coordinator.topic(), Refusal)
        assert await coordinator.ask_partition(INDEX, lambda shard, _: shard.list(lambda: True)) == []
        asked = cls(controlled, coordinator)
        await asyncio.sleep(0)
        return asked

    def ask(self, request: Any) -> Any:
        return self.coordinator.ask_at_once(self.name, request)

    def add(self, producer: BatchProducer | None = None) -> Any:
        return self.ask(lambda shard, now_ms: shard.add(self.name, now_ms, producer))

    def get(self) -> Any:
        return self.ask(lambda shard, _: shard.get(self.name))

    @property
    def partition(self) -> Any:
        return partition_of(self._controlled.broker, INDEX)

    def batches(self) -> list[BatchHeader]:
        log = self.partition.log
        data = log.read(0, max_bytes=1 << 24, upto_offset=log.end_offset, cached_only=False)
        return [header for _, header in headers(data)]

    def sizes(self) -> list[int]:
        return [header.record_count for header in self.batches()]

    async def loaded_again(self) -> tuple[dict[str, int], list[int]]:
        """What another coordinator finds in the log."""
        await self.coordinator.stop()
        again = new_coordinator(self._controlled.broker)
        state = await again.ask_partition(INDEX, lambda shard, _: _looked_at(shard))
        await again.stop()
        assert isinstance(state, tuple)
        return state


def _commit(offset: int) -> OffsetCommit:
    return OffsetCommit(group_id="g", offsets=[OffsetToCommit("t", 0, offset)])


def _looked_at(shard: CountingShard) -> Generator[None, None, Decision[Any]]:
    yield
    return Decision((dict(shard.counts), list(shard.offsets)))


def test_a_lone_decision_is_written_and_answered_at_once(controlled: ControlledBroker) -> None:
    async def story() -> None:
        asked = await Asked.started(controlled)
        for count in (1, 2, 3):
            assert asked.add() == count
            await asyncio.sleep(0)
        assert asked.sizes() == [1, 1, 1]
        await asked.coordinator.stop()

    controlled.run(story)


def test_decisions_of_the_same_turn_share_a_batch(controlled: ControlledBroker) -> None:
    async def story() -> None:
        asked = await Asked.started(controlled)
        assert asked.add() == 1
        waiting = [asked.add() for _ in range(4)]
        assert asked.sizes() == [1]
        assert await asyncio.gather(*waiting) == [2, 3, 4, 5]
        assert asked.sizes() == [1, 4]
        assert await asked.loaded_again() == ({asked.name: 5}, [0, 1, 2, 3, 4])

    controlled.run(story)


def test_a_busy_shard_gathers_decisions_until_a_turn_has_only_one(
    controlled: ControlledBroker,
) -> None:
    async def story() -> None:
        asked = await Asked.started(controlled)
        for _ in range(3):
            answers = [asked.add() for _ in range(5)]
            await asyncio.sleep(0)
            assert all(one.done() for one in answers if isinstance(one, asyncio.Future))
        assert asked.sizes() == [1, 4, 5, 5]
        assert await asked.add() == 16, "it still gathers"
        assert asked.add() == 17, "and now no more"
        assert asked.sizes() == [1, 4, 5, 5, 1, 1]
        await asked.coordinator.stop()

    controlled.run(story)


def test_with_a_linger_time_the_first_decision_is_gathered_too() -> None:
    with ControlledBroker(settings={"group.coordinator.append.linger.ms": 20}) as controlled:

        async def story() -> None:
            groups = controlled.broker.services.coordinators.groups
            assert not isinstance(await groups.topic(), Refusal)
            await groups.ask("g", lambda shard, now_ms: shard.commit_offsets(_commit(0), now_ms))
            partition = controlled.broker.services.logs.replicas.find_replica(
                CONSUMER_OFFSETS, groups.index_for("g")
            )
            first = groups.ask_at_once("g", lambda shard, now_ms: shard.commit_offsets(_commit(1), now_ms))
            second = groups.ask_at_once("g", lambda shard, now_ms: shard.commit_offsets(_commit(2), now_ms))
            assert partition.log.end_offset == 1
            assert await asyncio.gather(first, second) == [(ErrorCode.NONE,)] * 2
            data = partition.log.read(0, max_bytes=1 << 16, upto_offset=3, cached_only=False)
            assert [header.record_count for _, header in headers(data)] == [1, 2]

        controlled.run(story)


def test_a_read_waits_until_the_state_it_saw_is_written(controlled: ControlledBroker) -> None:
    async def story() -> None:
        asked = await Asked.started(controlled)
        asked.add()
        assert asked.get() == 1
        added, read = asked.add(), asked.get()
        assert not read.done()
        assert await asyncio.gather(added, read) == [2, 2]
        await asked.coordinator.stop()

    controlled.run(story)


def test_gathered_decisions_wait_for_the_high_watermark(controlled: ControlledBroker) -> None:
    async def story() -> None:
        asked = await Asked.started(controlled, flush_messages="1")
        controlled.gate.hold(f"{TOPIC}-{INDEX}/")
        waiting = [asked.add() for _ in range(4)]
        for _ in range(20):
            await asyncio.sleep(0)
        assert asked.sizes() == [1, 3]
        assert not any(one.done() for one in waiting)
        controlled.gate.release()
        assert await asyncio.gather(*waiting) == [1, 2, 3, 4]
        await asked.coordinator.stop()

    controlled.run(story)


def test_transactional_records_are_a_separate_batch_after_the_gathered_ones(
    controlled: ControlledBroker,
) -> None:
    async def story() -> None:
        asked = await Asked.started(controlled)
        asked.add()
        earlier = asked.add()
        assert asked.add(PRODUCER) == 3
        assert await earlier == 2
        assert [(one.record_count, one.is_transactional) for one in asked.batches()] == [
            (1, False),
            (1, False),
            (1, True),
        ]
        assert await asked.loaded_again() == ({asked.name: 2}, [0, 1, 2])

    controlled.run(story)


def test_a_marker_is_written_after_the_gathered_decisions(controlled: ControlledBroker) -> None:
    async def story() -> None:
        services = controlled.broker.services
        groups = services.coordinators.groups
        assert not isinstance(await groups.topic(), Refusal)
        index = groups.index_for("g")
        assert index is not None

        def commit(offset: int) -> Any:
            return groups.ask_at_once(
                "g", lambda shard, now_ms: shard.commit_offsets(_commit(offset), now_ms)
            )

        await commit(1)
        await groups.ask(
            "g", lambda shard, now_ms: shard.commit_offsets_in_transaction(_commit(5), PRODUCER, now_ms)
        )
        later = [commit(6), commit(7)]
        marker = Marker(MarkerType.COMMIT, PRODUCER.id, PRODUCER.epoch, 0)
        where = TopicPartition(CONSUMER_OFFSETS, index)
        written = services.transactions.marker_appender.append(marker, where, version=0, timeout_ms=60_000)
        assert written is ErrorCode.NONE
        assert await asyncio.gather(*later) == [(ErrorCode.NONE,)] * 2
        log = services.logs.replicas.find_replica(*where).log
        data = log.read(0, max_bytes=1 << 16, upto_offset=log.end_offset, cached_only=False)
        assert [header.is_control for _, header in headers(data)] == [False, False, False, True]
        fetched = await groups.ask("g", lambda shard, _: shard.fetch_offsets(FetchOffsets(group_id="g")))
        assert [found.offset for found in fetched] == [7], "the later record wins, not the later marker"

    controlled.run(story)


def test_the_size_of_a_batch_is_limited(controlled: ControlledBroker) -> None:
    async def story() -> None:
        asked = await Asked.started(controlled)
        answers = [asked.ask(lambda shard, _: shard.add_large(asked.name, 20)) for _ in range(10)]
        written = asked.sizes()
        assert 20 < sum(written) < 200, "some before the turn was over"
        for answer in answers[1:]:
            assert await answer == 20
        assert sum(asked.sizes()) == 200
        assert all(header.size < 1 << 17 for header in asked.batches())
        assert (await asked.loaded_again())[1] == list(range(200))

    controlled.run(story)


def test_a_decision_that_is_too_large_is_refused_and_those_around_it_are_not(
    controlled: ControlledBroker,
) -> None:
    async def story() -> None:
        asked = await Asked.started(controlled, max_message_bytes="2000")
        asked.add()
        before = asked.add()
        assert asked.ask(lambda shard, _: shard.add_large(asked.name, 3)) == Refusal(
            ErrorCode.MESSAGE_TOO_LARGE
        )
        after = asked.add()
        assert await asyncio.gather(before, after) == [2, 3]
        assert (await asked.loaded_again())[0] == {asked.name: 3}

    controlled.run(story)


@pytest.mark.interpreted("Log.append")
def test_a_failed_write_is_answered_to_all_its_requests_and_is_not_in_the_state(
    controlled: ControlledBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        asked = await Asked.started(controlled)

        def no_room(*_: object, **__: object) -> None:
            raise NoRoomError("the disk is full")

        assert asked.add() == 1
        waiting = [asked.add(), asked.get(), asked.add()]
        monkeypatch.setattr(type(asked.partition.log), "append", no_room)
        assert await asyncio.gather(*waiting) == [NOT_COORDINATOR] * 3
        monkeypatch.undo()
        assert await asked.get() == 1
        assert asked.add() == 2
        await asked.coordinator.stop()

    controlled.run(story)


def test_a_dropped_shard_writes_nothing_of_what_it_gathered(controlled: ControlledBroker) -> None:
    async def story() -> None:
        asked = await Asked.started(controlled)
        asked.add()
        lost = asked.add()
        partition = asked.partition
        bump_leader_epoch(partition)
        found = asked.get()
        assert await lost == NOT_COORDINATOR
        assert await found == 1
        assert asked.sizes() == [1]
        await asked.coordinator.stop()

    controlled.run(story)


def test_a_shard_whose_log_another_writer_appended_to_is_reloaded(controlled: ControlledBroker) -> None:
    async def story() -> None:
        asked = await Asked.started(controlled)
        asked.add()
        waiting = asked.add()
        foreign = build_plain_batch([(b"\x00\x09later", b"\x00\x00")], timestamp=1)
        asked.partition.leader.append_own(foreign, now_ms=1)
        assert await waiting == NOT_COORDINATOR
        assert await asked.get() == 2, "it was written, and so it counts"
        assert (await asked.loaded_again())[1] == [0, 2]

    controlled.run(story)
