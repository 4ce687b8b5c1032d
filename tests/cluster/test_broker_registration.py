"""Broker registrations: the broker epoch, and what they say to the controller. With an embedded store."""

import asyncio
from dataclasses import replace

import pytest

from penstock.cluster.broker_registration import DuplicateBrokerError, register
from penstock.cluster.embedded_store import EmbeddedStore
from penstock.cluster.image_loading import set_up
from penstock.cluster.metadata import BROKERS, LIVE, BrokerRegistration
from penstock.world.memory_disk import MemoryDisk
from penstock.world.real_loop import RealLoop
from penstock.world.real_work import RealWork
from penstock.world.store import Delete, Set, Store

BROKER = BrokerRegistration(
    1, None, {"PLAINTEXT": ("host", 9092)}, incarnation="directory", same_process=False
)


def told(story) -> None:
    async def run() -> None:
        work = RealWork(threads=1)
        try:
            store = EmbeddedStore.open(MemoryDisk(size_max=1 << 20), "metadata", loop=RealLoop(), work=work)
            await set_up(store, "cluster", shared=True)
            await story(store)
            await store.close()
        finally:
            work.close()

    asyncio.run(run())


async def acted_on(store: Store, broker: BrokerRegistration) -> None:
    """What the controller does when it has let a broker in."""
    counted = replace(
        broker, is_new=False, fenced=False, keeps_all=True, same_directory=True, same_process=True
    )
    await store.multi([Set(f"{BROKERS}/{broker.node_id}", counted.encode())])


def test_every_registration_has_the_next_broker_epoch_and_waits_for_the_controller():
    async def story(store: Store) -> None:
        first = await register(store, BROKER)
        assert (first.epoch, first.fenced, first.is_new) == (1, True, True)
        again = await register(store, BROKER)
        assert again.epoch == 2
        assert BrokerRegistration.decode((await store.get(f"{BROKERS}/1")).data) == again

    told(story)


def test_another_broker_with_the_same_id_is_refused_while_the_first_is_there():
    async def story(store: Store) -> None:
        await register(store, BROKER)
        twin = replace(BROKER, incarnation="another directory")
        with pytest.raises(DuplicateBrokerError, match="another broker with node id 1"):
            await register(store, twin)
        await store.multi([Delete(f"{LIVE}/1")])
        assert not (await register(store, twin)).same_directory

    told(story)


def test_an_unclean_shutdown_that_the_controller_has_not_seen_survives_another_start():
    async def story(store: Store) -> None:
        await acted_on(store, await register(store, BROKER))
        await store.multi([Delete(f"{LIVE}/1")])
        crashed = await register(store, replace(BROKER, keeps_all=False))
        assert not crashed.keeps_all
        later = await register(store, BROKER)
        assert not later.keeps_all, "a clean stop in between does not bring back what the crash took"
        await acted_on(store, later)
        assert (await register(store, BROKER)).keeps_all

    told(story)


def test_the_same_process_with_another_session_has_lost_nothing():
    async def story(store: Store) -> None:
        first = await register(store, BROKER)
        assert not first.same_process
        await acted_on(store, first)
        renewed = await register(store, replace(BROKER, same_process=True))
        assert (renewed.keeps_all, renewed.same_directory, renewed.same_process) == (True, True, True)

    told(story)
