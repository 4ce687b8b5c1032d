"""The ISR, and the high watermark, which waits for all its members."""

import asyncio
from dataclasses import replace

import pytest

from penstock.base.errors import ErrorCode
from penstock.services.replicas.replica import Replica
from penstock.storage.errors import NoRoomError
from tests.raw_client import batch_of
from tests.services.replication.cluster import Cluster, Node, led_by
from tests.services.replication.stories import tell

# Long enough for a follower that fetches on a slow machine, short enough to wait for.
LAG_MS = 1500


def test_the_high_watermark_waits_for_the_slowest_in_sync_follower() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1, 2, 3))
        await cluster.until_same(1, 2, 3)
        await cluster[3].replication.stop()
        produced = asyncio.create_task(cluster[1].produce(batch_of(b"x")))
        leader = cluster[1].replica()
        await cluster.until(lambda: cluster[2].replica().log.end_offset == 1)
        await cluster.until(lambda: noted(cluster, 2) == 1)
        assert leader.high_watermark == 0
        assert not produced.done()
        cluster[3].replication.start()
        assert (await produced).error_code == 0
        await cluster.until_same(1, 2, 3)

    tell(story, 3)


def test_acks_1_does_not_wait_for_followers() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1, 2))
        await cluster[2].replication.stop()
        assert (await cluster[1].produce(batch_of(b"x"), acks=1)).error_code == 0
        assert cluster[1].replica().high_watermark == 0

    tell(story)


def test_a_lagging_follower_leaves_the_isr_and_rejoins() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1, 2, 3), min_insync_replicas="2")
        await cluster.until_same(1, 2, 3)
        await cluster[3].replication.stop()
        answer = await cluster[1].produce(batch_of(b"x"))  # returns when broker 3 does not count any more
        assert answer.error_code == 0
        assert set(cluster.controller.topics["orders"].partitions[0].isr) == {1, 2}
        assert cluster[3].replica().log.end_offset == 0
        cluster[3].replication.start()
        await cluster.until(lambda: set(cluster.controller.topics["orders"].partitions[0].isr) == {1, 2, 3})
        await cluster.until_same(1, 2, 3)
        (last,) = cluster.controller.asked[-1].values()
        assert dict(zip(last.isr, last.broker_epochs, strict=True)) == {1: 101, 2: 201, 3: 301}

    tell(story, 3, replica_lag_time_max_ms=LAG_MS)


def test_a_sole_isr_member_with_a_full_disk_resigns_after_a_follower_has_joined() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1, 2))
        await cluster.until_same(1, 2)
        await cluster[2].replication.stop()
        assert (await cluster[1].produce(batch_of(b"x"))).error_code == 0
        assert cluster.controller.topics["orders"].partitions[0].isr == (1,)
        cluster[1].leader().lacks_room = True
        cluster[2].replication.start()
        await cluster.until(lambda: proposed(cluster)[-2:] == [[1, 2], [2]])

    tell(story, replica_lag_time_max_ms=LAG_MS)


def test_a_sequence_gap_after_a_full_disk_is_not_out_of_order() -> None:
    """A client that heard of a gap would begin a new epoch, and send again what the next leader has already."""

    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1, 2))
        await cluster.until_same(1, 2)
        leader, follower = cluster[1], cluster[2]
        await follower.replication.stop()
        waits = asyncio.create_task(leader.produce(numbered(0)))
        await cluster.until(lambda: leader.replica().log.end_offset == 1)
        cluster.controller.reachable.clear()
        leader.disk.is_full = True
        codes = [(await leader.produce(numbered(sequence))).error_code for sequence in (1, 2)]
        await cluster.until(lambda: is_leaving(leader.replica()))
        leader.disk.is_full = False  # too late: it has asked to be out, and may be already
        codes += [(await leader.produce(numbered(sequence))).error_code for sequence in (2, 1)]
        assert codes == [ErrorCode.KAFKA_STORAGE_ERROR] * 4
        cluster.controller.reachable.set()
        await cluster.until(lambda: cluster.controller.topics["orders"].partitions[0].isr == (2,))
        follower.replication.start()
        await cluster.until_same(1, 2)
        await cluster.controller.elect(2)
        await waits  # whatever it hears, it sends the same again
        again = [(await follower.produce(numbered(sequence), acks=1)).base_offset for sequence in range(3)]
        assert again == [0, 1, 2]

    tell(story)


def test_a_sequence_gap_is_the_leaders_fault_only_after_a_rejected_batch() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1))
        leader = cluster[1]
        assert await codes_of(leader, 0) == [ErrorCode.NONE]
        leader.disk.is_full = True
        assert await codes_of(leader, 1, 2) == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
        leader.disk.is_full = False
        again = await codes_of(leader, 1, 3, 5)
        none, no_room, gap = (
            ErrorCode.NONE,
            ErrorCode.KAFKA_STORAGE_ERROR,
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        )
        assert again == [none, no_room, gap]

    tell(story, 1)


