"""SimulatedCluster: asyncio code against a broker, in virtual time, with things failing as scripted."""

import asyncio
import os
import random
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from penstock.sim import OutOfTimeError
from penstock.testing import SimulatedCluster

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def cluster() -> Iterator[SimulatedCluster]:
    with SimulatedCluster(seed=1) as cluster:
        yield cluster


async def produce(cluster: SimulatedCluster, *values: bytes, timeout_ms: int = 40_000) -> list[int]:
    async with AIOKafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, request_timeout_ms=timeout_ms
    ) as producer:
        return [(await producer.send_and_wait("orders", value)).offset for value in values]


async def consume(cluster: SimulatedCluster, count: int) -> list[bytes | None]:
    async with AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap_servers) as consumer:
        consumer.assign([ORDERS])
        await consumer.seek_to_beginning(ORDERS)
        return [(await consumer.getone()).value for _ in range(count)]


def test_aiokafka_works_unchanged(cluster: SimulatedCluster) -> None:
    async def story() -> list[bytes | None]:
        assert await produce(cluster, b"one", b"two") == [0, 1]
        return await consume(cluster, 2)

    assert cluster.run(story()) == [b"one", b"two"]


def test_records_bear_the_simulations_date(cluster: SimulatedCluster) -> None:
    async def story() -> None:
        async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            await asyncio.sleep(500)
            sent = await producer.send_and_wait("orders", b"one")
            assert sent.timestamp == pytest.approx(time.time() * 1000, abs=10_000)
            assert (await producer.send_and_wait("orders", b"two", timestamp_ms=77)).timestamp == 77

    cluster.run(story())


def test_many_stories_of_one_cluster_follow_each_other(cluster: SimulatedCluster) -> None:
    assert cluster.run(produce(cluster, b"one")) == [0]
    assert cluster.run(produce(cluster, b"two")) == [1]
    assert cluster.run(consume(cluster, 2)) == [b"one", b"two"]


def test_a_producer_gets_through_a_crash_of_minutes(cluster: SimulatedCluster) -> None:
    async def story() -> list[bytes | None]:
        async with AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers, request_timeout_ms=600_000, acks="all"
        ) as producer:
            await producer.send_and_wait("orders", b"before")
            cluster.broker.kill()
            cluster.after(120, cluster.broker.start)
            await producer.send_and_wait("orders", b"after")
        assert cluster.seconds > 120
        return await consume(cluster, 2)

    assert cluster.run(story()) == [b"before", b"after"]


@pytest.mark.parametrize("silently", [True, False])
def test_a_producer_with_a_short_request_timeout_fails(cluster: SimulatedCluster, silently: bool) -> None:
    async def story() -> None:
        async with AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers, request_timeout_ms=10_000
        ) as producer:
            await producer.send_and_wait("orders", b"before")
            cluster.broker.kill(silently=silently)
            with pytest.raises(KafkaError):
                await producer.send_and_wait("orders", b"lost")

    cluster.run(story())
    assert 10 <= cluster.seconds < 60


def test_what_was_not_synced_may_be_gone_with_the_power_and_what_was_is_not() -> None:
    def survivors(seed: int, flush_messages: int) -> int:
        with SimulatedCluster(seed=seed, settings={"log.flush.interval.messages": flush_messages}) as cluster:

            async def story() -> int:
                await produce(cluster, *(b"x" * 3000 for _ in range(20)))
                cluster.broker.cut_power()
                await cluster.broker.start()
                async with AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap_servers) as consumer:
                    return (await consumer.end_offsets([ORDERS]))[ORDERS]

            return cluster.run(story())

    assert {survivors(seed, flush_messages=1) for seed in range(5)} == {20}
    assert min(survivors(seed, flush_messages=1_000_000) for seed in range(5)) < 20


def test_a_full_disk_is_felt_until_there_is_room(cluster: SimulatedCluster) -> None:
    async def story() -> list[bytes | None]:
        await produce(cluster, b"before")
        cluster.broker.disk_full = True
        with pytest.raises(KafkaError):
            await produce(cluster, b"no room", timeout_ms=3000)
        cluster.broker.disk_full = False
        await produce(cluster, b"after")
        return await consume(cluster, 2)

    assert cluster.run(story()) == [b"before", b"after"]


def test_a_cut_network_holds_things_up_and_a_healed_one_lets_them_through(cluster: SimulatedCluster) -> None:
    async def story() -> float:
        async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            await producer.send_and_wait("orders", b"before")
            cluster.network.cut()
            cluster.after(20, cluster.network.heal)
            began = time.monotonic()
            await producer.send_and_wait("orders", b"after")
            return time.monotonic() - began

    assert 20 <= cluster.run(story()) < 40


def test_a_delayed_network_delays(cluster: SimulatedCluster) -> None:
    async def story() -> float:
        async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            await producer.send_and_wait("orders", b"quick")
            cluster.network.delay(2)
            began = time.monotonic()
            await producer.send_and_wait("orders", b"slow")
            return time.monotonic() - began

    assert 4 <= cluster.run(story()) < 10


