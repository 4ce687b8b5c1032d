"""Idle partitions are left out of follower fetches, and any change of them reaches the follower at once."""

import pytest

from penstock.core.fetch_sessions import IncrementalFetch, PartitionKey
from penstock.services.fetching import idle_partitions
from penstock.services.replication import fetcher
from tests.raw_client import batch_of
from tests.services.replication.cluster import TOPIC, Cluster, Node, led_by
from tests.services.replication.stories import tell

PARTITIONS = 5
LAG_MS = 1500
FOR_EVER_S = 1e9


@pytest.fixture(autouse=True)
def nothing_but_signals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable the periodic look at all partitions: a change that is not signalled is never seen."""
    monkeypatch.setattr(idle_partitions, "LOOK_AT_ALL_S", FOR_EVER_S)
    monkeypatch.setattr(fetcher, "_EXAMINE_ALL_S", FOR_EVER_S)


def sentinels_at(node: Node, index: int = 0) -> list[idle_partitions._IdlePartitionWaiter]:
    """One for each follower's session that the partition rests in."""
    waiters = node.replica(index).follower_fetches.waiting
    return [each for each in waiters if isinstance(each, idle_partitions._IdlePartitionWaiter)]


async def all_rest(cluster: Cluster, followers: int = 1, partitions: int = PARTITIONS) -> None:
    leader = cluster[1]
    await cluster.until(
        lambda: all(len(sentinels_at(leader, index)) == followers for index in range(partitions))
    )


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many partitions each look of an incremental fetch was about."""
    looks: list[int] = []
    partitions = IncrementalFetch.partitions

    def count(fetch: IncrementalFetch) -> object:
        found = partitions(fetch)
        looks.append(len(found))
        return found

    monkeypatch.setattr(IncrementalFetch, "partitions", count)
    return looks


def test_only_busy_partitions_are_in_follower_fetches(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(*[led_by(1, 2)] * PARTITIONS)
        await all_rest(cluster)
        looks = counted(monkeypatch)
        asked = thought_of(monkeypatch)
        for number in range(20):
            assert (await cluster[1].produce(batch_of(b"%d" % number), index=3)).error_code == 0
        await cluster.until_same(1, 2, index=3)
        assert looks
        assert max(looks) == 1
        assert set(asked) == {3}

    tell(story, replica_fetch_wait_max_ms=50)


def thought_of(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The partitions of which a follower thought what to say."""
    asked: list[int] = []
    wanted = fetcher.ReplicaFetcher._target

    def count(self: fetcher.ReplicaFetcher, followed: fetcher._Followed) -> object:
        asked.append(followed.partition.index)
        return wanted(self, followed)

    monkeypatch.setattr(fetcher.ReplicaFetcher, "_target", count)
    return asked


def test_new_records_of_an_idle_partition_complete_the_delayed_follower_fetch() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(*[led_by(1, 2)] * PARTITIONS)
        await cluster[2].replication.stop()
        cluster[2].replication.start()
        for index in range(PARTITIONS):
            assert (await cluster[1].produce(batch_of(b"x"), index=index)).error_code == 0
            await cluster.until_same(1, 2, index=index)
        for index in range(PARTITIONS):
            assert (await cluster[1].produce(batch_of(b"y"), index=index)).error_code == 0
            await cluster.until_same(1, 2, index=index)
        assert any(sentinels_at(cluster[1], index) for index in range(PARTITIONS))

    tell(story, replica_fetch_wait_max_ms=600_000)


def test_a_follower_that_left_the_isr_of_an_idle_partition_rejoins() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(*[led_by(1, 2)] * PARTITIONS)
        await all_rest(cluster)
        await cluster.controller.change(index=2, isr=(1,))
        await cluster.until(lambda: set(cluster.controller.topics[TOPIC].partitions[2].isr) == {1, 2})

    tell(story, replica_fetch_wait_max_ms=50)


def test_a_follower_of_a_long_idle_partition_does_not_count_as_lagging() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(*[led_by(1, 2)] * PARTITIONS)
        await all_rest(cluster)
        leader = cluster[1].leader()
        follower = leader.follower(2)
        assert follower is not None
        rested_ms = follower.caught_up_ms
        (sentinel,) = sentinels_at(cluster[1])
        await cluster.until(lambda: sentinel._idle._asked_ms > rested_ms + LAG_MS)
        cluster[1].leader().append(memoryview(batch_of(b"x")), now_ms=1_000)
        assert follower.caught_up_ms > rested_ms + LAG_MS

    tell(story, replica_fetch_wait_max_ms=50)


def test_a_new_leader_epoch_and_a_deleted_topic_reach_idle_partitions() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(*[led_by(1, 2)] * PARTITIONS)
        await all_rest(cluster)
        await cluster.controller.elect(1)
        assert (await cluster[1].produce(batch_of(b"x"))).error_code == 0
        await cluster.until_same(1, 2)
        (sentinel,) = sentinels_at(cluster[1], 1)
        await cluster[1].replicas.topic_deleted(cluster.controller.topics[TOPIC])
        assert sentinel not in sentinel.partition.follower_fetches.waiting

    tell(story, replica_fetch_wait_max_ms=50)


def test_deleted_records_reach_the_follower_of_an_idle_partition() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(*[led_by(1, 2)] * PARTITIONS)
        await cluster[1].produce(batch_of(b"x"))
        await all_rest(cluster)
        assert cluster[1].leader().delete_records(1) == 1
        await cluster.until(lambda: cluster[2].replica().log.start_offset == 1)

    tell(story, replica_fetch_wait_max_ms=50)


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_missed_signal_is_found_by_the_full_check(side: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle_partitions, "LOOK_AT_ALL_S", 0.2)
    monkeypatch.setattr(fetcher, "_EXAMINE_ALL_S", 0.2)

    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1, 2))
        await cluster[1].produce(batch_of(b"x"))
        await cluster.until_same(1, 2)
        leader = cluster[1].leader()
        follower = leader.follower(2)
        assert follower is not None
        if side == "leader":  # as retention does
            cluster[1].replica().log.advance_start_offset(1)
            await cluster.until(lambda: cluster[2].replica().log.start_offset == 1)
        else:
            cluster[2].replica().log.advance_start_offset(1)
            await cluster.until(lambda: follower.start_offset == 1)

    tell(story, replica_fetch_wait_max_ms=50)


def test_followers_that_come_and_go_leave_no_sentinels() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(*[led_by(1, 2, 3)] * PARTITIONS)
        for _ in range(3):
            await all_rest(cluster, followers=2)
            await restart_session(cluster, cluster[2])
        await all_rest(cluster, followers=2)

    tell(story, 3, replica_fetch_wait_max_ms=50)


async def restart_session(cluster: Cluster, node: Node) -> None:
    """The follower has something of an answer that it cannot take, and begins another session."""
    (following,) = node.replication._fetchers.values()
    sessions = cluster[1].services.logs.fetch_sessions
    before = set(sessions._sessions)
    following._session.restart()
    await cluster.until(lambda: bool(set(sessions._sessions) - before))


def test_idle_partitions_are_tracked_per_broker_epoch_of_a_follower() -> None:
    woken: list[PartitionKey] = []
    watch = idle_partitions.IdlePartitions(2, woken.append)
    assert not watch.asks(("broker 2", 201), 10.0)
    assert watch.asks(("broker 2", 201), 10.1)
    assert not watch.asks(("broker 2", 200), 10.2)
