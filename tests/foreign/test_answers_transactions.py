"""Transactions, told as stories to Apache Kafka and to the broker: every step has the same outcome on both."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from peers.brokers import Broker
from peers.penstock import PenstockProcess
from penstock.base.errors import ErrorCode
from penstock.cluster.handshake import PeerCredentials
from penstock.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from penstock.wire.messages.list_transactions import ListTransactionsRequest
from penstock.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from penstock.world.real_entropy import RealEntropy
from tests.apis.transactional import (
    GROUP,
    TransactionalProducer,
    fetch_committed,
    find_coordinator,
    read_committed,
)
from tests.foreign.asking import NOW_MS, create
from tests.foreign.wire_peer import Pair, Peer
from tests.proving import OTHER_NODE, prove, secret_of_data
from tests.raw_client import batch_of, produce_request

pytestmark = [pytest.mark.foreign, pytest.mark.xdist_group("kafka")]

Story = Callable[[Peer, str], list[Any]]


class Storyteller(TransactionalProducer):
    """Its records are of today, or Kafka's retention would take them away in the middle of a story."""

    timestamp = NOW_MS


def same(pair: Pair, topic: str, story: Story) -> list[Any]:
    """What came of each step, on both brokers."""
    create(pair, topic, partitions=2)
    kafka, ours = story(pair.kafka, topic), story(pair.broker, topic)
    assert ours == kafka
    return ours


def code(answer: Any) -> str:
    return ErrorCode(answer if isinstance(answer, int) else answer.error_code).name


def named(topic: str) -> str:
    return f"transactional-{topic}"


def epoch_of(answer: Any, producer: Storyteller) -> tuple[str, bool, int]:
    """The error, whether the producer id is still the same, and the epoch."""
    return code(answer), answer.producer_id == producer.id, answer.producer_epoch


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4, 5])
def test_ending_transactions(pair: Pair, topic: str, version: int) -> None:
    def story(peer: Peer, topic: str) -> list[Any]:
        producer = Storyteller(peer, named(topic))
        is_version_2 = version >= 5
        seen = [code(producer.end(commit=True, version=version))]
        if not is_version_2:
            seen.append(code(producer.end(commit=False, version=version)))
        seen.append(code(producer.end(commit=True, version=version, epoch=producer.epoch + 5)))
        producer.add(topic, 0)
        producer.send(topic, version=12 if is_version_2 else 11)
        before = producer.epoch
        producer.finish(commit=True, version=version)
        seen += [code(producer.end(commit=each, version=version, epoch=before)) for each in (True, False)]
        producer.id += 1000
        seen.append(code(producer.end(commit=True, version=version)))
        producer.name += "-unknown"
        seen.append(code(producer.end(commit=True, version=version)))
        return seen

    assert same(pair, topic, story)[0] == "INVALID_TXN_STATE"


def test_epochs_of_version_2(pair: Pair, topic: str) -> None:
    def story(peer: Peer, topic: str) -> list[Any]:
        producer = Storyteller(peer, named(topic))
        seen = []
        for commit in (True, False, True):
            producer.send(topic)
            before = producer.epoch
            producer.finish(commit=commit)
            seen.append(epoch_of(producer.end(commit=commit, epoch=before), producer))
            seen.append(epoch_of(producer.end(commit=not commit, epoch=before), producer))
        producer.send(topic)
        seen.append(code(producer.end(commit=True, epoch=producer.epoch - 1)))
        seen.append(producer.describe().transaction_state)
        return seen

    assert same(pair, topic, story)[-1] == "Ongoing"