def test_a_sequence_gap_after_not_enough_replicas_is_not_out_of_order() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1, 2), min_insync_replicas="2")
        await cluster.until_same(1, 2)
        leader = cluster[1]
        assert await codes_of(leader, 0) == [ErrorCode.NONE]
        await cluster[2].replication.stop()
        await cluster.controller.change(isr=(1,), elr=(2,))
        assert await codes_of(leader, 0, 1) == [ErrorCode.NOT_ENOUGH_REPLICAS] * 2  # the answer to 0 got lost
        await cluster.controller.change(isr=(1, 2), elr=())
        cluster[2].replication.start()
        assert await codes_of(leader, 2) == [ErrorCode.NOT_ENOUGH_REPLICAS]
        assert [(await leader.produce(numbered(sequence))).base_offset for sequence in range(3)] == [0, 1, 2]

    tell(story)


def test_a_sequence_gap_after_a_batch_sent_too_early_is_not_out_of_order() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1, 2))
        await cluster.until_same(1, 2)
        assert await codes_of(cluster[1], 0) == [ErrorCode.NONE]
        await cluster.until_same(1, 2)
        follower = cluster[2]
        assert await codes_of(follower, 0, 1) == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
        await cluster.controller.elect(2)
        assert await codes_of(follower, 2) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
        assert [(await follower.produce(numbered(sequence))).base_offset for sequence in range(3)] == [
            0,
            1,
            2,
        ]

    tell(story)


async def codes_of(node: Node, *sequences: int) -> list[int]:
    """What it says to the batches of one producer, one after the other."""
    return [(await node.produce(numbered(sequence))).error_code for sequence in sequences]


def is_leaving(partition: Replica) -> bool:
    return partition.leader is not None and partition.leader.leadership.is_leaving


def numbered(sequence: int) -> bytes:
    """A record of an idempotent producer."""
    return batch_of(b"x", producer_id=7, producer_epoch=0, base_sequence=sequence)


def proposed(cluster: Cluster) -> list[list[int]]:
    """The ISRs that leaders proposed."""
    return [list(next(iter(proposals.values())).isr) for proposals in cluster.controller.asked]


def test_not_enough_replicas_is_answered_before_and_after_the_append() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1, 2), min_insync_replicas="2")
        await cluster.until_same(1, 2)
        await cluster[2].replication.stop()
        late = await cluster[1].produce(batch_of(b"x"))
        assert late.error_code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        early = await cluster[1].produce(batch_of(b"x"))
        assert early.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert cluster[1].replica().log.end_offset == 1

    tell(story, replica_lag_time_max_ms=LAG_MS)


def test_the_high_watermark_does_not_advance_below_min_isr() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1, 2), min_insync_replicas="2")
        await cluster[1].produce(batch_of(b"x"))
        await cluster[2].replication.stop()
        await cluster.controller.change(isr=(1,), elr=(2,))
        assert (await cluster[1].produce(batch_of(b"y"), acks=1)).error_code == 0
        leader = cluster[1].replica()
        assert (leader.high_watermark, leader.log.end_offset) == (1, 2)
        cluster[2].replication.start()
        await cluster.until_same(1, 2)
        assert leader.high_watermark == 2

    tell(story)


def test_the_high_watermark_does_not_advance_while_the_elr_is_not_empty() -> None:
    async def story(cluster: Cluster) -> None:
        # Brokers are restarted with another `min.insync.replicas`, one by one; this one has the new one.
        await cluster.controller.create(led_by(1, 2, isr=(1,))._replace(elr=(2,)))
        await cluster[2].replication.stop()
        leader = cluster[1].replica()
        assert (await cluster[1].produce(batch_of(b"x"), acks=1)).error_code == 0
        assert (await cluster[1].produce(batch_of(b"x"))).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert leader.high_watermark == 0
        await cluster.controller.change(elr=())
        assert leader.high_watermark == 1

    tell(story)


def test_a_leader_derives_the_elr_before_the_metadata_arrive() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1, 2), min_insync_replicas="2")
        state = cluster[1].leader().isr_state((1,), 5)
        assert (state.isr, state.elr, state.partition_epoch) == ((1,), (2,), 5)

    tell(story)


def test_a_lagging_follower_stays_in_the_isr_while_the_controller_is_unreachable() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1, 2))
        await cluster.until_same(1, 2)
        cluster.controller.reachable.clear()
        await cluster[2].replication.stop()
        produced = asyncio.create_task(cluster[1].produce(batch_of(b"x")))
        leader, leadership = cluster[1].replica(), cluster[1].leader().leadership
        await cluster.until(lambda: leadership.pending is not None)
        assert leadership.members == {1, 2}
        assert leader.high_watermark == 0
        assert not produced.done()
        cluster.controller.reachable.set()
        assert (await produced).error_code == 0
        assert leader.state.isr == (1,)

    tell(story, replica_lag_time_max_ms=LAG_MS)


