"""Every advertised version of every API is answered, and no other."""

from typing import Any

import pytest

from penstock.apis import ApiTable
from penstock.base.errors import ErrorCode
from penstock.core.access import AllowAll
from penstock.schema.codec import encode
from penstock.schema.words import Struct
from penstock.services.metrics import Metrics
from penstock.wire.apis import APIS
from penstock.wire.headers import RequestHeader, frame_request
from penstock.wire.messages import request_type
from penstock.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from penstock.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from penstock.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from penstock.wire.messages.alter_client_quotas import AlterClientQuotasRequest
from penstock.wire.messages.alter_configs import AlterConfigsRequest
from penstock.wire.messages.alter_partition import AlterPartitionRequest
from penstock.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from penstock.wire.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from penstock.wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from penstock.wire.messages.api_versions import ApiVersionsRequest
from penstock.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from penstock.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from penstock.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from penstock.wire.messages.create_acls import CreateAclsRequest
from penstock.wire.messages.create_delegation_token import CreateDelegationTokenRequest
from penstock.wire.messages.create_partitions import CreatePartitionsRequest
from penstock.wire.messages.create_topics import CreateTopicsRequest
from penstock.wire.messages.delete_acls import DeleteAclsRequest
from penstock.wire.messages.delete_groups import DeleteGroupsRequest
from penstock.wire.messages.delete_records import DeleteRecordsRequest
from penstock.wire.messages.delete_topics import DeleteTopicsRequest
from penstock.wire.messages.describe_acls import DescribeAclsRequest
from penstock.wire.messages.describe_client_quotas import DescribeClientQuotasRequest
from penstock.wire.messages.describe_cluster import DescribeClusterRequest
from penstock.wire.messages.describe_configs import DescribeConfigsRequest
from penstock.wire.messages.describe_delegation_token import DescribeDelegationTokenRequest
from penstock.wire.messages.describe_groups import DescribeGroupsRequest
from penstock.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from penstock.wire.messages.describe_producers import DescribeProducersRequest
from penstock.wire.messages.describe_quorum import DescribeQuorumRequest
from penstock.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from penstock.wire.messages.describe_transactions import DescribeTransactionsRequest
from penstock.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from penstock.wire.messages.elect_leaders import ElectLeadersRequest
from penstock.wire.messages.end_txn import EndTxnRequest
from penstock.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from penstock.wire.messages.fetch import FetchRequest
from penstock.wire.messages.find_coordinator import FindCoordinatorRequest
from penstock.wire.messages.heartbeat import HeartbeatRequest
from penstock.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from penstock.wire.messages.init_producer_id import InitProducerIdRequest
from penstock.wire.messages.join_group import JoinGroupRequest
from penstock.wire.messages.leave_group import LeaveGroupRequest
from penstock.wire.messages.list_config_resources import ListConfigResourcesRequest
from penstock.wire.messages.list_groups import ListGroupsRequest
from penstock.wire.messages.list_offsets import ListOffsetsRequest
from penstock.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from penstock.wire.messages.list_transactions import ListTransactionsRequest
from penstock.wire.messages.metadata import MetadataRequest
from penstock.wire.messages.offset_commit import OffsetCommitRequest
from penstock.wire.messages.offset_delete import OffsetDeleteRequest
from penstock.wire.messages.offset_fetch import OffsetFetchRequest
from penstock.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from penstock.wire.messages.produce import ProduceRequest
from penstock.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from penstock.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from penstock.wire.messages.sasl_handshake import SaslHandshakeRequest
from penstock.wire.messages.sync_group import SyncGroupRequest
from penstock.wire.messages.txn_offset_commit import TxnOffsetCommitRequest
from penstock.wire.messages.update_features import UpdateFeaturesRequest
from penstock.wire.messages.write_txn_markers import WriteTxnMarkersRequest
from tests.raw_client import RawClient
from tests.wire.shapes import filled

