"""Damaged batches on one broker's disk: never served, never replicated, and repaired from another replica."""

import pytest

from penstock.base.errors import ErrorCode
from penstock.records.batch import HEADER_SIZE, headers
from penstock.services.replication.log_repair import LogRepairError
from penstock.wire.messages.fetch import FetchResponse
from tests.raw_client import batch_of
from tests.services.replication.cluster import Cluster, HeldDisk, Node, led_by
from tests.services.replication.stories import tell
from tests.services.replication.test_roles import asking

COUNT = 8
LOG = f"orders-0/{0:020d}.log"


def flip(disk: HeldDisk, number: int, *, path: str = LOG, at: int = HEADER_SIZE + 5) -> None:
    """Flip a bit of one batch in a segment's file."""
    file = disk.open(path)
    content = bytearray(file.read(0, file.size))
    start = [position for position, _ in headers(content)][number]
    content[start + at] ^= 4
    file.truncate(0)
    file.append([bytes(content)])
    file.close()


async def fill(cluster: Cluster, **configs: str) -> None:
    await cluster.controller.create(led_by(1, 2), **configs)
    for number in range(COUNT):
        assert (await cluster[1].produce(batch_of(b"%d" % number * 50))).error_code == 0
    await cluster.until_same(1, 2)


async def fetched(node: Node, offset: int) -> tuple[int, bytes]:
    data = (await node.fetch(asking(offset))).responses[0].partitions[0]
    return data.error_code, bytes(data.records or b"")


async def read_all(node: Node) -> bytes:
    """All that a consumer gets, and how: right, or an error that it tries again."""
    found, offset = b"", 0
    connection = await node.connection()
    while offset < COUNT:
        answer = await connection.ask(asking(offset), FetchResponse, version_max=12)
        data = answer.responses[0].partitions[0]
        code, records = data.error_code, bytes(data.records or b"")
        assert code in (ErrorCode.NONE, ErrorCode.CORRUPT_MESSAGE)
        for _, header in headers(records):
            offset = header.next_offset
        found += records
    return found


