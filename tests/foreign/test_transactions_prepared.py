"""Prepared transactions (KIP-939) with Penstock's own client: they outlive timeouts, their client, and the broker."""

import asyncio
import time

import pytest

from peers.penstock import PenstockProcess
from penstock.client.client import Client
from penstock.client.producer import NewRecord
from penstock.client.transactional_producer import TransactionalProducer, end_transaction
from penstock.client.transactions import TransactionDescription, describe_transactions
from penstock.world.real_entropy import RealEntropy
from penstock.world.real_loop import RealLoop
from tests.chaos.reading import PATIENCE_S, committed_values, create_topics

pytestmark = pytest.mark.foreign

SETTINGS = {
    "transaction.two.phase.commit.enable": "true",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 100,
}


def client_of(broker: PenstockProcess) -> Client:
    return Client(RealLoop(), broker.bootstrap, entropy=RealEntropy())


async def left_open(
    broker: PenstockProcess, name: str, topic: str, *, two_phase: bool
) -> TransactionalProducer:
    """A producer that has written and is gone, its transaction open."""
    async with client_of(broker) as client:
        producer = TransactionalProducer(client, name, timeout_ms=500, two_phase=two_phase)
        await producer.start()
        producer.begin()
        await producer.send(topic, [NewRecord(None, name.encode())])
    return producer


async def wait_for_state(client: Client, name: str, state: str) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        described = (await describe_transactions(client, [name]))[name]
        if isinstance(described, TransactionDescription) and described.state == state:
            return
        assert time.monotonic() < deadline_s, described


def test_a_prepared_transaction_outlives_timeouts_its_client_and_the_broker(topic: str) -> None:
    async def prepare(broker: PenstockProcess) -> TransactionalProducer:
        prepared = await left_open(broker, "prepared", topic, two_phase=True)
        await left_open(broker, "forgotten", topic, two_phase=False)
        async with client_of(broker) as client:
            await wait_for_state(client, "forgotten", "CompleteAbort")
            await wait_for_state(client, "prepared", "Ongoing")
        return prepared

    async def commit(broker: PenstockProcess, prepared: TransactionalProducer) -> None:
        async with client_of(broker) as client:
            refused = await end_transaction(
                client,
                "prepared",
                producer_id=prepared.producer_id,
                producer_epoch=prepared.producer_epoch,
                committed=True,
            )
            assert refused is None
            await wait_for_state(client, "prepared", "CompleteCommit")

    with PenstockProcess(settings=SETTINGS) as broker:
        create_topics(broker.bootstrap, topic, partitions=1)
        prepared = asyncio.run(prepare(broker))
        broker.kill()
        broker.start()
        assert committed_values(broker.bootstrap, topic, partitions=1) == {}
        asyncio.run(commit(broker, prepared))
        assert committed_values(broker.bootstrap, topic, partitions=1) == {0: [b"prepared"]}
