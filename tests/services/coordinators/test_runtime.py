"""The coordinator runtime: a decision is written as one batch, replayed at once, and answered when committed."""

import asyncio
import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.base.errors import ErrorCode, Refusal
from penstock.cluster.metadata import BrokerRegistration, MetadataImage
from penstock.cluster.topic_spec import TopicSpec
from penstock.core.coordinator_shard import BatchProducer, Decision, partition_for
from penstock.records.batch import headers
from penstock.records.builder import build_batch
from penstock.records.control import Marker, MarkerType, build_marker
from penstock.records.internal.record import InternalRecord
from penstock.records.record import Record
from penstock.services.coordinators.coordinator import Coordinator
from penstock.services.coordinators.internal_topics import InternalTopic, create
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
OTHER_NODE = 9


@pytest.fixture
def controlled() -> Iterator[ControlledBroker]:
    with ControlledBroker() as broker:
        yield broker


async def started(controlled: ControlledBroker, **configs: str) -> Coordinator[CountingShard]:
    coordinator = new_coordinator(controlled.broker, **configs)
    assert not isinstance(await coordinator.topic(), Refusal)
    return coordinator


def add(name: str) -> Any:
    return lambda shard, now_ms: shard.add(name, now_ms)


def get(name: str) -> Any:
    return lambda shard, _: shard.get(name)


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def batches(controlled: ControlledBroker, index: int) -> list[Any]:
    log = partition_of(controlled.broker, index).log
    data = log.read(
        log.start_offset,
        max_bytes=1 << 20,
        upto_offset=log.end_offset,
        whole_first_batch=True,
        cached_only=False,
    )
    return [header for _, header in headers(data)]


def test_a_decision_is_replayed_and_answered(controlled: ControlledBroker) -> None:
    async def story() -> None:
        coordinator = await started(controlled)
        assert await coordinator.ask("a", add("a")) == 1
        assert await coordinator.ask("a", add("a")) == 2
        assert await coordinator.ask("a", get("a")) == 2
        assert await coordinator.ask("a", get("b")) == Refusal(ErrorCode.GROUP_ID_NOT_FOUND)
        await coordinator.stop()

    controlled.run(story)


def test_the_records_of_a_decision_are_one_batch_under_the_leader_epoch(controlled: ControlledBroker) -> None:
    async def story() -> None:
        coordinator = await started(controlled)
        await coordinator.ask_partition(1, lambda shard, _: shard.add_large("a", 5))
        (header,) = batches(controlled, 1)
        assert (header.record_count, header.leader_epoch) == (
            5,
            partition_of(controlled.broker, 1).leader_epoch,
        )
        assert not header.is_transactional
        await coordinator.stop()

    controlled.run(story)


def test_without_the_internal_topic_there_is_no_coordinator(controlled: ControlledBroker) -> None:
    async def story() -> None:
        coordinator = new_coordinator(controlled.broker)
        assert await coordinator.ask("a", add("a")) == NOT_COORDINATOR
        assert await coordinator.ask_all(get("a")) == []
        assert controlled.broker.services.cluster.image.topic(TOPIC) is None

    controlled.run(story)


def test_the_topic_is_created_once_however_many_need_it(controlled: ControlledBroker) -> None:
    async def story() -> None:
        coordinator = new_coordinator(controlled.broker)
        topics = await asyncio.gather(*(coordinator.topic() for _ in range(5)))
        assert len({topic.topic_id for topic in topics if not isinstance(topic, Refusal)}) == 1
        assert not any(isinstance(topic, Refusal) for topic in topics)

    controlled.run(story)


