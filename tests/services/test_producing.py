"""`services.producing` without the protocol: values in, values out."""

import asyncio

import pytest

from penstock.base.errors import ErrorCode
from penstock.records.compression import Codec
from penstock.services.producing import (
    ACKS_ALL,
    ACKS_LEADER,
    ACKS_NONE,
    AppendOutcome,
    PartitionRecords,
    PendingAppends,
    ProduceOptions,
)
from penstock.services.replicas.leader import Appended
from penstock.services.topic_rules import AppendError
from tests.raw_client import batch_of
from tests.services.replication.cluster import TOPIC, TOPIC_ID, Cluster, Node, led_by
from tests.services.replication.stories import tell

DEFAULTS = ProduceOptions()


def records(*values: bytes, **fields: object) -> memoryview:
    return memoryview(batch_of(*values, **fields))


def append_now(
    node: Node, *batches: PartitionRecords, options: ProduceOptions = DEFAULTS
) -> list[AppendOutcome]:
    outcomes = node.services.producing.append(batches, options)
    assert isinstance(outcomes, list)
    return outcomes


def append_later(
    node: Node, *batches: PartitionRecords, options: ProduceOptions = DEFAULTS
) -> PendingAppends:
    outcomes = node.services.producing.append(batches, options)
    assert isinstance(outcomes, PendingAppends)
    return outcomes


def test_every_batch_has_its_outcome_at_its_position() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1), led_by(1), led_by(2))
        outcomes = append_now(
            cluster[1],
            PartitionRecords(TOPIC, 0, records(b"a", b"b")),
            PartitionRecords("unknown", 0, records(b"x")),
            PartitionRecords(TOPIC, 1, records(b"c")),
            PartitionRecords(TOPIC, 2, records(b"led by the other")),
            PartitionRecords(TOPIC_ID, 0, records(b"d")),
            PartitionRecords(b"sixteen bytes...", 0, records(b"x")),
        )
        assert [
            outcome.base_offset if isinstance(outcome, Appended) else outcome.code for outcome in outcomes
        ] == [
            0,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            0,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            2,
            ErrorCode.UNKNOWN_TOPIC_ID,
        ]

    tell(story)


@pytest.mark.parametrize(
    ("batch", "options", "code"),
    [
        (records(b"x"), ProduceOptions(acks=2), ErrorCode.INVALID_REQUIRED_ACKS),
        (
            records(b"x", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True),
            ProduceOptions(),
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
        (
            records(b"x" * 1000, codec=Codec.ZSTD),
            ProduceOptions(allows_zstd=False),
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ),
        (None, ProduceOptions(), ErrorCode.INVALID_RECORD),
    ],
)
def test_a_rejected_batch_leaves_nothing_in_the_log(
    batch: memoryview | None, options: ProduceOptions, code: ErrorCode
) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1))
        [outcome] = append_now(cluster[1], PartitionRecords(TOPIC, 0, batch), options=options)
        assert isinstance(outcome, AppendError)
        assert outcome.code is code
        assert cluster[1].replica().log.end_offset == 0

    tell(story, count=1)


def test_with_acks_all_the_outcomes_come_when_the_followers_have_the_batches() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1, 2), led_by(1))
        leader = cluster[1]
        pending = append_later(
            leader,
            PartitionRecords(TOPIC, 0, records(b"replicated")),
            PartitionRecords(TOPIC, 1, records(b"alone")),
        )
        assert pending.are_in_log  # and what comes next may be appended
        assert leader.replica().log.end_offset == 1
        assert leader.replica().high_watermark == 0
        outcomes = await pending
        assert [outcome.base_offset for outcome in outcomes if isinstance(outcome, Appended)] == [0, 0]
        assert leader.replica().high_watermark == 1

    tell(story)


def test_acks_of_the_leader_or_of_none_wait_for_no_follower() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1, 2))
        for offset, acks in enumerate((ACKS_LEADER, ACKS_NONE)):
            [outcome] = append_now(
                cluster[1], PartitionRecords(TOPIC, 0, records(b"x")), options=ProduceOptions(acks=acks)
            )
            assert isinstance(outcome, Appended)
            assert outcome.base_offset == offset

    tell(story)


def test_a_batch_that_is_not_replicated_in_time_is_an_error_and_stays_in_the_log() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1, 2))
        await cluster.stop(2)
        [outcome] = await append_later(
            cluster[1],
            PartitionRecords(TOPIC, 0, records(b"x")),
            options=ProduceOptions(acks=ACKS_ALL, timeout_ms=20),
        )
        assert isinstance(outcome, AppendError)
        assert (outcome.code, outcome.log_start_offset) == (ErrorCode.REQUEST_TIMED_OUT, 0)
        assert cluster[1].replica().log.end_offset == 1

    tell(story)


def test_nothing_is_appended_while_too_many_syncs_are_queued() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1))
        leader = cluster[1]
        leader.flusher.is_full = True
        pending = append_later(leader, PartitionRecords(TOPIC, 0, records(b"x")))
        assert not pending.are_in_log
        waiting = asyncio.ensure_future(_outcomes(pending))
        await asyncio.sleep(0)
        assert leader.replica().log.end_offset == 0
        leader.flusher._complete_waits()
        [outcome] = await waiting
        assert isinstance(outcome, Appended)
        assert not leader.flusher.is_full

    tell(story, count=1)


def test_records_that_take_long_to_check_are_checked_in_the_work_pool() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1), penstock_produce_validation="records")
        leader = cluster[1]
        pending = append_later(leader, PartitionRecords(TOPIC, 0, records(b"x" * 100_000)))
        assert not pending.are_in_log
        assert leader.replica().log.end_offset == 0
        [outcome] = await pending
        assert isinstance(outcome, Appended)

    tell(story, count=1)


async def _outcomes(pending: PendingAppends) -> list[AppendOutcome]:
    return await pending
