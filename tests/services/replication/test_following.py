"""Followers copy the leader's log byte by byte, and truncate records that it does not have."""

from dataclasses import replace

import pytest

from penstock.base.errors import ErrorCode
from penstock.records.batch import place, read_header
from penstock.records.compression import Codec
from penstock.records.control import Marker, MarkerType
from penstock.services.replicas.replica import Replica
from penstock.storage.log import PlacedBatch
from tests.cluster.cuttable_link import CuttableLink
from tests.raw_client import batch_of
from tests.services.replication.cluster import LISTENER, Cluster, led_by
from tests.services.replication.stories import tell


def placed(value: bytes, *, base_offset: int, leader_epoch: int = 0) -> PlacedBatch:
    """A batch as a leader would place it."""
    batch = batch_of(value)
    return place(memoryview(batch), read_header(batch), base_offset=base_offset, leader_epoch=leader_epoch)


def test_a_follower_has_the_same_bytes_whatever_is_in_them() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1, 2))
        leader = cluster[1]
        for codec in Codec:
            batch = batch_of(b"a" * 100, b"b" * 1000, codec=codec)
            answer = await leader.produce(batch)
            assert answer.error_code == 0
        plain = batch_of(b"first", producer_id=7, producer_epoch=0, base_sequence=0)
        await leader.produce(plain)
        partition = leader.replica()
        for number, ends in enumerate((MarkerType.COMMIT, MarkerType.ABORT)):
            epoch = number + 1
            records = batch_of(
                b"in a transaction", producer_id=8, producer_epoch=epoch, base_sequence=0, transactional=True
            )
            taken = partition.producers.verifications.begin(8, epoch=epoch, sequence=0, bumps_epochs=False)
            leader.leader().append(memoryview(records), now_ms=1_000, verification=taken)
            leader.leader().append_marker(Marker(ends, 8, epoch, 5), version=0, now_ms=1_000)
        await cluster.until_same(1, 2)
        assert leader.log_bytes() == cluster[2].log_bytes()
        copy = cluster[2].replica()
        assert copy.producers.entries() == partition.producers.entries()
        assert copy.last_stable_offset == partition.last_stable_offset == partition.log.end_offset
        end = partition.log.end_offset
        aborted = partition.aborted_transactions(from_offset=0, upto_offset=end)
        assert aborted
        assert copy.aborted_transactions(from_offset=0, upto_offset=end) == aborted

    tell(story)


def test_a_late_follower_gets_all_records() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1, 2, 3, isr=(1, 2)))
        await cluster.stop(3)
        for number in range(200):
            await cluster[1].produce(batch_of(b"%d" % number * 500), acks=1)
        await cluster.start(3)
        await cluster.until_same(1, 2, 3)
        assert cluster[3].log_bytes() == cluster[1].log_bytes()
        assert cluster[1].replica().log.end_offset == 200
        await cluster.until(lambda: set(cluster[1].replica().state.isr) == {1, 2, 3})

    tell(story, 3)


def test_a_follower_does_not_wait_for_an_earlier_broker_epoch_of_its_leader() -> None:
    """A machine that lost its power says nothing, and comes back before anybody missed it."""

    async def story(cluster: Cluster) -> None:
        controller = cluster.controller
        link = CuttableLink("{}:{}".format(*cluster[1].address))
        await link.open()
        host, port = link.address.split(":")
        leader = replace(controller.brokers[1], addresses={LISTENER: (host, int(port))})
        controller.tell_of(leader)
        try:
            await controller.create(led_by(1, 2))
            await cluster[1].produce(batch_of(b"before"))
            link.fall_silent()
            await cluster[1].produce(batch_of(b"after"), acks=1)
            controller.tell_of(replace(leader, epoch=leader.epoch + 1))
            cluster[2].peers.brokers_changed()
            await cluster.until_same(1, 2)
        finally:
            await link.close()

    tell(story, replica_socket_timeout_ms="3600000", replica_fetch_backoff_ms="3600000")