def test_a_response_waits_for_the_high_watermark_and_so_does_a_read_after_it(
    controlled: ControlledBroker,
) -> None:
    async def story() -> None:
        coordinator = await started(controlled, flush_messages="1")
        index = coordinator.index_for("a")
        controlled.gate.hold(f"{TOPIC}-{index}/")
        writing = asyncio.ensure_future(coordinator.ask("a", add("a")))
        await turns()
        reading = asyncio.ensure_future(coordinator.ask("a", get("a")))
        await turns()
        assert not writing.done()
        assert not reading.done(), "what was read may still be lost"
        controlled.gate.release()
        assert await writing == 1
        assert await reading == 1
        await coordinator.stop()

    controlled.run(story)


def test_a_decision_not_replicated_in_time_is_answered_with_coordinator_not_available() -> None:
    with ControlledBroker(settings={"offsets.commit.timeout.ms": 20}) as controlled:

        async def story() -> None:
            coordinator = await started(controlled, flush_messages="1")
            controlled.gate.hold(f"{TOPIC}-{coordinator.index_for('a')}/")
            answer = await coordinator.ask("a", add("a"))
            assert answer == Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            controlled.gate.release()
            await coordinator.stop()

        controlled.run(story)


def test_a_pending_answer_is_given_by_a_later_decision(controlled: ControlledBroker) -> None:
    async def story() -> None:
        coordinator = await started(controlled)
        waiting = [
            asyncio.ensure_future(coordinator.ask("a", lambda shard, _: shard.wait())) for _ in range(3)
        ]
        await turns()
        assert not any(one.done() for one in waiting)
        waiting.pop().cancel()  # its client has gone
        await turns()
        assert await coordinator.ask("a", lambda shard, _: shard.add_and_wake("a")) == 1
        assert await asyncio.gather(*waiting) == [1, 1]
        await coordinator.stop()

    controlled.run(story)


def test_a_pending_answer_waits_until_the_completing_decision_is_committed(
    controlled: ControlledBroker,
) -> None:
    async def story() -> None:
        coordinator = await started(controlled, flush_messages="1")
        waiting = asyncio.ensure_future(coordinator.ask("a", lambda shard, _: shard.wait()))
        await turns()
        controlled.gate.hold(f"{TOPIC}-{coordinator.index_for('a')}/")
        waking = asyncio.ensure_future(coordinator.ask("a", lambda shard, _: shard.add_and_wake("a")))
        await turns()
        assert not waiting.done()
        controlled.gate.release()
        assert await asyncio.gather(waiting, waking) == [1, 1]
        await coordinator.stop()

    controlled.run(story)


def test_effects_are_executed_when_they_are_committed(controlled: ControlledBroker) -> None:
    async def story() -> None:
        coordinator = await started(controlled, flush_messages="1")
        told: list[str] = []
        coordinator.on_effect = told.append
        controlled.gate.hold(f"{TOPIC}-0/")
        writing = asyncio.ensure_future(coordinator.ask_partition(0, lambda s, _: s.add_with_effect("a")))
        await turns()
        assert told == []
        controlled.gate.release()
        await writing
        assert told == ["a is safe"]
        await coordinator.stop()

    controlled.run(story)


def test_state_is_the_same_after_loading(controlled: ControlledBroker) -> None:
    async def story() -> None:
        coordinator = await started(controlled)
        names = [f"name-{number}" for number in range(30)]
        for name in names:
            await coordinator.ask(name, add(name))
        await coordinator.stop()
        again = new_coordinator(controlled.broker)
        again.start()
        for name in names:
            assert await again.ask(name, get(name)) == 1
        assert await again.ask_all(lambda shard, _: shard.list(lambda: True)) == [
            sorted(name for name in names if again.index_for(name) == index) for index in range(3)
        ]
        await again.stop()

    controlled.run(story)