def test_dropped_connections_are_made_again(cluster: SimulatedCluster) -> None:
    async def story() -> None:
        async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            await producer.send_and_wait("orders", b"before")
            assert cluster.network.drop_connections() > 0
            await producer.send_and_wait("orders", b"after")

    cluster.run(story())


def test_a_slow_sync_holds_up_who_waits_for_it(cluster: SimulatedCluster) -> None:
    async def story() -> float:
        await cluster.broker.restart()
        async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            cluster.broker.sync_delay_s = 3
            began = time.monotonic()
            await producer.send_and_wait("orders", b"a new topic is synced")
            return time.monotonic() - began

    assert cluster.run(story()) >= 3


def test_time_and_chance_are_the_simulations_inside_and_the_real_ones_outside() -> None:
    async def story() -> tuple[object, ...]:
        began = time.time(), time.monotonic(), time.perf_counter(), time.time_ns()
        await asyncio.sleep(100)
        ended = time.time(), time.monotonic(), time.perf_counter(), time.time_ns()
        passed = [later - earlier for earlier, later in zip(began, ended, strict=True)]
        assert passed == pytest.approx([100, 100, 100, 1e11], rel=1e-3)
        return began, random.random(), uuid.uuid4(), os.urandom(3)

    def outcome(seed: int) -> tuple[object, ...]:
        with SimulatedCluster(seed=seed) as cluster:
            return cluster.run(story())

    before = time.monotonic()
    random.seed(5)
    expected = random.random()
    random.seed(5)
    assert outcome(1) == outcome(1)
    assert outcome(1) != outcome(2)
    assert random.random() == expected
    assert before <= time.monotonic() < before + 90
    assert os.urandom(8) != os.urandom(8)


def test_other_threads_keep_their_own_time(cluster: SimulatedCluster) -> None:
    seen: list[float] = []

    async def story() -> float:
        await asyncio.sleep(1000)
        thread = threading.Thread(target=lambda: seen.append(time.time()))
        thread.start()
        thread.join()
        return time.time()

    virtual = cluster.run(story())
    assert abs(seen[0] - time.time()) < 600
    assert virtual != pytest.approx(seen[0], abs=600)


STORY = """
import asyncio, logging, sys
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from penstock.testing import SimulatedCluster

async def story(cluster):
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        await producer.send_and_wait("orders", b"one")
        cluster.broker.kill()
        cluster.after(20, cluster.broker.start)
        await producer.send_and_wait("orders", b"two")
    async with AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap_servers) as consumer:
        consumer.assign([TopicPartition("orders", 0)])
        await consumer.seek_to_beginning()
        return [await consumer.getone() for _ in range(2)]

logging.disable(logging.CRITICAL)
for seed in (3, 3, 4):
    with SimulatedCluster(seed=seed) as cluster:
        print(cluster.run(story(cluster)), cluster.seconds)
"""


def test_equal_seeds_tell_equal_stories_in_one_process_and_in_several() -> None:
    def told(hash_seed: str) -> list[str]:
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(
            [sys.executable, "-c", STORY], env=environment, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    stories = told("1")
    assert stories[0] == stories[1] != stories[2]
    assert told("2") == stories


def test_a_story_that_does_not_end_is_ended_and_says_who_waits_for_what(cluster: SimulatedCluster) -> None:
    async def wait_for_more() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(OutOfTimeError, match="wait_for_more") as caught:
        cluster.run(wait_for_more(), seconds_max=60)
    assert any("SimulatedCluster(seed=1)" in note for note in caught.value.__notes__)


def test_what_the_story_raises_comes_out_with_the_seed(cluster: SimulatedCluster) -> None:
    async def story() -> None:
        await asyncio.sleep(3)
        raise ValueError("as told")

    with pytest.raises(ValueError, match="as told") as caught:
        cluster.run(story())
    assert "seed=1" in caught.value.__notes__[0]
    assert "after 3." in caught.value.__notes__[0]


def test_a_scripted_event_that_fails_fails_the_story(cluster: SimulatedCluster) -> None:
    def fail() -> None:
        raise RuntimeError("the script is wrong")

    async def story() -> None:
        cluster.after(5, fail)
        await asyncio.sleep(1000)

    with pytest.raises(RuntimeError, match="the script is wrong"):
        cluster.run(story())
    assert cluster.seconds < 6


def test_the_brokers_date_can_be_set(cluster: SimulatedCluster) -> None:
    async def story() -> int:
        cluster.broker.set_clock_ahead(86_400_000)
        async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            sent = await producer.send_and_wait("stamped", b"x", timestamp_ms=None)
            return sent.timestamp - int(time.time() * 1000)

    with SimulatedCluster(settings={"log.message.timestamp.type": "LogAppendTime"}) as cluster:
        assert cluster.run(story()) == pytest.approx(86_400_000, abs=60_000)