@pytest.mark.parametrize("partition_count", [1, 5])
def test_a_large_backlog_comes_in_many_answers(partition_count: int) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(*[led_by(1, 2, isr=(1,))] * partition_count)
        await cluster.stop(2)
        for index in range(partition_count):
            for _ in range(20):
                await cluster[1].produce(batch_of(bytes(300_000)), acks=1, index=index)
        await cluster.start(2)
        for index in range(partition_count):
            await cluster.until_same(1, 2, index=index)
            assert cluster[2].log_bytes(index) == cluster[1].log_bytes(index)

    tell(story)


@pytest.mark.parametrize(
    ("configs", "adding", "rate"),
    [
        ({"leader_replication_throttled_replicas": "0:1"}, (), "leader_replication_throttled_rate"),
        ({"follower_replication_throttled_replicas": "0:2"}, (), "follower_replication_throttled_rate"),
        ({}, (2,), "penstock_move_max_bytes_per_second"),
    ],
)
def test_a_throttled_replica_is_copied_slowly_while_others_keep_up(
    configs: dict[str, str], adding: tuple[int, ...], rate: str
) -> None:
    async def story(cluster: Cluster) -> None:
        slow = led_by(1, 2, isr=(1,))._replace(adding=adding)
        await cluster.controller.create(slow, led_by(1, 2), **configs)
        await cluster.stop(2)
        for _ in range(20):
            await cluster[1].produce(batch_of(bytes(300_000)), acks=1)
        await cluster.start(2)
        await cluster.until(lambda: cluster[2].replica().log.end_offset > 0)
        for number in range(10):
            # In sync: producers wait for it, and no throttle holds it back.
            assert (await cluster[1].produce(batch_of(b"%d" % number), index=1)).error_code == 0
        assert cluster[2].replica().log.end_offset < 20
        for node in (cluster[1], cluster[2]):
            node.image.apply_broker_configs("", {rate.replace("_", "."): "1000000000"})
            node.configs.reload()
        await cluster.until_same(1, 2)
        await cluster.until(lambda: set(cluster[1].replica().state.isr) == {1, 2})

    tell(story, **{rate: 1000})


def test_a_reassigned_replica_is_fetched_in_small_responses_that_delay_no_other() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1, 2, isr=(1,))._replace(adding=(2,)))
        await cluster.stop(2)
        for _ in range(40):
            await cluster[1].produce(batch_of(bytes(10_000)), acks=1)
        await cluster.start(2)
        await cluster.until(lambda: cluster[2].replica().log.end_offset > 0)
        # One answer goes over the limit; the next one is years away.
        assert cluster[2].replica().log.end_offset <= 13

    tell(story, penstock_move_max_bytes_per_second=1)


def test_a_replica_that_has_caught_up_is_not_throttled_before_it_learns_that_it_is_in_the_isr() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.controller.reachable.clear()
        await cluster.controller.create(led_by(1, 2, isr=(1,))._replace(adding=(2,)))
        for number in range(3):
            await cluster[1].produce(batch_of(b"%d" % number), acks=1)
            await cluster.until(lambda end=number + 1: cluster[2].replica().log.end_offset == end)
        assert not cluster[2].follower().is_in_sync

    tell(story, penstock_move_max_bytes_per_second=1)


def test_a_follower_with_a_newer_epoch_than_its_leader_retries_soon(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("DEBUG", logger="penstock.replication")

    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1, 2))
        await cluster.controller.elect(1, to=(2,))
        await cluster.until(lambda: "it answers UNKNOWN_LEADER_EPOCH" in caplog.text)
        await cluster.controller.tell(1)
        assert (await cluster[1].produce(batch_of(b"waited for"))).error_code == 0
        assert cluster[2].replica().log.end_offset == 1, "it was not given up"

    tell(story, replica_fetch_backoff_ms=3_600_000)