def test_initializing(pair: Pair, topic: str) -> None:
    def story(peer: Peer, topic: str) -> list[Any]:
        producer = Storyteller(peer, named(topic))
        seen: list[Any] = [producer.epoch]
        seen += [code(producer.initialize(timeout_ms=timeout_ms)) for timeout_ms in (0, -1, 900_001)]
        seen.append(code(producer.initialize(producer_id=5)))
        seen.append(code(producer.initialize(producer_epoch=0)))
        mine = {"producer_id": producer.id, "producer_epoch": producer.epoch}
        seen += [epoch_of(producer.initialize(**mine), producer) for _ in range(2)]
        seen.append(epoch_of(producer.initialize(), producer))
        seen.append(code(producer.initialize(**mine)))
        seen.append(code(producer.initialize(**mine, version=3)))
        seen.append(code(producer.initialize(producer_id=producer.id + 1000, producer_epoch=0)))
        return seen

    same(pair, topic, story)


def test_taking_over_an_open_transaction(pair: Pair, topic: str) -> None:
    def story(peer: Peer, topic: str) -> list[Any]:
        producer = Storyteller(peer, named(topic))
        producer.add(topic, 0)
        producer.send(topic, b"left over", version=11)
        seen = [code(producer.initialize(patient=False))]
        successor = Storyteller(peer, named(topic))
        seen.append(successor.id == producer.id)
        seen.append(successor.epoch - producer.epoch)
        seen.append([ErrorCode(each).name for each in producer.add(topic, 1)])
        seen.append([ErrorCode(each).name for each in producer.add(topic, 1, version=1)])
        seen += [code(producer.end(commit=True, version=version)) for version in (1, 4)]
        seen += [code(producer.send(topic, sequence=1, version=version)) for version in (10, 11, 12)]
        seen.append(read_committed(peer, topic))
        return seen

    assert same(pair, topic, story)[-1] == []


@pytest.fixture
def between_brokers(kafka: Broker, broker: Broker) -> Iterator[Pair]:
    """Connections as of another broker: Penstock has to be shown that it is one."""
    with Pair.connected(kafka, broker) as pair:
        if isinstance(broker, PenstockProcess):
            secret = secret_of_data(broker.data)
            credentials = PeerCredentials(
                secret, RealEntropy(), cluster_id=broker.cluster_id, node_id=OTHER_NODE
            )
            prove(pair.broker, credentials, to=1)
        yield pair


def test_adding_partitions(pair: Pair, between_brokers: Pair, topic: str) -> None:
    def story(peer: Peer, topic: str) -> list[Any]:
        producer = Storyteller(peer, named(topic))

        def verify(*partitions: int) -> list[int]:
            asking = copy.copy(producer)
            asking.client = between_brokers.kafka if peer is pair.kafka else between_brokers.broker
            return asking.add_as_broker(topic, *partitions, verify_only=True)

        seen = [producer.add(topic, 0, 9), producer.add("not-there", 0), producer.add(topic, 1)]
        seen.append(verify(0, 1))
        described = producer.describe()
        seen.append((described.transaction_state, described.transaction_timeout_ms))
        seen.append([(each.topic, each.partitions) for each in described.topics])
        producer.finish(commit=False, version=4)
        seen.append(verify(1))
        producer.id += 1000
        seen.append(producer.add(topic, 0))
        seen.append(verify(0))
        return seen

    same(pair, topic, story)


@pytest.mark.parametrize("version", [3, 8, 10, 11, 12])
def test_producing_in_transactions(pair: Pair, topic: str, version: int) -> None:
    def story(peer: Peer, topic: str) -> list[Any]:
        producer = Storyteller(peer, named(topic))
        seen = [code(producer.send(topic, version=version))]
        if version < 12:
            producer.add(topic, 0)
            seen.append(code(producer.send(topic, version=version)))
        seen.append(code(producer.send(topic, version=version)))
        seen.append(code(producer.send(topic, sequence=5, version=version)))
        plain = batch_of(
            b"x", producer_id=producer.id, producer_epoch=producer.epoch, base_sequence=1, timestamp=NOW_MS
        )
        answer = peer.ask(produce_request(topic, plain), version)
        seen.append(code(answer.responses[0].partition_responses[0]))
        seen.append(code(producer.send(topic, partition=1, epoch=producer.epoch + 3, version=version)))
        before = producer.epoch
        producer.finish(commit=True, version=5 if version >= 12 else 4)
        seen.append(code(producer.send(topic, sequence=1, epoch=before, version=version)))
        seen.append(read_committed(peer, topic))
        return seen

    same(pair, topic, story)


