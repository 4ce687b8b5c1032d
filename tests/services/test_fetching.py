"""`services.fetching` without the protocol: values in, values out."""

import asyncio
from collections.abc import Sequence

from penstock.base.errors import ErrorCode
from penstock.core.fetch_sessions import FINAL_EPOCH, Fetch, FetchTarget, PartitionKey
from penstock.records.batch import headers
from penstock.records.control import Marker, MarkerType
from penstock.services.fetching.consumer_fetches import ConsumerFetch, ConsumerOptions
from penstock.services.fetching.follower_fetches import FollowerAnswer, FollowerFetch
from penstock.services.fetching.partition_read import FetchBounds, PartitionRead
from penstock.services.producing import ACKS_LEADER, PartitionRecords, ProduceOptions
from tests.raw_client import batch_of
from tests.services.replication.cluster import TOPIC, TOPIC_ID, Cluster, Node, led_by
from tests.services.replication.stories import tell

NOW = FetchBounds(max_wait_ms=0)
# Longer than any test may take: a fetch that completes sooner was woken.
LONG = FetchBounds(max_wait_ms=60_000)
UNCOMMITTED = ConsumerOptions()
COMMITTED = ConsumerOptions(committed=True)
MIB = 1 << 20


def produce(node: Node, *values: bytes, index: int = 0) -> None:
    batch = PartitionRecords(TOPIC, index, memoryview(batch_of(*values)))
    node.services.producing.append([batch], ProduceOptions(ACKS_LEADER))


def at(offset: int, *, max_bytes: int = MIB, index: int = 0) -> tuple[PartitionKey, FetchTarget]:
    return (TOPIC, index), FetchTarget(offset, max_bytes)


def read_now(
    node: Node,
    *targets: tuple[PartitionKey, FetchTarget],
    limits: FetchBounds = NOW,
    options: ConsumerOptions = UNCOMMITTED,
) -> list[PartitionRead]:
    reads = node.services.consumer_fetches.fetch(targets, limits, options)
    assert isinstance(reads, list)
    return reads


def offsets(read: PartitionRead) -> list[int]:
    return [header.base_offset for _, header in headers(read.records or b"")]


def session(node: Node, *targets: tuple[PartitionKey, FetchTarget]) -> Fetch:
    """A fetch without a session, as the first one of a follower is."""
    begun = node.services.logs.fetch_sessions.begin(
        session_id=0, epoch=FINAL_EPOCH, wanted=dict(targets), uses_topic_ids=True, now_ms=0
    )
    assert not isinstance(begun, ErrorCode)
    return begun


def follow(
    node: Node, *targets: tuple[PartitionKey, FetchTarget], follower: int, limits: FetchBounds = NOW
) -> FollowerAnswer | FollowerFetch:
    return node.services.follower_fetches.fetch(
        session(node, *targets), limits, node_id=follower, broker_epoch=-1
    )


def errors(reads: Sequence[PartitionRead]) -> list[ErrorCode]:
    return [read.error for read in reads]


def test_partitions_are_read_in_their_order_by_name_or_by_id() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1), led_by(1))
        node = cluster[1]
        produce(node, b"a", b"b")
        produce(node, b"c")
        produce(node, b"d", index=1)
        by_id = ((TOPIC_ID, 1), FetchTarget(0, MIB))
        reads = read_now(node, at(1), by_id, at(99), (("unknown", 0), FetchTarget(0, MIB)))
        assert errors(reads) == [
            ErrorCode.NONE,
            ErrorCode.NONE,
            ErrorCode.OFFSET_OUT_OF_RANGE,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        assert [offsets(read) for read in reads] == [[0, 2], [0], [], []]
        assert [read.high_watermark for read in reads] == [3, 1, -1, -1]

    tell(story, count=1)


def test_a_fetch_that_finds_too_little_completes_when_enough_has_come() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1))
        node = cluster[1]
        fetch = node.services.consumer_fetches.fetch([at(0)], LONG, UNCOMMITTED)
        assert isinstance(fetch, ConsumerFetch)
        waiting = asyncio.ensure_future(completed(fetch))
        await asyncio.sleep(0)
        assert not waiting.done()
        produce(node, b"x")
        [read] = await waiting
        assert offsets(read) == [0]

    tell(story, count=1)