# What Apache Kafka 4.3.1 answers, of the APIs this broker has; the lowest and highest version.
KAFKA = {
    0: (3, 13),
    1: (4, 18),
    2: (1, 11),
    3: (0, 13),
    8: (2, 10),
    9: (1, 10),
    10: (0, 6),
    11: (0, 9),
    12: (0, 4),
    13: (0, 5),
    14: (0, 5),
    15: (0, 6),
    16: (0, 5),
    17: (0, 1),
    18: (0, 4),
    19: (2, 7),
    20: (1, 6),
    21: (0, 2),
    22: (0, 6),  # of which 6 is only advertised where transactions may be prepared
    23: (2, 4),
    24: (0, 5),
    25: (0, 4),
    26: (0, 5),
    27: (1, 2),
    28: (0, 5),
    29: (1, 3),
    30: (1, 3),
    31: (1, 3),
    32: (1, 4),
    33: (0, 2),
    34: (1, 2),
    35: (1, 5),
    36: (0, 2),
    37: (0, 3),
    38: (1, 3),
    39: (1, 2),
    40: (1, 2),
    41: (1, 3),
    42: (0, 2),
    43: (0, 2),
    44: (0, 1),
    45: (0, 1),
    46: (0, 0),
    47: (0, 0),
    48: (0, 1),
    49: (0, 1),
    50: (0, 0),
    51: (0, 0),
    55: (0, 2),
    57: (0, 2),
    60: (0, 2),
    61: (0, 0),
    65: (0, 0),
    66: (0, 2),
    68: (0, 1),
    69: (0, 1),
    74: (0, 1),
    75: (0, 0),
}
# Private: the handshake, and what brokers ask each other after it.
PRIVATE = {10000: (0, 0), 10001: (0, 0), 10002: (0, 0), 10003: (0, 0)}
# APIs between brokers, not advertised to clients; Kafka's controllers answer these versions and newer ones.
BETWEEN_BROKERS = {56: (2, 3), 63: (0, 1), 67: (0, 0)}
EVERYTHING = KAFKA | BETWEEN_BROKERS

# The smallest request of each API that is not refused as a whole.
REQUESTS: list[Any] = [
    ProduceRequest(acks=1, timeout_ms=1000),
    FetchRequest(),
    ListOffsetsRequest(replica_id=-1),
    MetadataRequest(topics=[]),
    FindCoordinatorRequest(),
    ApiVersionsRequest(client_software_name="raw", client_software_version="1.0"),
    CreateTopicsRequest(),
    DeleteTopicsRequest(),
    DeleteRecordsRequest(),
    InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000),
    OffsetForLeaderEpochRequest(),
    DescribeConfigsRequest(),
    AlterConfigsRequest(),
    DescribeLogDirsRequest(topics=None),
    CreatePartitionsRequest(),
    IncrementalAlterConfigsRequest(),
    DescribeClusterRequest(),
    ListConfigResourcesRequest(),
    DescribeTopicPartitionsRequest(response_partition_limit=10),
    OffsetCommitRequest(),
    OffsetFetchRequest(),
    JoinGroupRequest(),
    HeartbeatRequest(),
    LeaveGroupRequest(),
    SyncGroupRequest(),
    DescribeGroupsRequest(),
    ListGroupsRequest(),
    DeleteGroupsRequest(),
    OffsetDeleteRequest(),
    ConsumerGroupHeartbeatRequest(),
    ConsumerGroupDescribeRequest(),
    AddPartitionsToTxnRequest(),
    AddOffsetsToTxnRequest(),
    EndTxnRequest(),
    WriteTxnMarkersRequest(),
    TxnOffsetCommitRequest(),
    DescribeProducersRequest(),
    DescribeTransactionsRequest(),
    ListTransactionsRequest(),
    ElectLeadersRequest(topic_partitions=[]),
    AlterPartitionReassignmentsRequest(),
    ListPartitionReassignmentsRequest(),
    UpdateFeaturesRequest(),
    AlterPartitionRequest(),
    BrokerHeartbeatRequest(),
    AllocateProducerIdsRequest(),
    DescribeAclsRequest(),
    CreateAclsRequest(),
    DeleteAclsRequest(),
    AlterReplicaLogDirsRequest(),
    SaslHandshakeRequest(),
    SaslAuthenticateRequest(),
    CreateDelegationTokenRequest(),
    RenewDelegationTokenRequest(),
    ExpireDelegationTokenRequest(),
    DescribeDelegationTokenRequest(),
    DescribeClientQuotasRequest(),
    AlterClientQuotasRequest(),
    DescribeUserScramCredentialsRequest(),
    AlterUserScramCredentialsRequest(),
    DescribeQuorumRequest(),
]
ONLY_WITH_A_SETTING = {(22, 6)}
# The APIs whose request says nothing unless it names a group, a transactional id or a broker: refused, and so answered.
NEEDS_A_NAME = {9, 11, 12, 13, 14, 24, 25, 26, 28, 47, 56, 63, 67, 68}
# What is refused whatever it says: there is no authentication, no authorizer and no Raft quorum.
NEVER_DONE = {17, 29, 36, 38, 39, 40, 41, 55}
EVERY_VERSION = [
    pytest.param(request, version, id=f"{APIS[request.API_KEY].name}-v{version}")
    for request in REQUESTS
    for version in range(EVERYTHING[request.API_KEY][0], EVERYTHING[request.API_KEY][1] + 1)
    if (request.API_KEY, version) not in ONLY_WITH_A_SETTING
]