def test_reading_committed(pair: Pair, topic: str) -> None:
    def story(peer: Peer, topic: str) -> list[Any]:
        producer = Storyteller(peer, named(topic))
        seen: list[Any] = []

        def look() -> None:
            answer = fetch_committed(peer, topic)
            seen.append((answer.high_watermark, answer.last_stable_offset))
            seen.append([entry.first_offset for entry in answer.aborted_transactions])
            seen.append(read_committed(peer, topic))

        for number, commit in enumerate((True, False, False, True)):
            producer.send(topic, b"%d" % number)
            look()
            producer.finish(commit=commit)
            look()
        return seen

    same(pair, topic, story)


def test_markers_from_outside(pair: Pair, topic: str) -> None:
    def story(peer: Peer, topic: str) -> list[Any]:
        producer = Storyteller(peer, named(topic))
        producer.epoch = producer.initialize().producer_epoch
        producer.add(topic, 0)
        producer.send(topic, version=11)

        def write(*, epoch: int = 1, coordinator: int = 0, version: int = 0, partition: int = 0) -> str:
            marker = WritableTxnMarker(
                producer_id=producer.id,
                producer_epoch=epoch,
                transaction_result=False,
                topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[partition])],
                coordinator_epoch=coordinator,
                transaction_version=version,
            )
            answer = peer.ask(WriteTxnMarkersRequest(markers=[marker]), 2)
            return code(answer.markers[0].topics[0].partitions[0])

        return [
            write(partition=7),
            write(epoch=0),
            write(version=2),
            write(coordinator=5),
            write(coordinator=4),
            write(coordinator=5),
            write(epoch=2, coordinator=5, version=2),
            read_committed(peer, topic),
        ]

    same(pair, topic, story)


def test_committing_offsets_in_transactions(pair: Pair, topic: str) -> None:
    def story(peer: Peer, topic: str) -> list[Any]:
        group = f"group-{topic}"
        find_coordinator(peer, group, GROUP)
        producer = Storyteller(peer, named(topic))
        seen = [
            ErrorCode(producer.commit_offset(group, topic, 5, version=version)).name for version in (3, 4)
        ]
        seen.append(ErrorCode(producer.add_offsets(group)).name)
        seen.append(ErrorCode(producer.commit_offset(group, topic, 5, version=4)).name)
        stale = producer.commit_offset(group, topic, 5, version=4, member_id="nobody", generation_id=3)
        seen.append(ErrorCode(stale).name)
        producer.finish(commit=True, version=4)
        Storyteller(peer, named(topic))
        seen += [
            ErrorCode(producer.commit_offset(group, topic, 6, version=version)).name for version in (4, 5)
        ]
        return seen

    same(pair, topic, story)


def test_describing_and_listing(pair: Pair, topic: str) -> None:
    def story(peer: Peer, topic: str) -> list[Any]:
        producer = Storyteller(peer, named(topic))
        seen: list[Any] = []

        def look() -> None:
            asked = ListTransactionsRequest(
                producer_id_filters=[producer.id], state_filters=["Ongoing", "Nope"]
            )
            answer = peer.ask(asked, 1)
            listed = [each for each in answer.transaction_states if each.transactional_id == producer.name]
            seen.append(([each.transaction_state for each in listed], answer.unknown_state_filters))
            request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[0])])
            for each in peer.ask(request, 0).topics[0].partitions[0].active_producers:
                start = each.current_txn_start_offset
                seen.append((each.producer_epoch, each.last_sequence, start, each.coordinator_epoch >= 0))

        look()
        producer.send(topic)
        look()
        producer.finish(commit=True)
        look()
        producer.name += "-unknown"
        seen.append(code(producer.describe()))
        return seen

    same(pair, topic, story)