def test_a_released_fetch_completes_with_what_there_is() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1))
        node = cluster[1]
        produce(node, b"x")
        limits = FetchBounds(max_wait_ms=60_000, min_bytes=MIB)
        fetch = node.services.consumer_fetches.fetch([at(0)], limits, UNCOMMITTED)
        assert isinstance(fetch, ConsumerFetch)
        waiting = asyncio.ensure_future(completed(fetch))
        await asyncio.sleep(0)
        fetch.release()
        [read] = await waiting
        assert offsets(read) == [0]

    tell(story, count=1)


def test_the_first_batch_is_returned_whole_and_the_others_within_max_bytes() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1), led_by(1))
        node = cluster[1]
        produce(node, b"x" * 1000)
        produce(node, b"y", index=1)
        reads = read_now(node, at(0), at(0, index=1), limits=FetchBounds(max_bytes=10))
        assert [offsets(read) for read in reads] == [[0], []]

    tell(story, count=1)


def test_read_committed_stops_at_the_last_stable_offset_and_gets_the_aborted_transactions() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1))
        node = cluster[1]
        partition = node.replica()
        batch = batch_of(b"x", producer_id=8, producer_epoch=0, base_sequence=0, transactional=True)
        taken = partition.producers.verifications.begin(8, epoch=0, sequence=0, bumps_epochs=False)
        node.leader().append(memoryview(batch), now_ms=1_000, verification=taken)
        [all_of_it], [stable] = read_now(node, at(0)), read_now(node, at(0), options=COMMITTED)
        assert (offsets(all_of_it), all_of_it.aborted) == ([0], None)
        assert (offsets(stable), stable.aborted, stable.last_stable_offset) == ([], [], 0)
        node.leader().append_marker(Marker(MarkerType.ABORT, 8, 0, 5), version=0, now_ms=1_000)
        [ended] = read_now(node, at(0), options=COMMITTED)
        assert offsets(ended) == [0, 1]
        assert [(each.producer_id, each.first_offset) for each in ended.aborted or ()] == [(8, 0)]

    tell(story, count=1)


def test_a_consumer_reads_no_further_than_the_high_watermark_and_a_follower_to_the_end() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1, 2))
        await cluster.stop(2)
        leader = cluster[1]
        produce(leader, b"not replicated")
        [read] = read_now(leader, at(0))
        assert (offsets(read), read.high_watermark) == ([], 0)
        answered = follow(leader, ((TOPIC_ID, 0), FetchTarget(0, MIB)), follower=2)
        assert isinstance(answered, FollowerAnswer)
        assert offsets(answered.reads[0]) == [0]

    tell(story)


def test_a_followers_fetch_from_the_log_end_advances_the_high_watermark_and_a_consumers_does_not() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1, 2))
        await cluster.stop(2)
        leader = cluster[1]
        produce(leader, b"x")
        read_now(leader, at(1))
        assert leader.replica().high_watermark == 0
        end = (TOPIC_ID, 0), FetchTarget(1, MIB, log_start_offset=0)
        answered = follow(leader, end, follower=2)
        assert isinstance(answered, FollowerAnswer)
        assert leader.replica().high_watermark == 1
        assert answered.reads[0].high_watermark == 1  # and the same answer says so

    tell(story)


def test_progress_is_noted_once_however_often_a_delayed_fetch_looks() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1, 2), led_by(1, 2))
        await cluster.stop(2)
        leader = cluster[1]
        limits = FetchBounds(max_wait_ms=60_000, min_bytes=MIB)
        targets = [((TOPIC_ID, index), FetchTarget(0, MIB, log_start_offset=0)) for index in (0, 1)]
        fetch = follow(leader, *targets, follower=2, limits=limits)
        assert isinstance(fetch, FollowerFetch)
        follower = leader.leader().follower(2)
        assert follower is not None
        assert follower.leader_end_then == 0
        waiting = asyncio.ensure_future(completed_follower(fetch))
        await asyncio.sleep(0.01)
        produce(leader, b"x")
        fetch.release()
        answered = await waiting
        assert offsets(answered.reads[0]) == [0]
        assert follower.leader_end_then == 0  # the log ends at 1 by now

    tell(story)


def test_a_broker_that_holds_no_replica_cannot_fetch_as_a_follower() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1))
        answered = follow(cluster[1], ((TOPIC_ID, 0), FetchTarget(0, MIB)), follower=7, limits=LONG)
        assert isinstance(answered, FollowerAnswer)
        assert errors(answered.reads) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]

    tell(story, count=1)


async def completed(fetch: ConsumerFetch) -> list[PartitionRead]:
    return await fetch


async def completed_follower(fetch: FollowerFetch) -> FollowerAnswer:
    return await fetch
