"""Which APIs in which versions: ours are exactly Apache Kafka's, for every API that works here."""

import re

import pytest

from peers.brokers import Broker
from peers.kafka import BROKER_API_VERSIONS, run_tool
from penstock.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.foreign.wire_peer import Pair

pytestmark = [pytest.mark.foreign, pytest.mark.xdist_group("kafka")]

ASK = ApiVersionsRequest(client_software_name="tests", client_software_version="1.0")

# Every API that this broker promises: nothing of it may go missing.
PROMISED = {
    "Produce": 0,
    "Fetch": 1,
    "ListOffsets": 2,
    "Metadata": 3,
    "OffsetCommit": 8,
    "OffsetFetch": 9,
    "FindCoordinator": 10,
    "JoinGroup": 11,
    "Heartbeat": 12,
    "LeaveGroup": 13,
    "SyncGroup": 14,
    "DescribeGroups": 15,
    "ListGroups": 16,
    "SaslHandshake": 17,
    "ApiVersions": 18,
    "CreateTopics": 19,
    "DeleteTopics": 20,
    "DeleteRecords": 21,
    "InitProducerId": 22,
    "OffsetForLeaderEpoch": 23,
    "AddPartitionsToTxn": 24,
    "AddOffsetsToTxn": 25,
    "EndTxn": 26,
    "WriteTxnMarkers": 27,
    "TxnOffsetCommit": 28,
    "DescribeAcls": 29,
    "CreateAcls": 30,
    "DeleteAcls": 31,
    "DescribeConfigs": 32,
    "AlterConfigs": 33,
    "AlterReplicaLogDirs": 34,
    "DescribeLogDirs": 35,
    "SaslAuthenticate": 36,
    "CreatePartitions": 37,
    "CreateDelegationToken": 38,
    "RenewDelegationToken": 39,
    "ExpireDelegationToken": 40,
    "DescribeDelegationToken": 41,
    "DeleteGroups": 42,
    "IncrementalAlterConfigs": 44,
    "OffsetDelete": 47,
    "DescribeClientQuotas": 48,
    "AlterClientQuotas": 49,
    "DescribeUserScramCredentials": 50,
    "AlterUserScramCredentials": 51,
    "DescribeQuorum": 55,
    "UpdateFeatures": 57,
    "DescribeCluster": 60,
    "DescribeProducers": 61,
    "DescribeTransactions": 65,
    "ListTransactions": 66,
    "ConsumerGroupHeartbeat": 68,
    "ConsumerGroupDescribe": 69,
    "ListConfigResources": 74,
    "DescribeTopicPartitions": 75,
}
# What Kafka's brokers advertise and Penstock does not: there are no share groups, no groups of Kafka Streams' own
# protocol, no Raft voters, and no unregistering of brokers. (Telemetry is advertised by neither of the two.)
NOT_OFFERED = {64, 76, 77, 78, 79, 80, 81, 83, 84, 85, 86, 87, 88, 89, 90, 91, 92}


@pytest.fixture
def answers(pair: Pair) -> tuple[ApiVersionsResponse, ApiVersionsResponse]:
    return pair.kafka.ask(ASK, 4), pair.broker.ask(ASK, 4)


def ranges(answer: ApiVersionsResponse) -> dict[int, tuple[int, int]]:
    return {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}


def test_every_range_is_exactly_kafkas(answers: tuple[ApiVersionsResponse, ApiVersionsResponse]) -> None:
    expected, got = map(ranges, answers)

    assert got == {key: expected.get(key) for key in got}


def test_all_that_kafka_advertises_is_advertised_but_for_what_is_known_to_be_missing(
    answers: tuple[ApiVersionsResponse, ApiVersionsResponse],
) -> None:
    expected, got = map(ranges, answers)

    assert set(expected) - set(got) == NOT_OFFERED


def test_every_promised_api_is_advertised(answers: tuple[ApiVersionsResponse, ApiVersionsResponse]) -> None:
    advertised = set(ranges(answers[1]))

    assert {name for name, key in PROMISED.items() if key not in advertised} == set()


def test_every_feature_is_one_of_kafkas_at_a_level_kafka_has(
    answers: tuple[ApiVersionsResponse, ApiVersionsResponse],
) -> None:
    expected, got = answers
    kafkas = {
        feature.name: (feature.min_version, feature.max_version) for feature in expected.supported_features
    }

    # For our own formats, as metadata.version is for Kafka's, and what our brokers ask each other.
    ours = {"penstock.version", "penstock.peer.version"}
    for feature in got.supported_features:
        if feature.name in ours:
            continue
        assert (feature.min_version, feature.max_version) == kafkas[feature.name]
    for level in got.finalized_features:
        if level.name in ours:
            continue
        low, high = kafkas[level.name]
        assert low <= level.min_version_level <= level.max_version_level <= high


@pytest.mark.needs("kafka")
def test_the_java_client_can_use_the_newest_version_of_each(broker: Broker) -> None:
    shown = run_tool(BROKER_API_VERSIONS, "--bootstrap-server", broker.bootstrap).stdout

    usable = dict(re.findall(r"(\w+)\(\d+\): \d+(?: to \d+)? \[usable: (\d+)\]", shown))
    assert set(PROMISED) <= set(usable)