@pytest.mark.parametrize("damaged", [1, 2], ids=["leader", "follower"])
@pytest.mark.parametrize("number", [0, 3, COUNT - 1])
def test_damaged_batches_of_one_replica_are_copied_from_the_other(
    damaged: int, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(cluster: Cluster) -> None:
        await fill(cluster)
        good = cluster[1].log_bytes()
        disk = cluster[damaged].disk
        await cluster.stop(damaged)
        flip(disk, number)
        node = await cluster.start(damaged)
        assert await read_all(node) == good
        assert not any(segment.damage for segment in node.replica().log.segments)
        assert node.log_bytes() == good
        assert cluster[3 - damaged].log_bytes() == good
        assert cluster.controller.topics["orders"].partitions[0].leader == 1
        await node.produce(batch_of(b"more")) if damaged == 1 else await cluster[1].produce(batch_of(b"more"))
        await cluster.until_same(1, 2)

    tell(story)
    assert f"orders-0: offsets {number} to {number} are damaged" in caplog.text
    assert f"repaired damaged offsets {number} to {number} from another replica" in caplog.text
    assert caplog.text.count("are damaged (") == 1


@pytest.mark.parametrize("at", [8, 11, 16, 21, 26], ids=["length", "length, lowest", "magic", "crc", "count"])
def test_a_batch_is_repaired_wherever_it_is_damaged(at: int) -> None:
    async def story(cluster: Cluster) -> None:
        await fill(cluster)
        good = cluster[1].log_bytes()
        disk = cluster[1].disk
        await cluster.stop(1)
        flip(disk, 2, at=at)
        node = await cluster.start(1)
        assert await read_all(node) == good
        assert node.log_bytes() == good

    tell(story)


def test_several_batches_of_several_segments_are_repaired() -> None:
    async def story(cluster: Cluster) -> None:
        await fill(cluster, internal_segment_bytes="300")
        good = cluster[2].log_bytes()
        disk = cluster[2].disk
        bases = [segment.base_offset for segment in cluster[2].replica().log.segments]
        assert len(bases) > 3
        await cluster.stop(2)
        for base in bases[:3]:
            flip(disk, 0, path=f"orders-0/{base:020d}.log")
            flip(disk, 1, path=f"orders-0/{base:020d}.log")
        node = await cluster.start(2)
        assert await read_all(node) == good
        assert node.log_bytes() == good
        await cluster.stop(2)
        node = await cluster.start(2)
        assert await read_all(node) == good

    tell(story)


def test_batches_damaged_on_all_replicas_stay_an_error_and_others_are_served() -> None:
    async def story(cluster: Cluster) -> None:
        await fill(cluster)
        batches = [
            cluster[1].log_bytes()[at : at + header.size] for at, header in headers(cluster[1].log_bytes())
        ]
        disks = {node_id: cluster[node_id].disk for node_id in (1, 2)}
        for node_id in (1, 2):
            await cluster.stop(node_id)
            flip(disks[node_id], 4)
        for node_id in (1, 2):
            await cluster.start(node_id)
        for node_id in (1, 2):
            node = cluster[node_id]
            await cluster.until(lambda node=node: node.replica().high_watermark == COUNT)  # type: ignore[misc]
            assert await fetched(node, 0) == (ErrorCode.NONE, b"".join(batches[:4]))
            for _ in range(3):
                assert await fetched(node, 4) == (ErrorCode.CORRUPT_MESSAGE, b"")
            assert await fetched(node, 5) == (ErrorCode.NONE, b"".join(batches[5:]))
        await cluster.stop(2)
        flip(disks[2], 4)  # the same bit: it is as it was
        await cluster.start(2)
        await cluster.until(lambda: not any(each.damage for each in cluster[1].replica().log.segments))
        assert cluster[1].log_bytes() == cluster[2].log_bytes() == b"".join(batches)

    tell(story)


def test_a_sole_replica_answers_corrupt_message_and_keeps_everything() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1))
        for number in range(COUNT):
            await cluster[1].produce(batch_of(b"%d" % number * 50))
        good = cluster[1].log_bytes()
        batches = [good[at : at + header.size] for at, header in headers(good)]
        disk = cluster[1].disk
        for _ in range(2):  # after a second start it is the same
            await cluster.stop(1)
            if disk.size(LOG) == len(good):
                file = disk.open(LOG)
                if file.read(0, file.size) == good:
                    flip(disk, 4)
                file.close()
            await cluster.start(1)
            assert await fetched(cluster[1], 0) == (ErrorCode.NONE, b"".join(batches[:4]))
            assert await fetched(cluster[1], 4) == (ErrorCode.CORRUPT_MESSAGE, b"")
            assert await fetched(cluster[1], 5) == (ErrorCode.NONE, b"".join(batches[5:]))
        assert disk.size(LOG) == len(good)
        assert (await cluster[1].produce(batch_of(b"more"))).base_offset == COUNT

    tell(story, 1)


def test_a_batch_of_another_leader_epoch_does_not_replace_a_damaged_one() -> None:
    async def story(cluster: Cluster) -> None:
        await fill(cluster)
        disk = cluster[2].disk
        await cluster.stop(2)
        flip(disk, 4)
        file = disk.open("orders-0/leader-epoch-checkpoint")
        file.truncate(0)
        file.append([b"0\n1\n3 0\n"])  # as if this replica had followed another leader
        node = await cluster.start(2)
        await node.replication.stop()
        partition = node.replica()
        assert await fetched(node, 4) == (ErrorCode.CORRUPT_MESSAGE, b"")
        (damage,) = partition.log.segments[0].damage
        with pytest.raises(LogRepairError, match="another leader epoch"):
            await node.replication._log_repairer._copy_from_replicas(partition, damage)

    tell(story)