def test_records_that_only_a_former_leader_has_are_truncated() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1, 2, 3))
        for value in (b"one", b"two", b"three"):
            assert (await cluster[1].produce(batch_of(value))).error_code == 0
        await cluster.until_same(1, 2, 3)
        # Broker 1 does not learn of the new leader for a while, and appends records that no other broker gets.
        await cluster.controller.elect(2, to=(2, 3))
        await cluster[1].produce(batch_of(b"lost", b"as well"), acks=1)
        assert (await cluster[2].produce(batch_of(b"kept"), acks=1)).base_offset == 3
        assert cluster[1].replica().log.end_offset == 5
        await cluster.controller.tell(1)
        await cluster.until_same(1, 2, 3)
        assert cluster[1].log_bytes() == cluster[2].log_bytes() == cluster[3].log_bytes()
        assert cluster[1].replica().log.end_offset == 4
        header = read_header(cluster[1].log_bytes()[-len(batch_of(b"kept")) :])
        assert (header.base_offset, header.leader_epoch) == (3, 1)

    tell(story, 3)


def test_logs_that_diverge_over_several_epochs_are_truncated_to_their_common_prefix() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1, 2))
        await cluster[1].produce(batch_of(b"both have it"))
        await cluster.until_same(1, 2)
        await cluster.stop(2)
        # Broker 1 goes on alone over some epochs; then, uncleanly, broker 2 is made the leader, with an older log.
        for _ in range(3):
            await cluster.controller.elect(1, isr=(1,))
            await cluster[1].produce(batch_of(b"alone"), acks=1)
        await cluster.stop(1)
        await cluster.controller.elect(2, isr=(2,))
        await cluster.start(2)
        await cluster[2].produce(batch_of(b"a new history"), acks=1)
        await cluster.start(1)
        await cluster.until_same(2, 1)
        assert cluster[1].log_bytes() == cluster[2].log_bytes()
        assert cluster[1].replica().log.end_offset == 2
        assert cluster[1].replica().log.epochs.entries == cluster[2].replica().log.epochs.entries

    tell(story)


def test_a_longer_log_of_the_same_epoch_is_truncated_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1, 2, isr=(1,)))
        await cluster[1].produce(batch_of(b"both"))
        await cluster.until_same(1, 2)
        await cluster.stop(2)
        await cluster[1].produce(batch_of(b"more"), acks=1)
        # A machine crash took what the leader had not synced, and nothing of the follower's.
        await cluster.stop(1)
        node = await cluster.start(2)
        partition = node.replica()
        await node.replication.stop()
        longer = placed(b"longer", base_offset=1, leader_epoch=0)
        node.follower().copy([longer, placed(b"still", base_offset=2, leader_epoch=0)], now_ms=1)
        assert partition.log.end_offset == 3
        await cluster.stop(2)
        await cluster.start(1)
        await cluster.start(2)
        await cluster.until_same(1, 2)
        assert cluster[2].replica().log.end_offset == 2

    caplog.set_level("INFO", logger="penstock.replication")
    tell(story)
    assert "orders-0: truncated: the log diverges" in caplog.text


def test_a_follower_behind_the_leaders_log_start_restarts_there() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1, 2, isr=(1,)))
        await cluster[1].produce(batch_of(b"zero"))
        await cluster.until_same(1, 2)
        await cluster.stop(2)
        await cluster.controller.change(isr=(1,))
        for value in (b"one", b"two", b"three"):
            await cluster[1].produce(batch_of(value, value, value), acks=1)
        # In the middle of a batch.
        assert cluster[1].leader().delete_records(5) == 5
        await cluster.start(2)
        await cluster.until_same(1, 2)
        log = cluster[2].replica().log
        assert (log.start_offset, log.end_offset) == (5, 10)
        assert cluster[1].log_bytes()[-100:] == cluster[2].log_bytes()[-100:]

    tell(story)


def test_deleted_records_are_deleted_on_followers() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1, 2))
        for _ in range(5):
            await cluster[1].produce(batch_of(b"x"))
        assert cluster[1].leader().delete_records(3) == 3
        await cluster.until(lambda: cluster[2].replica().log.start_offset == 3)

    tell(story)