def last_version(api_key: int) -> int:
    versions = APIS[api_key].versions
    assert versions is not None
    return versions[1]


def test_the_versions_are_those_of_apache_kafka():
    assert ApiTable(Metrics(), AllowAll()).versions == dict(sorted((EVERYTHING | PRIVATE).items()))
    assert sorted(request.API_KEY for request in REQUESTS) == sorted(EVERYTHING)


def test_private_apis_are_not_advertised_to_clients(client: RawClient):
    answer = client.ask(ApiVersionsRequest(client_software_name="raw", client_software_version="1.0"), 4)
    assert [each.api_key for each in answer.api_keys] == list(KAFKA)
    client.client_id = "__penstock-broker-0"
    answer = client.ask(ApiVersionsRequest(client_software_name="raw", client_software_version="1.0"), 4)
    assert [each.api_key for each in answer.api_keys] == list(KAFKA)


@pytest.mark.parametrize(("request_", "version"), EVERY_VERSION)
def test_every_version_is_answered(client: RawClient, request_: Any, version: int):
    answer = client.ask(request_, version)
    refused = getattr(answer, "error_code", 0)
    assert refused == 0 or request_.API_KEY in NEEDS_A_NAME | NEVER_DONE


@pytest.mark.parametrize("api_key", [key for key in EVERYTHING if key != 18])
def test_a_version_above_the_range_closes_the_connection(client: RawClient, api_key: int):
    version = last_version(api_key) + 1
    # The body does not matter: the version is looked at first.
    client.socket.sendall(b"".join(frame_request(RequestHeader(api_key, version, 1, "raw"), [b"\0" * 8])))
    assert client.is_closed_by_broker()


@pytest.mark.parametrize("api_key", [key for key, (lowest, _) in EVERYTHING.items() if lowest > 0])
def test_a_version_below_the_range_closes_the_connection(client: RawClient, api_key: int):
    version = EVERYTHING[api_key][0] - 1
    client.socket.sendall(b"".join(frame_request(RequestHeader(api_key, version, 1, "raw"), [b"\0" * 8])))
    assert client.is_closed_by_broker()


UNSERVED = [
    pytest.param(key, version, id=f"{api.name}-v{version}")
    for key, api in APIS.items()
    if api.versions is not None
    for version in range(api.versions[0], api.versions[1] + 1)
    if key not in EVERYTHING or version > EVERYTHING[key][1]
]


@pytest.mark.parametrize(("api_key", "version"), UNSERVED)
def test_unsupported_apis_are_rejected_and_the_connection_stays_open(
    client: RawClient, api_key: int, version: int
):
    request: Any = filled(request_type(api_key), version)
    answer = client.ask(request, version)
    assert error_codes(answer) == {ErrorCode.UNSUPPORTED_VERSION}

    client.ask(ApiVersionsRequest(client_software_name="raw", client_software_version="1.0"), 4)


def error_codes(answer: Any) -> set[int]:
    """All that are in an answer, wherever."""
    if isinstance(answer, list):
        return set().union(*map(error_codes, answer))
    if not isinstance(answer, Struct):
        return set()
    own = {answer.error_code} if "error_code" in answer.FIELDS else set()
    return own.union(*(error_codes(getattr(answer, name)) for name in answer.FIELDS)) - {0}


@pytest.mark.parametrize("api_key", [key for key, api in APIS.items() if api.versions is None])
def test_an_api_that_kafka_has_removed_closes_the_connection(client: RawClient, api_key: int):
    client.socket.sendall(b"".join(frame_request(RequestHeader(api_key, 0, 1, "raw"), [])))
    assert client.is_closed_by_broker()


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: type(request).__name__)
def test_a_request_that_ends_early_closes_the_connection(client: RawClient, request_: Any):
    version = EVERYTHING[request_.API_KEY][1]
    body = b"".join(encode(request_, version))[:-1]
    client.socket.sendall(b"".join(frame_request(RequestHeader(request_.API_KEY, version, 1, "raw"), [body])))
    assert client.is_closed_by_broker()


def test_delayed_requests_end_with_their_connection():
    table = ApiTable(Metrics(), AllowAll())
    for key in (0, 1):  # Produce, Fetch
        assert table._apis[key].cancel_on_disconnect