def test_a_lost_alter_partition_response_changes_nothing_until_the_metadata_arrive() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1, 2, isr=(1,)))
        cluster.controller.loses_next_answer = True
        await cluster.until(lambda: cluster[1].replica().state.isr == (1, 2))
        assert cluster.controller.topics["orders"].partitions[0].partition_epoch == 1
        assert (await cluster[1].produce(batch_of(b"x"))).error_code == 0
        leadership = cluster[1].leader().leadership
        assert leadership.pending is None

    tell(story)


def test_a_fenced_follower_does_not_join() -> None:
    async def story(cluster: Cluster) -> None:
        fenced = replace(cluster.controller.brokers[2], fenced=True)
        cluster.controller.tell_of(fenced)
        await cluster.controller.create(led_by(1, 2, isr=(1,)))
        await cluster[1].produce(batch_of(b"x"))
        await cluster.until_same(1, 2)
        assert cluster[1].replica().state.isr == (1,)
        assert not cluster.controller.asked
        cluster.controller.tell_of(replace(fenced, fenced=False))
        await cluster.until(lambda: cluster[1].replica().state.isr == (1, 2))

    tell(story)


def test_with_flush_messages_1_a_follower_acknowledges_after_its_fsync() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1, 2, 3), flush_messages="1")
        await cluster.until_same(1, 2, 3)
        follower, leader = cluster[2].replica(), cluster[1].replica()
        cluster[2].disk.may_sync.clear()
        try:
            produced = asyncio.create_task(cluster[1].produce(batch_of(b"x")))
            await cluster.until(lambda: follower.log.end_offset == 1)
            await cluster.until(lambda: noted(cluster, 3) == 1)  # broker 3 has synced, and said so
            assert follower.log.recovery_point == 0
            assert noted(cluster, 2) == 0
            assert leader.high_watermark == 0
            assert not produced.done()
        finally:
            cluster[2].disk.may_sync.set()
        assert (await produced).error_code == 0
        assert follower.log.recovery_point == 1

    tell(story, 3)


def noted(cluster: Cluster, node_id: int) -> int:
    """How far the leader, broker 1, knows a follower to be."""
    leader = cluster[1].leader()
    follower = leader.follower(node_id)
    assert follower is not None
    return follower.end_offset


def test_a_full_disk_while_leader_epochs_are_written_takes_nothing_offline(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1, 2), flush_messages="1")
        await cluster.until_same(1, 2)
        brokers = [cluster[1], cluster[2]]
        for node in brokers:
            node.disk.is_full, node.disk.full_for = True, "leader-epoch-checkpoint"
        for leader in (2, 1):
            await cluster.controller.elect(leader)
            assert (await cluster[leader].produce(batch_of(b"x"))).error_code == ErrorCode.NONE
        await cluster.until_same(1, 2)
        assert all(node.replica().log.epochs.changed for node in brokers), "there was no room for them"
        assert all(node.replica().log.failed is None for node in brokers)
        for node in brokers:
            node.disk.is_full = False
        await cluster.until(lambda: not any(node.replica().log.epochs.changed for node in brokers))
        await cluster.until(lambda: not any(node.replicas.disk_space.problem() for node in brokers))
        assert brokers[0].log_bytes() == brokers[1].log_bytes()

    tell(story)
    assert "offline" not in caplog.text


def test_a_follower_with_a_full_disk_logs_it_once_and_continues_when_there_is_room(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1, 2))
        await cluster.until_same(1, 2)
        follower = cluster[2]
        follower.disk.is_full = True
        await cluster[1].produce(batch_of(b"x"), acks=1)
        await cluster.until(lambda: follower.replicas.disk_space.problem() is not None)
        refused = follower.replicas.disk_space.refusals.value
        await cluster.until(lambda: follower.replicas.disk_space.refusals.value > refused + 3)
        follower.disk.is_full = False
        await cluster.until_same(1, 2)
        await cluster.until(lambda: follower.replicas.disk_space.problem() is None)

    tell(story)
    assert caplog.text.count("disk full") == 1
    assert caplog.text.count("disk has room again") == 1


def test_a_truncation_that_fails_on_a_full_disk_is_retried() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1, 2), flush_messages="1")
        await cluster[1].produce(batch_of(b"x"))
        await cluster.until_same(1, 2)
        follower = cluster[2]
        await follower.replication.stop()
        await follower.replicas.checkpoints.write_checkpoints()
        follower.disk.is_full = True
        with pytest.raises(NoRoomError):
            await follower.replicas.truncation.truncate_to(follower.replica(), 0)
        assert (follower.replica().log.end_offset, follower.replica().log.failed) == (1, None)
        follower.disk.is_full = False
        await follower.replicas.truncation.truncate_to(follower.replica(), 0)
        assert follower.replica().log.end_offset == 0

    tell(story)
