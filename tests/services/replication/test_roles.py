"""Responses of leaders and followers, and delayed requests when leadership changes."""

import asyncio
from dataclasses import replace

import pytest

from penstock.base.errors import ErrorCode
from penstock.base.ids import TopicPartition
from penstock.client.connection import Connection
from penstock.cluster.metadata import NO_LEADER
from penstock.storage.data_directory import CLEAN_SHUTDOWN
from penstock.storage.offset_checkpoints import HIGH_WATERMARKS, RECOVERY_POINTS, read_offsets, write_offsets
from penstock.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from penstock.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ReplicaState
from penstock.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from penstock.wire.messages.produce import ProduceResponse
from penstock.wire.private.release_fetch import ReleaseFetchRequest, ReleaseFetchResponse
from penstock.world.disk import read_file, write_file_atomically
from tests.raw_client import batch_of, produce_request
from tests.services.replication.cluster import TOPIC, TOPIC_ID, Cluster, Node, led_by
from tests.services.replication.stories import tell

LATEST = -1
EARLIEST = -2


def asking(
    offset: int = 0,
    *,
    epoch: int = -1,
    last_epoch: int = -1,
    max_wait_ms: int = 0,
    rack: str = "",
    replica: tuple[int, int] | None = None,
    session_epoch: int = -1,
) -> FetchRequest:
    """A fetch of one partition, by a consumer or by a replica (node id and broker epoch)."""
    asked = FetchPartition(
        partition=0,
        fetch_offset=offset,
        current_leader_epoch=epoch,
        last_fetched_epoch=last_epoch,
        partition_max_bytes=1 << 20,
    )
    return FetchRequest(
        replica_state=None
        if replica is None
        else ReplicaState(replica_id=replica[0], replica_epoch=replica[1]),
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        session_epoch=session_epoch,
        rack_id=rack,
        topics=[FetchTopic(topic=TOPIC, topic_id=TOPIC_ID, partitions=[asked])],
    )


async def latest(
    node: Node, timestamp: int = LATEST, *, replica: int = -1, version: int = 11
) -> tuple[int, int]:
    """Error code and offset that ListOffsets answers."""
    return await latest_on(await node.connection(), timestamp, replica=replica, version=version)


async def latest_on(
    connection: Connection, timestamp: int = LATEST, *, replica: int = -1, version: int = 11
) -> tuple[int, int]:
    asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=replica, topics=[ListOffsetsTopic(name=TOPIC, partitions=[asked])]
    )
    answer = await connection.ask(request, ListOffsetsResponse, version_max=version)
    told = answer.topics[0].partitions[0]
    return told.error_code, told.offset


def test_a_produce_request_to_a_follower_gets_the_current_leader() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1, 2))
        connection = await cluster[2].connection()
        answer = await connection.ask(produce_request(TOPIC, batch_of(b"x")), ProduceResponse, version_max=12)
        told = answer.responses[0].partition_responses[0]
        assert told.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert told.current_leader is not None
        assert (told.current_leader.leader_id, told.current_leader.leader_epoch) == (1, 0)
        (endpoint,) = answer.node_endpoints
        assert (endpoint.node_id, endpoint.host, endpoint.port) == (1, *cluster[1].address)
        assert endpoint.rack == "rack-1"

    tell(story)


def hinted(answer: ProduceResponse) -> tuple[int, object, list[object]]:
    """The error, the leader and the endpoints in an answer about one partition."""
    told = answer.responses[0].partition_responses[0]
    return told.error_code, told.current_leader, list(answer.node_endpoints)


async def refused_hints(node: Node) -> None:
    """Neither produce nor fetch names a leader, in any version that could."""
    connection = await node.connection()
    for version in range(10, 14):
        request = produce_request(TOPIC, batch_of(b"x"))
        request.topic_data[0].topic_id = TOPIC_ID
        request.topic_data[0].name = TOPIC if version < 13 else ""
        produced = await connection.ask(request, ProduceResponse, version_max=version)
        assert hinted(produced) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, None, [])
    for version in range(12, 19):
        fetched = await node.fetch(asking(epoch=0), version=version)
        told = fetched.responses[0].partitions[0]
        assert told.error_code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
        assert (told.current_leader, fetched.node_endpoints) == (None, [])


def test_without_a_leader_the_error_names_none() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1, 2))
        await cluster.controller.elect(NO_LEADER)
        for node in (cluster[1], cluster[2]):
            await refused_hints(node)

    tell(story)


def test_a_leader_without_a_known_address_is_not_named() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1, 2))
        await cluster.controller.elect(2)
        del cluster[1].image.brokers[2]
        await refused_hints(cluster[1])

    tell(story)