def test_a_replica_that_is_removed_loses_its_data_and_one_that_is_added_gets_it() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1, 2))
        await cluster[1].produce(batch_of(b"x"))
        await cluster.until_same(1, 2)
        await cluster.controller.change(replicas=(1, 3), isr=(1,))
        assert cluster[2].replicas.find_replica("orders", 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert "orders-0" not in cluster[2].disk.list("")
        await cluster.until_same(1, 3)
        assert cluster[3].log_bytes() == cluster[1].log_bytes()
        await cluster.controller.change(replicas=(1, 2, 3))
        await cluster.until_same(1, 2, 3)

    tell(story, 3)


def test_a_damaged_batch_is_not_appended_and_other_partitions_continue(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1, 2, isr=(1,)), led_by(1, 2, isr=(1,)))
        await cluster.stop(2)
        await cluster[1].produce(batch_of(b"damaged" * 10), acks=1, index=0)
        await cluster[1].produce(batch_of(b"whole"), acks=1, index=1)
        path = next(name for name in cluster[1].disk.list("orders-0") if name.endswith(".log"))
        file = cluster[1].disk.open(f"orders-0/{path}")
        content = bytearray(file.read(0, 200))
        content[-3] ^= 1
        file.truncate(0)
        file.append([bytes(content)])
        await cluster.start(2)
        await cluster.until_same(1, 2, index=1)
        await cluster.until(lambda: "with a wrong CRC" in caplog.text)
        assert cluster[2].replica(0).log.end_offset == 0

    caplog.set_level("WARNING", logger="penstock.replication")
    tell(story)


def test_compacted_offsets_of_the_leader_are_not_damage_on_a_follower() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1, 2, isr=(1,)))
        await cluster[1].produce(batch_of(b"x"))
        await cluster.until_same(1, 2)
        assert not cluster[2].disk.exists("orders-0/compacted")
        await cluster.stop(2)
        await cluster.controller.change(isr=(1,))
        leader = cluster[1].replica()
        leader.log.append([placed(b"y", base_offset=5), placed(b"z", base_offset=9)], now_ms=1)
        cluster[1].leader().advance_high_watermark()
        await cluster.start(2)
        await cluster.until_same(1, 2)
        assert cluster[1].log_bytes() == cluster[2].log_bytes()
        assert cluster[2].disk.exists("orders-0/compacted")

    tell(story)


def test_a_replica_with_a_failed_disk_goes_offline_and_others_continue(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1, 2), led_by(1, 2))
        await cluster.until_same(1, 2, index=0)
        await cluster.until_same(1, 2, index=1)
        failing, whole = cluster[2].replica(0), cluster[2].replica(1)
        fail_appends(failing)
        await cluster[1].produce(batch_of(b"x"), acks=1, index=0)
        await cluster.until(lambda: failing.log.failed is not None)
        assert (await cluster[1].produce(batch_of(b"y"), index=1)).error_code == 0
        assert whole.log.end_offset == 1
        # The failed replica leaves the ISR.
        await cluster.until(lambda: cluster[1].replica(0).state.isr == (1,))

    def fail_appends(partition: Replica) -> None:
        def fail(*_: object) -> int:
            raise OSError("the disk is gone")

        segment = partition.log.segments[-1]

        class Failing:
            def __getattr__(self, name: str) -> object:
                return fail if name == "append" else getattr(file, name)

        file = segment.file
        segment._file = Failing()  # type: ignore[assignment]

    caplog.set_level("ERROR", logger="penstock.partition")
    tell(story, replica_lag_time_max_ms=1500)
    assert caplog.text.count("orders-0 is offline") == 1


def test_a_rejected_follower_fetch_is_retried_even_if_its_timer_fires_early(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Timers of an event loop come up to a millisecond before the clock gets there, and they come once."""

    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1, 2))
        cluster[2].loop.time = lambda: 0.0
        await cluster.controller.elect(1, to=(2,))
        await cluster.until(lambda: "UNKNOWN_LEADER_EPOCH" in caplog.text)
        await cluster.controller.tell(1)
        await cluster[1].produce(batch_of(b"after all"))
        await cluster.until_same(1, 2)

    caplog.set_level("DEBUG", logger="penstock.replication")
    tell(story)
