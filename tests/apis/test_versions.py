"""Every version of every API is answered, and nothing beyond."""

from typing import Any

import pytest

from penstock.apis import ApiTable
from penstock.base.errors import ErrorCode
from penstock.services.metrics import Metrics
from penstock.wire.apis import APIS
from penstock.wire.codec import encode
from penstock.wire.headers import RequestHeader, frame_request
from penstock.wire.messages.alter_configs import AlterConfigsRequest
from penstock.wire.messages.api_versions import ApiVersionsRequest
from penstock.wire.messages.create_partitions import CreatePartitionsRequest
from penstock.wire.messages.create_topics import CreateTopicsRequest
from penstock.wire.messages.delete_records import DeleteRecordsRequest
from penstock.wire.messages.delete_topics import DeleteTopicsRequest
from penstock.wire.messages.describe_cluster import DescribeClusterRequest
from penstock.wire.messages.describe_configs import DescribeConfigsRequest
from penstock.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from penstock.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from penstock.wire.messages.fetch import FetchRequest
from penstock.wire.messages.find_coordinator import FindCoordinatorRequest
from penstock.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from penstock.wire.messages.init_producer_id import InitProducerIdRequest
from penstock.wire.messages.list_config_resources import ListConfigResourcesRequest
from penstock.wire.messages.list_offsets import ListOffsetsRequest
from penstock.wire.messages.metadata import MetadataRequest
from penstock.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from penstock.wire.messages.produce import ProduceRequest
from tests.raw_client import RawClient

# What Apache Kafka 4.3.1 answers, of the APIs this broker has; the lowest and highest version.
KAFKA = {
    0: (3, 13),
    1: (4, 18),
    2: (1, 11),
    3: (0, 13),
    10: (0, 6),
    18: (0, 4),
    19: (2, 7),
    20: (1, 6),
    21: (0, 2),
    22: (0, 5),
    23: (2, 4),
    32: (1, 4),
    33: (0, 2),
    35: (1, 5),
    37: (0, 3),
    44: (0, 1),
    60: (0, 2),
    74: (0, 1),
    75: (0, 0),
}

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
]
EVERY_VERSION = [
    pytest.param(request, version, id=f"{APIS[request.API_KEY].name}-v{version}")
    for request in REQUESTS
    for version in range(KAFKA[request.API_KEY][0], KAFKA[request.API_KEY][1] + 1)
]


def test_the_table_is_what_apache_kafka_has_for_these_apis():
    assert ApiTable(Metrics()).versions == KAFKA
    assert sorted(request.API_KEY for request in REQUESTS) == sorted(KAFKA)


@pytest.mark.parametrize(("request_", "version"), EVERY_VERSION)
def test_every_version_is_answered(client: RawClient, request_: Any, version: int):
    answer = client.ask(request_, version)
    # FindCoordinator carries its refusal at the top in old versions; everything else has nothing to refuse.
    refused = getattr(answer, "error_code", 0)
    expected = ErrorCode.COORDINATOR_NOT_AVAILABLE if request_.API_KEY == 10 and version < 4 else 0
    assert refused == expected


@pytest.mark.parametrize("api_key", [key for key in KAFKA if key != 18])
def test_a_version_above_the_range_closes_the_connection(client: RawClient, api_key: int):
    version = KAFKA[api_key][1] + 1
    # The body does not matter: the version is looked at first.
    client.socket.sendall(b"".join(frame_request(RequestHeader(api_key, version, 1, "raw"), [b"\0" * 8])))
    assert client.is_closed_by_broker()


@pytest.mark.parametrize("api_key", [key for key, (lowest, _) in KAFKA.items() if lowest > 0])
def test_a_version_below_the_range_closes_the_connection(client: RawClient, api_key: int):
    version = KAFKA[api_key][0] - 1
    client.socket.sendall(b"".join(frame_request(RequestHeader(api_key, version, 1, "raw"), [b"\0" * 8])))
    assert client.is_closed_by_broker()


@pytest.mark.parametrize("api_key", [key for key in APIS if key not in KAFKA])
def test_an_api_that_is_not_advertised_closes_the_connection(client: RawClient, api_key: int):
    client.socket.sendall(b"".join(frame_request(RequestHeader(api_key, 0, 1, "raw"), [])))
    assert client.is_closed_by_broker()


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: type(request).__name__)
def test_a_request_that_ends_early_closes_the_connection(client: RawClient, request_: Any):
    version = KAFKA[request_.API_KEY][1]
    body = b"".join(encode(request_, version))[:-1]
    client.socket.sendall(b"".join(frame_request(RequestHeader(request_.API_KEY, version, 1, "raw"), [body])))
    assert client.is_closed_by_broker()