def test_a_suspected_leader_is_not_named() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1, 2))
        await cluster.controller.elect(2)
        services = cluster[1].services
        services.cluster.broker_view.doubt(2, now=services.node.world.loop.time())
        await refused_hints(cluster[1])

    tell(story)


@pytest.mark.parametrize("version", [12, 18])
def test_a_fetch_with_an_older_epoch_gets_the_current_leader(version: int) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1, 2))
        await cluster.controller.elect(2)
        answer = await cluster[1].fetch(asking(epoch=0), version=version)
        told = answer.responses[0].partitions[0]
        assert told.error_code == ErrorCode.FENCED_LEADER_EPOCH
        leader = told.current_leader
        assert (leader and (leader.leader_id, leader.leader_epoch)) == ((2, 1) if version >= 16 else None)
        assert [endpoint.node_id for endpoint in answer.node_endpoints] == ([2] if version >= 16 else [])

    tell(story)


def test_a_broker_without_a_replica_answers_not_leader_or_follower() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1))
        assert (await cluster[2].produce(batch_of(b"x"))).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        answer = await cluster[2].fetch(asking())
        assert answer.responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (await latest(cluster[2]))[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert "orders-0" not in cluster[2].disk.list("")

    tell(story)


def test_delayed_requests_of_a_deposed_leader_are_answered_not_leader() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1, 2))
        await cluster.until_same(1, 2)
        await cluster[2].replication.stop()
        produced = asyncio.create_task(cluster[1].produce(batch_of(b"x")))
        fetched = asyncio.create_task(cluster[1].fetch(asking(epoch=0, max_wait_ms=600_000)))
        partition = cluster[1].replica()
        await cluster.until(lambda: partition.log.end_offset == 1 and len(partition.fetches) == 1)
        await cluster.controller.elect(NO_LEADER)
        assert (await produced).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        told = (await fetched).responses[0].partitions[0]
        assert told.error_code == ErrorCode.FENCED_LEADER_EPOCH
        assert (await cluster[1].produce(batch_of(b"x"))).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    tell(story)


def test_a_new_leader_answers_latest_offset_when_the_isr_has_its_log() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1, 2, 3))
        await cluster[1].produce(batch_of(b"x", b"y"))
        await cluster.until_same(1, 2, 3)
        for node_id in (1, 2, 3):
            await cluster[node_id].replication.stop()
        # Broker 2 has more than broker 1 may have reported.
        leader = cluster[2].replica()
        leader.high_watermark = 1
        await cluster.controller.elect(2, isr=(2, 3))
        assert await latest(cluster[2]) == (ErrorCode.OFFSET_NOT_AVAILABLE, -1)
        assert await latest(cluster[2], version=4) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
        assert await latest(cluster[2], EARLIEST) == (0, 0)
        assert await latest(cluster[2], replica=3) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, -1)
        as_follower = await cluster[3].peers.connect(2)
        assert await latest_on(as_follower, replica=3) == (0, 2)
        as_follower.close()
        cluster[3].replication.start()
        await cluster.until(lambda: leader.high_watermark == 2)
        assert await latest(cluster[2]) == (0, 2)

    tell(story, 3)


def test_a_leader_that_starts_alone_serves_committed_records() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1, 2))
        await cluster[1].produce(batch_of(b"x", b"y"))
        await cluster.until_same(1, 2)
        await cluster.stop(2)
        await cluster.stop(1)
        leader = (await cluster.start(1)).replica()
        assert (leader.high_watermark, leader.log.end_offset) == (2, 2)
        assert await latest(cluster[1]) == (0, 2)
        told = (await cluster[1].fetch(asking())).responses[0].partitions[0]
        assert (told.high_watermark, bytes(told.records)) == (2, cluster[1].log_bytes())
        # What comes now is not committed before the other one has it.
        await cluster[1].produce(batch_of(b"z"), acks=1)
        assert leader.high_watermark == 2

    tell(story)


def test_high_watermarks_are_checkpointed_while_a_broker_runs() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1, 2), led_by(1))
        await cluster[1].produce(batch_of(b"x"))
        await cluster[1].produce(batch_of(b"y"), index=1)
        expected = {(TOPIC, 0): 1}  # who is alone knows what is committed by itself
        for node_id in (1, 2):
            disk = cluster[node_id].disk
            await cluster.until(lambda at=disk: read_offsets(at, HIGH_WATERMARKS) == expected)  # type: ignore[misc]

    tell(story, replica_high_watermark_checkpoint_interval_ms=20)


