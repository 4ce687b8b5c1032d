"""Requests that only brokers of the cluster may send: clients are answered as by Kafka without CLUSTER_ACTION.

Each request is tried by an ordinary client, by one that calls itself a broker as brokers of earlier versions did, by
one with a wrong proof, by one that replays a proof, and by one whose proof is right.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from penstock.apis import ApiTable
from penstock.base.errors import ErrorCode
from penstock.base.secret import Secret
from penstock.cluster.handshake import InitiatorHandshake, PeerCredentials
from penstock.core.access import AllowAll
from penstock.schema.codec import encode
from penstock.schema.words import Struct
from penstock.services.metrics import Metrics
from penstock.testing import EmbeddedBroker
from penstock.wire.headers import RequestHeader, frame_request
from penstock.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from penstock.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from penstock.wire.messages.alter_partition import AlterPartitionRequest
from penstock.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from penstock.wire.messages.fetch import FetchRequest, ReplicaState
from penstock.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from penstock.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from penstock.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from penstock.wire.private import PRIVATE_APIS
from penstock.wire.private.broker_handshake import BrokerHandshakeResponse
from penstock.wire.private.log_ends import LogEndsRequest, LogEndsResponse
from penstock.wire.private.partition_loads import PartitionLoadsRequest, PartitionLoadsResponse
from penstock.wire.private.release_fetch import ReleaseFetchRequest, ReleaseFetchResponse
from penstock.world.real_entropy import RealEntropy
from tests.proving import OTHER_NODE, credentials_of, prove
from tests.raw_client import RawClient, batch_of, fetch_request

NODE_ID = 1
TOPIC = "guarded"
REFUSED = {ErrorCode.CLUSTER_AUTHORIZATION_FAILED}


class Guarded(NamedTuple):
    """A request that only a broker may send, in a version, and the error codes of the refusal."""

    request: Any
    version: int
    codes: set[ErrorCode]

    def __str__(self) -> str:
        return f"{type(self.request).__name__}-v{self.version}"


def _follower_fetch(version: int) -> FetchRequest:
    request: FetchRequest = fetch_request(TOPIC, 0)
    if version < 15:
        request.replica_id = OTHER_NODE
    else:
        request.replica_state = ReplicaState(replica_id=OTHER_NODE, replica_epoch=0)
    return request


def _list_offsets(replica_id: int) -> ListOffsetsRequest:
    asked = ListOffsetsPartition(partition_index=0, timestamp=-1)
    return ListOffsetsRequest(
        replica_id=replica_id, topics=[ListOffsetsTopic(name=TOPIC, partitions=[asked])], timeout_ms=10_000
    )


def _offset_for_leader_epoch(replica_id: int) -> OffsetForLeaderEpochRequest:
    asked = OffsetForLeaderPartition(partition=0, leader_epoch=0)
    topics = [OffsetForLeaderTopic(topic=TOPIC, partitions=[asked])]
    return OffsetForLeaderEpochRequest(replica_id=replica_id, topics=topics)


def _commit_marker() -> WriteTxnMarkersRequest:
    topics = [WritableTxnMarkerTopic(name=TOPIC, partition_indexes=[0])]
    return WriteTxnMarkersRequest(
        markers=[WritableTxnMarker(producer_id=7, producer_epoch=0, transaction_result=True, topics=topics)]
    )


def _add_partitions() -> AddPartitionsToTxnRequest:
    transaction = AddPartitionsToTxnTransaction(
        transactional_id="nobody's",
        producer_id=7,
        producer_epoch=0,
        verify_only=True,
        topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=[0])],
    )
    return AddPartitionsToTxnRequest(transactions=[transaction])


GUARDED = [
    *(Guarded(AlterPartitionRequest(broker_id=OTHER_NODE), version, REFUSED) for version in (2, 3)),
    *(Guarded(BrokerHeartbeatRequest(broker_id=OTHER_NODE), version, REFUSED) for version in (0, 1)),
    Guarded(AllocateProducerIdsRequest(broker_id=OTHER_NODE), 0, REFUSED),
    *(Guarded(_add_partitions(), version, REFUSED) for version in (4, 5)),
    *(Guarded(_commit_marker(), version, REFUSED) for version in (1, 2)),
    *(Guarded(_list_offsets(OTHER_NODE), version, REFUSED) for version in (1, 6, 11)),
    *(Guarded(_offset_for_leader_epoch(OTHER_NODE), version, REFUSED) for version in (3, 4)),
    Guarded(_offset_for_leader_epoch(-3), 4, REFUSED),
    *(
        # Here Kafka answers so, although it is CLUSTER_ACTION that is missing.
        Guarded(_follower_fetch(version), version, {ErrorCode.TOPIC_AUTHORIZATION_FAILED})
        for version in (4, 12, 14, 15, 18)
    ),
]
PRIVATE: list[tuple[Any, type[Any]]] = [
    (LogEndsRequest(), LogEndsResponse),
    (PartitionLoadsRequest(), PartitionLoadsResponse),
    (ReleaseFetchRequest(), ReleaseFetchResponse),
]


@pytest.fixture(scope="module", autouse=True)
def _topic(broker: EmbeddedBroker) -> None:
    with RawClient(broker.bootstrap_servers) as client:
        client.create_topic(TOPIC)
        client.produce(TOPIC, batch_of(b"record"))


@pytest.fixture
def clients(broker: EmbeddedBroker) -> Iterator[Callable[[], RawClient]]:
    opened: list[RawClient] = []

    def connect() -> RawClient:
        opened.append(RawClient(broker.bootstrap_servers))
        return opened[-1]

    yield connect
    for client in opened:
        client.socket.close()


def error_codes(answer: Any) -> set[int]:
    """All that are in an answer, wherever."""
    if isinstance(answer, list):
        return set().union(*map(error_codes, answer))
    if not isinstance(answer, Struct):
        return set()
    own = {getattr(answer, name) for name in answer.FIELDS if name.endswith("error_code")} - {0}
    return own.union(*(error_codes(getattr(answer, name)) for name in answer.FIELDS))


def test_every_api_for_brokers_only_is_tried_here() -> None:
    tried = {guarded.request.API_KEY for guarded in GUARDED} | {request.API_KEY for request, _ in PRIVATE}
    table = ApiTable(Metrics(), AllowAll())
    assert set(table.between_brokers) <= tried
    assert set(table.between_brokers) >= set(PRIVATE_APIS) - {10000}


@pytest.mark.parametrize("guarded", GUARDED, ids=str)
def test_an_ordinary_client_is_refused(client: RawClient, guarded: Guarded) -> None:
    assert error_codes(client.ask(guarded.request, guarded.version)) == guarded.codes
    assert client.fetch(TOPIC, 0).error_code == 0, "the connection stays"


@pytest.mark.parametrize("guarded", GUARDED, ids=str)
@pytest.mark.parametrize("node_id", [NODE_ID, OTHER_NODE, "x", "9" * 5000])
def test_a_client_that_calls_itself_a_broker_is_refused(
    client: RawClient, guarded: Guarded, node_id: int | str
) -> None:
    client.client_id = f"__penstock-broker-{node_id}"
    assert error_codes(client.ask(guarded.request, guarded.version)) == guarded.codes


@pytest.mark.parametrize("guarded", GUARDED, ids=str)
def test_a_client_in_the_middle_of_the_handshake_is_refused(
    client: RawClient, broker: EmbeddedBroker, guarded: Guarded
) -> None:
    handshake = InitiatorHandshake(credentials_of(broker), node_id=NODE_ID, epoch=0)
    handshake.prove(client.ask(handshake.hello(), 0, BrokerHandshakeResponse))
    assert error_codes(client.ask(guarded.request, guarded.version)) == guarded.codes


@pytest.mark.parametrize("guarded", GUARDED, ids=str)
def test_a_broker_that_has_proven_itself_is_not_refused(
    client: RawClient, broker: EmbeddedBroker, guarded: Guarded
) -> None:
    prove(client, credentials_of(broker), to=NODE_ID)
    assert not error_codes(client.ask(guarded.request, guarded.version)) & guarded.codes


def test_a_wrong_proof_closes_the_connection(client: RawClient, broker: EmbeddedBroker) -> None:
    right = credentials_of(broker)
    wrong = PeerCredentials(
        Secret("a guess"), RealEntropy(), cluster_id=right.cluster_id, node_id=right.node_id
    )
    handshake = InitiatorHandshake(wrong, node_id=NODE_ID, epoch=0)
    client.send(handshake.prove(client.ask(handshake.hello(), 0, BrokerHandshakeResponse)), 0)
    assert client.is_closed_by_broker()


def test_a_replayed_proof_closes_the_connection(
    clients: Callable[[], RawClient], broker: EmbeddedBroker
) -> None:
    recorded = InitiatorHandshake(credentials_of(broker), node_id=NODE_ID, epoch=0)
    victim, attacker = clients(), clients()
    hello = recorded.hello()
    proof = recorded.prove(victim.ask(hello, 0, BrokerHandshakeResponse))
    recorded.check(victim.ask(proof, 0, BrokerHandshakeResponse))
    attacker.ask(hello, 0, BrokerHandshakeResponse)
    attacker.send(proof, 0)
    assert attacker.is_closed_by_broker()
    assert victim.ask(AllocateProducerIdsRequest(), 0).error_code == ErrorCode.STALE_BROKER_EPOCH


def test_a_second_handshake_closes_the_connection(client: RawClient, broker: EmbeddedBroker) -> None:
    credentials = credentials_of(broker)
    prove(client, credentials, to=NODE_ID)
    client.send(InitiatorHandshake(credentials, node_id=NODE_ID, epoch=0).hello(), 0)
    assert client.is_closed_by_broker()


@pytest.mark.parametrize(("request_", "response"), PRIVATE, ids=lambda each: getattr(each, "__name__", ""))
def test_for_a_client_a_private_api_does_not_exist(
    clients: Callable[[], RawClient], broker: EmbeddedBroker, request_: Any, response: type[Any]
) -> None:
    body = b"".join(encode(request_, 0))
    for key in (request_.API_KEY, 9999):  # the second does not exist
        for version in (0, 1):
            client = clients()
            header = RequestHeader(key, version, 1, "__penstock-broker-1")
            client.socket.sendall(b"".join(frame_request(header, [body])))
            assert client.is_closed_by_broker()
    proven = clients()
    prove(proven, credentials_of(broker), to=NODE_ID)
    assert isinstance(proven.ask(request_, 0, response), response)


def test_requests_of_consumers_and_tools_to_the_same_apis_are_answered(client: RawClient) -> None:
    assert client.fetch(TOPIC, 0).error_code == 0
    for replica_id in (-1, -2):  # a consumer, and Kafka's debugging consumer
        assert error_codes(client.ask(_list_offsets(replica_id), 11)) == set()
        assert error_codes(client.ask(_offset_for_leader_epoch(replica_id), 4)) == set()
    assert error_codes(client.ask(_offset_for_leader_epoch(-2), 2)) == set(), "v2 has no replica id"


def test_the_secret_is_in_no_config_and_no_log(
    client: RawClient, broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    credentials = credentials_of(broker)
    prove(client, credentials, to=NODE_ID)
    secret = credentials._secret.reveal()
    assert len(secret) >= 43, "32 random bytes"
    assert secret not in caplog.text
    assert secret not in repr(vars(credentials))