def test_many_batches_are_loaded_in_pieces(
    controlled: ControlledBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.services.coordinators.loading.PIECE_BYTES", 300)

    async def story() -> None:
        coordinator = await started(controlled)
        for _ in range(50):
            await coordinator.ask_partition(0, add("a"))
        await coordinator.stop()
        again = new_coordinator(controlled.broker)
        assert await again.ask_partition(0, get("a")) == 50
        offsets = await again.ask_partition(0, lambda shard, _: shard.offsets_seen())
        assert offsets == list(range(50))
        await again.stop()

    monkeypatch.setattr(
        CountingShard, "offsets_seen", lambda shard: _decision(list(shard.offsets)), raising=False
    )
    controlled.run(story)


def _decision(response: Any) -> Any:
    return Decision(response)


@pytest.mark.interpreted("Log.append")
def test_a_failed_append_unloads_the_shard_and_the_next_request_finds_the_state_as_the_log_has_it(
    controlled: ControlledBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        coordinator = await started(controlled)
        index = coordinator.index_for("a")
        assert index is not None
        assert await coordinator.ask("a", add("a")) == 1
        waiting = asyncio.ensure_future(coordinator.ask("a", lambda shard, _: shard.wait()))
        await turns()
        partition = partition_of(controlled.broker, index)

        def no_room(*_: object, **__: object) -> None:
            raise NoRoomError("the disk is full")

        monkeypatch.setattr(type(partition.log), "append", no_room)
        assert await coordinator.ask("a", add("a")) == NOT_COORDINATOR
        assert await waiting == NOT_COORDINATOR
        monkeypatch.undo()
        assert await coordinator.ask("a", get("a")) == 1
        assert await coordinator.ask("a", add("a")) == 2
        await coordinator.stop()

    controlled.run(story)


def test_another_leader_epoch_unloads_the_shard(controlled: ControlledBroker) -> None:
    async def story() -> None:
        coordinator = await started(controlled)
        index = coordinator.index_for("a")
        assert index is not None
        assert await coordinator.ask("a", add("a")) == 1
        waiting = asyncio.ensure_future(coordinator.ask("a", lambda shard, _: shard.wait()))
        await turns()
        partition = partition_of(controlled.broker, index)
        bump_leader_epoch(partition)
        assert await coordinator.ask("a", add("a")) == 2
        assert await waiting == NOT_COORDINATOR
        assert [header.leader_epoch for header in batches(controlled, index)] == [0, 1]
        await coordinator.stop()

    controlled.run(story)


def test_a_decision_made_under_an_old_leader_epoch_is_not_written(controlled: ControlledBroker) -> None:
    async def story() -> None:
        coordinator = await started(controlled)
        gates = [False]
        assert await coordinator.ask_partition(0, lambda s, _: s.add_later("a", lambda: gates[0])) == "later"
        partition = partition_of(controlled.broker, 0)
        bump_leader_epoch(partition)
        gates[0] = True
        await turns()
        assert partition.log.end_offset == 0
        assert await coordinator.ask_partition(0, get("a")) == Refusal(ErrorCode.GROUP_ID_NOT_FOUND)
        await coordinator.stop()

    controlled.run(story)


def test_deleting_the_internal_topic_unloads_its_coordinators(controlled: ControlledBroker) -> None:
    async def story() -> None:
        coordinator = await started(controlled)
        assert await coordinator.ask("a", add("a")) == 1
        await controlled.broker.services.cluster.controller.delete_topic(TOPIC)
        assert await coordinator.ask("a", get("a")) == NOT_COORDINATOR
        assert not isinstance(await coordinator.topic(), Refusal)
        assert await coordinator.ask("a", get("a")) == Refusal(ErrorCode.GROUP_ID_NOT_FOUND)
        await coordinator.stop()

    controlled.run(story)


def test_a_shard_that_breaks_while_replaying_is_dropped(controlled: ControlledBroker) -> None:
    async def story() -> None:
        coordinator = await started(controlled)

        def break_and_add(shard: CountingShard, now_ms: int) -> Any:
            shard.is_broken = True
            return shard.add("a", now_ms)

        with pytest.raises(AssertionError, match="broken on purpose"):
            await coordinator.ask("a", break_and_add)
        assert await coordinator.ask("a", get("a")) == 1, "it was written, and so it counts"
        await coordinator.stop()

    controlled.run(story)


def test_a_shard_that_breaks_while_deciding_is_dropped(controlled: ControlledBroker) -> None:
    async def story() -> None:
        coordinator = await started(controlled)

        def half(shard: CountingShard, now_ms: int) -> Any:
            shard.counts["a"] = 7  # which nothing in the log says
            raise AssertionError("broken on purpose")

        with pytest.raises(AssertionError, match="broken on purpose"):
            await coordinator.ask("a", half)
        assert await coordinator.ask("a", get("a")) == Refusal(ErrorCode.GROUP_ID_NOT_FOUND)
        await coordinator.stop()

    controlled.run(story)


def test_a_decision_that_cannot_be_encoded_drops_the_shard(controlled: ControlledBroker) -> None:
    async def story() -> None:
        coordinator = await started(controlled)

        def add_too_long(shard: CountingShard, now_ms: int) -> Any:
            shard.counts["a"] = 7
            return shard.add("x" * 40_000, now_ms)

        with pytest.raises(ValueError, match="CounterKey"):
            await coordinator.ask("a", add_too_long)
        assert await coordinator.ask("a", get("a")) == Refusal(ErrorCode.GROUP_ID_NOT_FOUND)
        await coordinator.stop()

    controlled.run(story)


def test_a_batch_too_large_for_the_topic_is_refused_and_the_shard_stays(
    controlled: ControlledBroker,
) -> None:
    async def story() -> None:
        coordinator = await started(controlled, max_message_bytes="2000")
        assert await coordinator.ask_partition(0, add("a")) == 1
        answer = await coordinator.ask_partition(0, lambda shard, _: shard.add_large("b", 10))
        assert answer == Refusal(ErrorCode.MESSAGE_TOO_LARGE)
        assert await coordinator.ask_partition(0, add("a")) == 2
        await coordinator.stop()

    controlled.run(story)


def test_a_write_below_min_isr_is_refused_and_the_shard_stays(
    controlled: ControlledBroker,
) -> None:
    async def story() -> None:
        coordinator = await started(controlled, min_insync_replicas="2")
        lose_members(controlled, 0)
        refused = Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        assert await coordinator.ask_partition(0, add("a")) == refused
        assert partition_of(controlled.broker, 0).log.end_offset == 0
        assert await coordinator.ask_partition(0, get("a")) == Refusal(ErrorCode.GROUP_ID_NOT_FOUND)
        await coordinator.stop()

    controlled.run(story)


def test_a_refused_write_answers_the_requests_it_would_have_completed(controlled: ControlledBroker) -> None:
    async def story() -> None:
        coordinator = await started(controlled, min_insync_replicas="2")
        lose_members(controlled, 0)
        waiting = asyncio.ensure_future(coordinator.ask_partition(0, lambda shard, _: shard.wait()))
        await turns()
        refused = Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        assert await coordinator.ask_partition(0, lambda shard, _: shard.add_and_wake("a")) == refused
        assert await waiting == refused
        await coordinator.stop()

    controlled.run(story)


def test_timers_fire_when_the_shard_says_so(controlled: ControlledBroker) -> None:
    async def story() -> None:
        coordinator = await started(controlled)
        await coordinator.ask_partition(0, lambda shard, now_ms: shard.add_for("long", now_ms, 3_600_000))
        await coordinator.ask_partition(0, lambda shard, now_ms: shard.add_for("short", now_ms, 10))
        while await coordinator.ask_partition(0, get("short")) == 1:
            await asyncio.sleep(0.005)
        assert await coordinator.ask_partition(0, get("long")) == 1
        await coordinator.stop()

    controlled.run(story)


def test_a_wall_clock_that_jumps_does_not_make_anything_due(
    controlled: ControlledBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        coordinator = await started(controlled)
        times: list[int] = []

        def note(shard: CountingShard, now_ms: int) -> Any:
            times.append(now_ms)
            return shard.add_for("a", now_ms, 3_600_000)

        await coordinator.ask_partition(0, note)
        wall_ms = controlled.broker.services.node.world.loop.now_ms()
        monkeypatch.setattr(
            controlled.broker.services.node.world.loop, "now_ms", lambda: wall_ms + 7_200_000, raising=False
        )
        await coordinator.ask_partition(0, note)
        assert times[1] - times[0] < 3_600_000
        await coordinator.stop()

    controlled.run(story)


def test_long_work_yields_to_other_requests_and_ends_in_a_decision(controlled: ControlledBroker) -> None:
    async def story() -> None:
        coordinator = await started(controlled)
        gates = [False]
        assert await coordinator.ask_partition(0, lambda s, _: s.add_later("a", lambda: gates[0])) == "later"
        listing = asyncio.ensure_future(coordinator.ask_partition(0, lambda s, _: s.list(lambda: gates[0])))
        assert await coordinator.ask_partition(0, add("b")) == 1
        assert not listing.done()
        gates[0] = True
        assert set(await listing) >= {"b"}
        while isinstance(await coordinator.ask_partition(0, get("a")), Refusal):
            await asyncio.sleep(0)
        await coordinator.stop()

    controlled.run(story)


def test_long_work_that_cannot_be_written_drops_the_shard(
    controlled: ControlledBroker,
) -> None:
    async def story() -> None:
        coordinator = await started(controlled, min_insync_replicas="2")
        lose_members(controlled, 0)
        shards: list[CountingShard] = []

        def begin(shard: CountingShard, _: int) -> Any:
            shards.append(shard)
            return shard.add_later("a", lambda: True)

        def write_and_begin(shard: CountingShard, now_ms: int) -> Any:
            written = shard.add("b", now_ms)
            return begin(shard, now_ms)._replace(records=written.records)

        await coordinator.ask_partition(0, begin)
        await turns()
        refused = await coordinator.ask_partition(0, write_and_begin)
        assert refused == Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        await coordinator.ask_partition(0, begin)
        assert len({id(shard) for shard in shards}) == 3
        await coordinator.stop()

    controlled.run(story)


def test_transactional_records_are_replayed_when_their_marker_comes(controlled: ControlledBroker) -> None:
    async def story() -> None:
        coordinator = await started(controlled)
        other = BatchProducer(78, 0)
        for name, producer in (("a", PRODUCER), ("b", other)):
            await coordinator.ask_partition(0, lambda s, now, n=name, p=producer: s.add(n, now, p))
        assert [header.is_transactional for header in batches(controlled, 0)] == [True, True]
        assert isinstance(await coordinator.ask_partition(0, get("a")), Refusal)
        for type_, producer in ((MarkerType.COMMIT, PRODUCER), (MarkerType.ABORT, other)):
            marker = Marker(type_, producer.id, producer.epoch, 0)
            partition = partition_of(controlled.broker, 0)
            appended = partition.leader.append_own(build_marker(marker, timestamp=1), now_ms=1)
            coordinator.marker_written(0, marker, offset=appended.base_offset)
        assert await coordinator.ask_partition(0, get("a")) == 1
        assert isinstance(await coordinator.ask_partition(0, get("b")), Refusal)
        await coordinator.stop()
        again = new_coordinator(controlled.broker)
        assert await again.ask_partition(0, get("a")) == 1
        assert isinstance(await again.ask_partition(0, get("b")), Refusal)
        await again.stop()

    controlled.run(story)


def test_stopping_answers_waiting_requests(controlled: ControlledBroker) -> None:
    async def story() -> None:
        coordinator = await started(controlled)
        waiting = asyncio.ensure_future(coordinator.ask("a", lambda shard, _: shard.wait()))
        await turns()
        await coordinator.stop()
        assert await waiting == NOT_COORDINATOR
        assert await coordinator.ask("a", add("a")) == NOT_COORDINATOR

    controlled.run(story)


COUNTER_A = b"\x00\x01\x00\x01a"


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (b"\x00\x01", b"x", "CounterKey v0 ends early"),
        (b"", b"x", "0 bytes"),
        (b"\x00", None, "1 bytes"),
        (None, b"x", "it has no key"),
        (b"hello", b"x", "its type is not known to this version; a newer one may have written it"),
        (
            b"\x00\x09later",
            b"\x00\x00",
            "its type is not known to this version; a newer one may have written it",
        ),
        (b"\xff\xff", b"x", "its type is not known to this version; a newer one may have written it"),
        (COUNTER_A, b"", "0 bytes"),
        (COUNTER_A, b"\x00\x00", "CounterValue v0 ends early"),
        (COUNTER_A, b"hello", "CounterValue has no version 26725"),
        (COUNTER_A, b"\xff\xff", "CounterValue has no version -1"),
    ],
)
def test_an_undecodable_record_is_skipped_and_logged(
    controlled: ControlledBroker,
    caplog: pytest.LogCaptureFixture,
    key: bytes | None,
    value: bytes | None,
    reason: str,
) -> None:
    async def story() -> None:
        before = await started(controlled)
        assert await before.ask_partition(0, add("a")) == 1
        await before.stop()
        partition = partition_of(controlled.broker, 0)
        partition.leader.append_own(build_batch([Record(0, 1, key, value)]), now_ms=1)
        coordinator = new_coordinator(controlled.broker)
        assert await coordinator.ask_partition(0, get("a")) == 1
        assert await coordinator.ask_partition(0, add("a")) == 2
        (line,) = [record.getMessage() for record in caplog.records if "skipped" in record.getMessage()]
        assert line.startswith(f"{partition}: skipped the record at offset 1: ")
        assert reason in line
        assert line.endswith("its change is not applied")
        await coordinator.stop()

    controlled.run(story)


def test_a_record_whose_replay_fails_is_skipped_and_logged(
    controlled: ControlledBroker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    replay = CountingShard.replay

    def replay_or_fail(self: CountingShard, record: InternalRecord, **place: Any) -> None:
        if record.value is not None and record.value.count == 13:  # type: ignore[attr-defined]
            raise KeyError(13)
        replay(self, record, **place)

    async def story() -> None:
        before = await started(controlled)
        for _ in range(13):
            await before.ask_partition(0, add("a"))
        await before.stop()
        monkeypatch.setattr(CountingShard, "replay", replay_or_fail)
        coordinator = new_coordinator(controlled.broker)
        assert await coordinator.ask_partition(0, get("a")) == 12
        assert "skipped the record at offset 12: its contents make no sense (KeyError(13))" in caplog.text
        await coordinator.stop()

    controlled.run(story)


def test_of_many_undecodable_records_a_few_are_logged_and_all_are_counted(
    controlled: ControlledBroker, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        coordinator = await started(controlled)
        partition = partition_of(controlled.broker, 0)
        forged = build_batch([Record(offset, 1, b"forged", b"x") for offset in range(500)])
        partition.leader.append_own(forged, now_ms=1)
        assert await coordinator.ask_partition(0, add("a")) == 1
        lines = [record.getMessage() for record in caplog.records if "skipped" in record.getMessage()]
        assert len(lines) == 11
        assert lines[-1].startswith(f"{partition}: skipped 500 records in all")
        await coordinator.stop()

    controlled.run(story)


def test_a_record_of_a_newer_version_keeps_the_shard_from_loading_and_is_logged(
    controlled: ControlledBroker, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        coordinator = await started(controlled)
        partition = partition_of(controlled.broker, 0)
        newer = build_batch([Record(0, 1, b"\x00\x01\x00\x01a", b"\x00\x07whatever")])
        partition.leader.append_own(newer, now_ms=1)
        assert await coordinator.ask_partition(0, get("a")) == NOT_COORDINATOR
        assert "CounterValue of version 7 was written by a newer program" in caplog.text
        assert "install the version that wrote it" in caplog.text
        await coordinator.stop()

    controlled.run(story)


@pytest.mark.parametrize(
    ("key", "partition"),
    [("", 0), ("a", 47), ("my-group", 12), ("polygenelubricants", 0), ("grüße-\U0001f600", 27)],
)
def test_a_key_belongs_to_the_partition_that_javas_hash_says(key: str, partition: int) -> None:
    assert partition_for(key, 50) == partition


def test_many_waiting_requests_are_answered_over_several_turns_of_the_loop(
    controlled: ControlledBroker,
) -> None:
    async def story() -> None:
        coordinator = await started(controlled)
        waiting = [
            asyncio.ensure_future(coordinator.ask_partition(0, lambda shard, _: shard.wait()))
            for _ in range(200)
        ]
        await turns()
        waiting.append(
            asyncio.ensure_future(coordinator.ask_partition(0, lambda shard, _: shard.add_and_wake("a")))
        )
        answered = [0]
        while not all(each.done() for each in waiting):
            await turns(1)
            answered.append(sum(each.done() for each in waiting))
        assert max(later - sooner for sooner, later in itertools.pairwise(answered)) <= 50
        assert [await each for each in waiting] == [1] * 201
        await coordinator.stop()

    controlled.run(story)


def test_requests_unanswered_when_a_shard_is_dropped_get_not_coordinator(
    controlled: ControlledBroker,
) -> None:
    async def story() -> None:
        coordinator = await started(controlled)
        waiting = [
            asyncio.ensure_future(coordinator.ask_partition(0, lambda shard, _: shard.wait()))
            for _ in range(120)
        ]
        await turns()
        waiting.append(
            asyncio.ensure_future(coordinator.ask_partition(0, lambda shard, _: shard.add_and_wake("a")))
        )
        while not any(each.done() for each in waiting):
            await turns(1)
        await coordinator.stop()
        assert {await each for each in waiting} == {1, NOT_COORDINATOR}

    controlled.run(story)


def lead(controlled: ControlledBroker, index: int, leader: int) -> None:
    """Say that another broker leads a partition from now on, or this one again."""
    partition = controlled.broker.services.logs.replicas.find_replica(TOPIC, index)
    assert not isinstance(partition, ErrorCode)
    state = partition.state
    partition.change(
        state._replace(
            leader=leader,
            leader_epoch=state.leader_epoch + 1,
            isr=(leader,),
            partition_epoch=state.partition_epoch + 1,
        )
    )


def lose_members(controlled: ControlledBroker, index: int) -> None:
    """Say that a partition has two replicas, and only this one in sync."""
    partition = controlled.broker.services.logs.replicas.find_replica(TOPIC, index)
    assert not isinstance(partition, ErrorCode)
    state = partition.state
    partition.change(
        state._replace(replicas=(*state.replicas, OTHER_NODE), partition_epoch=state.partition_epoch + 1)
    )


def test_a_shard_that_moves_to_another_broker_answers_waiting_requests_at_once(
    controlled: ControlledBroker,
) -> None:
    async def story() -> None:
        coordinator = await started(controlled)
        waiting = asyncio.ensure_future(coordinator.ask_partition(0, lambda shard, _: shard.wait()))
        await turns()
        lead(controlled, 0, OTHER_NODE)
        coordinator.leadership_changed()
        assert await waiting == NOT_COORDINATOR
        assert await coordinator.ask_partition(0, get("a")) == NOT_COORDINATOR
        await coordinator.stop()

    controlled.run(story)


def test_a_new_leader_loads_its_shard_without_a_request(controlled: ControlledBroker) -> None:
    async def story() -> None:
        coordinator = await started(controlled)
        assert await coordinator.ask_partition(0, add("a")) == 1
        await coordinator.stop()
        lead(controlled, 0, OTHER_NODE)
        again = new_coordinator(controlled.broker)
        loaded: asyncio.Queue[CountingShard] = asyncio.Queue()
        again.on_loaded = lambda instance: loaded.put_nowait(instance.shard)
        again.start()
        assert {(await loaded.get()).index, (await loaded.get()).index} == {1, 2}
        lead(controlled, 0, controlled.broker.services.node.node_id)
        again.leadership_changed()
        assert (await loaded.get()).counts == {"a": 1}
        await again.stop()

    controlled.run(story)


def test_a_load_is_restarted_when_the_leader_epoch_changes(
    controlled: ControlledBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        coordinator = await started(controlled)
        assert await coordinator.ask_partition(0, add("a")) == 1
        await coordinator.stop()
        again = new_coordinator(controlled.broker)
        began = asyncio.Event()

        async def load_for_ever(*_: object, **__: object) -> int:
            began.set()
            return await asyncio.Event().wait()

        monkeypatch.setattr("penstock.services.coordinators.coordinator.load", load_for_ever)
        asking = asyncio.ensure_future(again.ask_partition(0, get("a")))
        await began.wait()
        monkeypatch.undo()
        lead(controlled, 0, OTHER_NODE)
        again.leadership_changed()
        lead(controlled, 0, controlled.broker.services.node.node_id)
        again.leadership_changed()
        assert await asyncio.gather(asking, again.ask_partition(0, get("a"))) == [NOT_COORDINATOR, 1]
        await again.stop()

    controlled.run(story)


def test_all_shards_are_those_that_this_broker_leads(controlled: ControlledBroker) -> None:
    async def story() -> None:
        coordinator = await started(controlled)
        lead(controlled, 1, OTHER_NODE)
        assert await coordinator.ask_all(lambda shard, _: _decision(shard.index)) == [0, 2]
        await coordinator.stop()

    controlled.run(story)


class SlowCreator:
    """A controller on another broker: what it creates is heard of later."""

    def __init__(self, answer: Refusal | None) -> None:
        self._answer = answer
        self.asked: list[TopicSpec] = []

    async def create_topic(self, new: TopicSpec) -> Refusal | None:
        self.asked.append(new)
        await asyncio.sleep(0)
        return self._answer


@pytest.mark.parametrize("answer", [None, Refusal(ErrorCode.TOPIC_ALREADY_EXISTS)])
def test_a_topic_that_was_created_and_is_not_known_yet_is_not_available(
    controlled: ControlledBroker, answer: Refusal | None
) -> None:
    async def story() -> None:
        creator = SlowCreator(answer)
        coordinator = new_coordinator(controlled.broker, creator)
        topics = await asyncio.gather(*(coordinator.topic() for _ in range(5)))
        assert {topic.code for topic in topics if isinstance(topic, Refusal)} == {
            ErrorCode.COORDINATOR_NOT_AVAILABLE
        }
        assert len(creator.asked) == 1, "one asks for all"
        await coordinator.stop()

    controlled.run(story)


def test_a_topic_that_cannot_be_created_is_refused(controlled: ControlledBroker) -> None:
    async def story() -> None:
        refusal = Refusal(ErrorCode.NOT_CONTROLLER, "there is no controller")
        coordinator = new_coordinator(controlled.broker, SlowCreator(refusal))
        assert await coordinator.topic() == refusal
        await coordinator.stop()

    controlled.run(story)


def test_an_internal_topic_has_no_more_replicas_than_there_are_brokers_away_or_not(
    controlled: ControlledBroker,
) -> None:
    async def story() -> None:
        image = MetadataImage("cluster")
        for node_id in range(2):
            image.apply_broker(BrokerRegistration(node_id, None, {}))
        creator = SlowCreator(None)
        wanted = InternalTopic("__wanted", 3, 3, {})
        await create(wanted, image, creator)
        for node_id in (2, 3):
            image.apply_broker(BrokerRegistration(node_id, None, {}, fenced=True))
        await create(wanted, image, creator)
        assert [new.replication_factor for new in creator.asked] == [2, 3]

    controlled.run(story)