def test_a_checkpointed_high_watermark_beyond_the_log_end_is_lowered_at_start() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(2, 1))
        await cluster[2].produce(batch_of(b"x"))
        await cluster.until_same(1, 2)
        disk = cluster[1].disk
        await cluster.stop(1)
        await cluster.stop(2)
        write_offsets(disk, HIGH_WATERMARKS, {TopicPartition(TOPIC, 0): 7})
        disk.remove(CLEAN_SHUTDOWN)
        assert (await cluster.start(1)).replica().high_watermark == 1
        # What takes the place of what is lost is not committed when this broker crashes again.
        assert read_offsets(disk, HIGH_WATERMARKS) == {(TOPIC, 0): 1}

    tell(story)


@pytest.mark.parametrize(
    ("followers", "isr", "quorum", "is_cut"),
    [
        ((2,), (1, 2), "all", True),  # the other one has what is behind the hole
        ((2,), (1,), "all", False),  # it may have been acknowledged, and no other replica has it
        ((2,), (1,), "majority", True),  # acknowledged records are on the other one, whatever the ISR
        ((), (1,), "majority", False),
    ],
)
def test_records_behind_a_damaged_batch_are_truncated_if_other_replicas_have_them(
    followers: tuple[int, ...], isr: tuple[int, ...], quorum: str, is_cut: bool
) -> None:
    async def story(cluster: Cluster) -> None:
        state = led_by(1, *followers, isr=isr)
        configs = {"flush_messages": "1", "penstock_ack_quorum": quorum}
        await cluster.controller.create(state, **configs)
        node = cluster[1]
        for value in (b"x", b"y", b"z"):
            node.leader().append(memoryview(batch_of(value)), now_ms=1)
        path = node.replica().log.segments[-1].file.path
        await cluster.controller.elect(NO_LEADER)
        await cluster.stop(1)
        node.disk.remove(CLEAN_SHUTDOWN)
        write_offsets(node.disk, RECOVERY_POINTS, {})
        content = bytearray(read_file(node.disk, path))
        assert len(content) % 3 == 0
        content[len(content) // 2] ^= 1
        write_file_atomically(node.disk, path, bytes(content))
        assert (await cluster.start(1)).replica().log.end_offset == (1 if is_cut else 3)

    tell(story, count=1)


async def delete_before(node: Node, offset: int, *, timeout_ms: int = 600_000) -> tuple[int, int]:
    """Error code and low watermark that DeleteRecords answers."""
    asked = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=TOPIC, partitions=[asked])], timeout_ms=timeout_ms
    )
    answer = await (await node.connection()).ask(request, DeleteRecordsResponse)
    told = answer.topics[0].partitions[0]
    return told.error_code, told.low_watermark


def test_delete_records_is_answered_when_all_online_followers_have_deleted_them() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1, 2, 3))
        await cluster[1].produce(batch_of(b"x"))
        await cluster[1].produce(batch_of(b"y"))
        await cluster.until_same(1, 2, 3)
        assert await delete_before(cluster[1], 1) == (0, 1)
        assert [cluster[node_id].replica().log.start_offset for node_id in (1, 2, 3)] == [1, 1, 1]
        await cluster[3].replication.stop()
        # Broker 3 does not learn of it: records deleted on the others may be visible again if it leads.
        timed_out = (ErrorCode.REQUEST_TIMED_OUT, 1)
        assert await delete_before(cluster[1], 2, timeout_ms=100) == timed_out
        deleting = asyncio.create_task(delete_before(cluster[1], 2))
        leader = cluster[1].replica()
        await cluster.until(lambda: len(leader.follower_changes) == 1)
        await cluster.until(lambda: cluster[2].replica().log.start_offset == 2)
        assert not deleting.done()
        cluster.controller.tell_of(replace(cluster.controller.brokers[3], fenced=True))
        cluster[1].replicas.brokers_changed()
        assert await deleting == (0, 2)
        assert cluster[3].replica().log.start_offset == 1

    tell(story, 3)


def test_a_waiting_delete_records_is_answered_not_leader_when_leadership_moves() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1, 2))
        await cluster[1].produce(batch_of(b"x"))
        await cluster[2].replication.stop()
        deleting = asyncio.create_task(delete_before(cluster[1], 1))
        await cluster.until(lambda: len(cluster[1].replica().follower_changes) == 1)
        await cluster.controller.elect(2)
        assert await deleting == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)

    tell(story)


def test_a_fetch_of_an_earlier_broker_epoch_of_a_follower_is_ignored() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1, 2))
        await cluster.stop(2)
        await cluster.start(2)
        await cluster[2].replication.stop()
        await cluster[1].produce(batch_of(b"x"), acks=1)
        connection = await cluster[2].peers.connect(1)

        async def error_for(node_id: int, broker_epoch: int) -> int:
            request = asking(offset=1, epoch=0, replica=(node_id, broker_epoch))
            answer = await connection.ask(request, FetchResponse)
            return answer.responses[0].partitions[0].error_code

        assert await error_for(2, 201) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert await error_for(3, 301) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert cluster[1].replica().high_watermark == 0
        assert await error_for(2, 202) == 0
        assert cluster[1].replica().high_watermark == 1
        connection.close()

    tell(story)


def test_a_delayed_fetch_of_a_follower_is_completed_by_release_fetch() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1, 2))
        await cluster.until_same(1, 2)
        await cluster[2].replication.stop()
        connection = await cluster[2].peers.connect(1)
        first = asking(epoch=0, replica=(2, 201), session_epoch=0)
        session = (await connection.ask(first, FetchResponse)).session_id
        held = asking(epoch=0, replica=(2, 201), session_epoch=1, max_wait_ms=600_000)
        held.session_id = session
        waiting = asyncio.create_task(connection.ask(held, FetchResponse))
        partition = cluster[1].replica()
        await cluster.until(lambda: len(partition.follower_fetches) == 1)
        await connection.ask(ReleaseFetchRequest(), ReleaseFetchResponse)
        assert (await waiting).responses == []
        connection.close()

    tell(story)


def test_a_consumer_reads_from_a_follower_up_to_its_high_watermark() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1, 2))
        await cluster[1].produce(batch_of(b"x"))
        await cluster.until_same(1, 2)
        told = (await cluster[2].fetch(asking(epoch=0))).responses[0].partitions[0]
        assert (told.error_code, told.high_watermark) == (0, 1)
        assert bytes(told.records) == cluster[1].log_bytes()
        # A delayed fetch there completes when the follower has replicated more.
        waiting = asyncio.create_task(cluster[2].fetch(asking(1, epoch=0, max_wait_ms=600_000)))
        await cluster.until(lambda: len(cluster[2].replica().fetches) == 1)
        await cluster[1].produce(batch_of(b"y"))
        told = (await waiting).responses[0].partitions[0]
        assert told.high_watermark == 2
        assert told.records
        # Clients that know of leaders only are sent to the leader.
        old = await cluster[2].fetch(asking(), version=10)
        assert old.responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    tell(story)


def test_only_a_leader_answers_offset_out_of_range_beyond_the_end() -> None:
    """A client that takes a follower for the leader would reset its offset: it would reread or skip records."""

    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1, 2))
        await cluster[1].produce(batch_of(b"x"))
        await cluster.until_same(1, 2)
        for last_epoch in (-1, 0):
            asked = asking(5, epoch=0, last_epoch=last_epoch)
            leader, other = [(await cluster[each].fetch(asked)).responses[0].partitions[0] for each in (1, 2)]
            diverging = last_epoch == 0
            assert (leader.error_code == ErrorCode.OFFSET_OUT_OF_RANGE) is not diverging
            assert (leader.diverging_epoch is not None) is diverging
            assert other.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert other.diverging_epoch is None

    tell(story)


def test_a_consumer_is_redirected_to_the_replica_in_its_rack() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1, 2, 3))
        await cluster[1].produce(batch_of(b"x"))
        await cluster.until_same(1, 2, 3)
        for rack, preferred in (("rack-3", 3), ("rack-1", -1), ("elsewhere", -1), ("", -1)):
            told = (await cluster[1].fetch(asking(rack=rack))).responses[0].partitions[0]
            assert told.preferred_read_replica == preferred
            assert bool(told.records) == (preferred == -1)
        # A replica that does not have what is asked for is none to be sent to.
        await cluster.controller.change(isr=(1, 2))
        told = (await cluster[1].fetch(asking(rack="rack-3"))).responses[0].partitions[0]
        assert told.preferred_read_replica == -1

    tell(story, 3, replica_selector_class="org.apache.kafka.common.replica.RackAwareReplicaSelector")


def test_a_deposed_and_reelected_leader_keeps_its_log() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1, 2))
        for leader in (1, 2, 1, 2):
            assert (await cluster[leader].produce(batch_of(b"x"))).error_code == 0
            await cluster.until_same(1, 2)
            await cluster.controller.elect(3 - leader)
        await cluster.until_same(1, 2)
        assert cluster[1].log_bytes() == cluster[2].log_bytes()
        entries = cluster[1].replica().log.epochs.entries
        assert [entry.start_offset for entry in entries[:4]] == [0, 1, 2, 3]

    tell(story)


def test_a_topic_that_is_deleted_is_fetched_no_more() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1, 2))
        await cluster[1].produce(batch_of(b"x"))
        await cluster.until_same(1, 2)
        topic = cluster.controller.topics.pop(TOPIC)
        for node_id in (1, 2):
            await cluster[node_id].replicas.topic_deleted(topic)
            cluster[node_id].image.apply_topic_deleted(TOPIC)
        assert not cluster[2].replication._fetchers
        assert "orders-0" not in cluster[2].disk.list("")
        assert cluster[2].replicas.find_leader(TOPIC, 0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    tell(story)
