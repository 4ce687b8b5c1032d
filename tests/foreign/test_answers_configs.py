"""Answers about configurations, compared field by field with Apache Kafka's, in every version."""

from typing import Any

import pytest

from penstock.base.errors import ErrorCode
from penstock.wire.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from penstock.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from penstock.wire.messages.incremental_alter_configs import AlterableConfig as Change
from penstock.wire.messages.incremental_alter_configs import AlterConfigsResource as ChangedResource
from penstock.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from penstock.wire.messages.list_config_resources import ListConfigResourcesRequest
from tests.foreign.asking import create
from tests.foreign.wire_peer import Pair, Peer, expect_equal, plain

pytestmark = [pytest.mark.foreign, pytest.mark.xdist_group("kafka")]

TOPIC = 2
BROKER = 4
BROKER_LOGGER = 8
SET, DELETE, APPEND, SUBTRACT = range(4)
DYNAMIC_DEFAULT_BROKER = 3


# Everything here has a limit from the start, security comes later, and the data is where the user is.
OWN_DEFAULTS = {
    "log.dir",
    "listener.security.protocol.map",
    "max.connections",
    "max.connections.per.ip",
    "queued.max.request.bytes",
    "replica.fetch.backoff.ms",
}
# What Kafka had before it kept its metadata itself, and what it shows only when it is set.
NOT_SHOWN_BY_KAFKA = {
    "follower.replication.throttled.rate",
    "leader.replication.throttled.rate",
    "zookeeper.connect",
    "zookeeper.connection.timeout.ms",
    "zookeeper.session.timeout.ms",
}
# Kafka can change its listeners while it runs.
READ_ONLY_HERE = {"listeners", "listener.security.protocol.map"}


def describe(
    kind: int,
    name: str,
    *keys: str,
    synonyms: bool = False,
    documentation: bool = False,
) -> DescribeConfigsRequest:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
    )
    return DescribeConfigsRequest(
        resources=[resource], include_synonyms=synonyms, include_documentation=documentation
    )


def by_name(answer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {config["name"]: config for config in answer["results"][0]["configs"]}


@pytest.mark.parametrize("version", range(1, 5))
@pytest.mark.parametrize("synonyms", [False, True])
@pytest.mark.parametrize("documentation", [False, True])
def test_describing_every_config_of_a_topic(
    pair: Pair, topic: str, version: int, synonyms: bool, documentation: bool
) -> None:
    create(pair, topic, retention_ms=5000, cleanup_policy="compact,delete")
    request = describe(TOPIC, topic, synonyms=synonyms, documentation=documentation and version >= 3)

    expected, got = (by_name(plain(peer.ask(request, version), peer)) for peer in (pair.kafka, pair.broker))

    expect_equal(got, expected)


@pytest.mark.parametrize("version", range(1, 5))
@pytest.mark.parametrize("synonyms", [False, True])
def test_describing_every_config_of_a_fresh_topic(
    pair: Pair, topic: str, version: int, synonyms: bool
) -> None:
    create(pair, topic)
    request = describe(TOPIC, topic, synonyms=synonyms)

    expected, got = (by_name(plain(peer.ask(request, version), peer)) for peer in (pair.kafka, pair.broker))

    expect_equal(got, expected)
    assert got["min.insync.replicas"]["config_source"] == DYNAMIC_DEFAULT_BROKER


@pytest.mark.parametrize("version", range(1, 5))
def test_describing_chosen_configs(pair: Pair, topic: str, version: int) -> None:
    create(pair, topic, retention_ms=5000)
    answer = pair.same_soon(describe(TOPIC, topic, "retention.ms", "segment.bytes", "no.such"), version)
    assert [each["name"] for each in answer["results"][0]["configs"]] == ["retention.ms", "segment.bytes"]
    nothing = DescribeConfigsResource(resource_type=TOPIC, resource_name=topic, configuration_keys=[])
    pair.same(DescribeConfigsRequest(resources=[nothing]), version)


@pytest.mark.parametrize("version", range(1, 5))
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (TOPIC, "no-such-topic"),
        (TOPIC, "no spaces"),
        (TOPIC, ""),
        (BROKER, "99"),
        (BROKER, "a word"),
        (0, "x"),
        (3, "x"),
        (99, "x"),
    ],
)
def test_describing_what_is_not_there(pair: Pair, version: int, kind: int, name: str) -> None:
    pair.same_soon(describe(kind, name, "retention.ms"), version)


def broker_configs(pair: Pair, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    request = describe(BROKER, name, synonyms=True, documentation=True)
    expected, got = (by_name(plain(peer.ask(request, 4), peer)) for peer in (pair.kafka, pair.broker))
    return expected, got


def test_the_brokers_configs_are_kafkas_in_kind(pair: Pair) -> None:
    expected, got = broker_configs(pair, "1")

    assert set(got) - set(expected) == NOT_SHOWN_BY_KAFKA, "other names start with penstock."
    fields = ("config_type", "read_only", "is_sensitive", "documentation")
    kinds, kafkas = (
        {name: {field: configs[name][field] for field in fields} for name in set(got) & set(expected)}
        for configs in (got, expected)
    )
    for name in READ_ONLY_HERE:
        assert kinds[name].pop("read_only")
        kafkas[name].pop("read_only")
    expect_equal(kinds, kafkas)


def test_the_brokers_defaults_are_kafkas(pair: Pair) -> None:
    expected, got = broker_configs(pair, "1")
    default = 5

    different = {
        name: (config["value"], expected[name]["value"])
        for name, config in got.items()
        if name in expected
        and name not in OWN_DEFAULTS
        and config["config_source"] == expected[name]["config_source"] == default
        and config["value"] != expected[name]["value"]
    }
    assert different == {}


def test_the_cluster_wide_defaults_start_with_the_in_sync_replicas(pair: Pair) -> None:
    expected, got = broker_configs(pair, "")
    expect_equal(got, expected)
    assert set(got) == {"min.insync.replicas"}


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize("validate_only", [False, True])
def test_replacing_configs(pair: Pair, topic: str, version: int, validate_only: bool) -> None:
    create(pair, topic, retention_ms=5000)

    def alter(name: str, value: str | None, *, kind: int = TOPIC, resource: str = topic) -> int:
        configs = [AlterableConfig(name=name, value=value)]
        changed = AlterConfigsResource(resource_type=kind, resource_name=resource, configs=configs)
        request = AlterConfigsRequest(resources=[changed], validate_only=validate_only)
        return int(pair.same(request, version)["responses"][0]["error_code"])

    assert alter("segment.bytes", "2097152") == 0
    pair.same_soon(describe(TOPIC, topic, "retention.ms", "segment.bytes"), 4)
    assert alter("segment.bytes", "12") == ErrorCode.INVALID_CONFIG
    assert alter("segment.bytes", "many") == ErrorCode.INVALID_CONFIG
    assert alter("no.such.config", "1") == ErrorCode.INVALID_CONFIG
    assert alter("cleanup.policy", "burn") == ErrorCode.INVALID_CONFIG
    assert alter("segment.bytes", None) != 0
    assert alter("retention.ms", "1", resource="no-such-topic") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert alter("retention.ms", "1", resource="no spaces") != 0
    assert alter("x", "1", kind=99) != 0
    pair.same_soon(describe(TOPIC, topic, "retention.ms", "segment.bytes"), 4)


@pytest.mark.parametrize("version", range(2))
@pytest.mark.parametrize("validate_only", [False, True])
def test_changing_configs(pair: Pair, topic: str, version: int, validate_only: bool) -> None:
    create(pair, topic, retention_ms=5000)

    def change(*changes: tuple[str, int, str | None], kind: int = TOPIC, resource: str = topic) -> int:
        configs = [
            Change(name=name, config_operation=operation, value=value) for name, operation, value in changes
        ]
        changed = ChangedResource(resource_type=kind, resource_name=resource, configs=configs)
        request = IncrementalAlterConfigsRequest(resources=[changed], validate_only=validate_only)
        code = int(pair.same(request, version)["responses"][0]["error_code"])
        pair.same_soon(describe(TOPIC, topic, "retention.ms", "segment.bytes", "cleanup.policy"), 4)
        return code

    assert change(("segment.bytes", SET, "2097152"), ("retention.ms", SET, "7000")) == 0
    assert change(("retention.ms", DELETE, None)) == 0
    assert change(("retention.ms", DELETE, None)) == 0
    assert change(("cleanup.policy", APPEND, "compact")) == 0
    assert change(("cleanup.policy", APPEND, "compact")) == 0
    assert change(("cleanup.policy", SUBTRACT, "delete")) == 0
    change(("cleanup.policy", SUBTRACT, "compact"))
    assert change(("retention.ms", APPEND, "5")) == ErrorCode.INVALID_CONFIG
    assert change(("retention.ms", SET, "soon")) == ErrorCode.INVALID_CONFIG
    assert change(("retention.ms", SET, None)) != 0
    assert change(("no.such.config", SET, "1")) == ErrorCode.INVALID_CONFIG
    assert change(("no.such.config", DELETE, None)) in (0, ErrorCode.INVALID_CONFIG)
    assert change(("retention.ms", 9, "1")) != 0
    assert change(("retention.ms", SET, "1"), ("retention.ms", SET, "2")) != 0
    assert change(("retention.ms", SET, "1"), resource="no-such-topic") != 0
    assert change(("retention.ms", SET, "1"), kind=99) != 0


def test_a_request_that_is_wrong_in_part_is_done_in_part(pair: Pair, topic: str) -> None:
    create(pair, f"{topic}-a")
    create(pair, f"{topic}-b")
    resources = [
        ChangedResource(
            resource_type=TOPIC,
            resource_name=f"{topic}-{name}",
            configs=[Change(name="retention.ms", config_operation=SET, value=value)],
        )
        for name, value in (("a", "soon"), ("b", "5000"))
    ]
    pair.same(IncrementalAlterConfigsRequest(resources=resources), 1)
    pair.same_soon(describe(TOPIC, f"{topic}-b", "retention.ms"), 4)


def test_one_resource_given_twice(pair: Pair, topic: str) -> None:
    create(pair, topic)
    resource = ChangedResource(
        resource_type=TOPIC,
        resource_name=topic,
        configs=[Change(name="retention.ms", config_operation=SET, value="5000")],
    )
    pair.same(IncrementalAlterConfigsRequest(resources=[resource, resource]), 1)


def test_a_config_of_the_broker_that_cannot_change_while_it_runs(pair: Pair) -> None:
    for name in ("node.id", "log.dirs"):
        resource = ChangedResource(
            resource_type=BROKER,
            resource_name="1",
            configs=[Change(name=name, config_operation=SET, value="5")],
        )
        answer = pair.same(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        assert answer["responses"][0]["error_code"] != 0


def test_listing_what_has_configs(pair: Pair, topic: str) -> None:
    create(pair, topic)

    def listed(peer: Peer, *kinds: int) -> dict[int, set[str]]:
        answer = plain(peer.ask(ListConfigResourcesRequest(resource_types=list(kinds)), 1), peer)
        assert answer["error_code"] == 0
        found: dict[int, set[str]] = {}
        for resource in answer["config_resources"]:
            name = resource["resource_name"]
            if resource["resource_type"] != TOPIC or name == topic:
                found.setdefault(resource["resource_type"], set()).add(name)
        return found

    for kinds in ([], [TOPIC], [BROKER], [TOPIC, BROKER], [BROKER_LOGGER]):
        assert listed(pair.broker, *kinds) == listed(pair.kafka, *kinds), kinds
    assert listed(pair.broker, TOPIC) == {TOPIC: {topic}}
    pair.same(ListConfigResourcesRequest(resource_types=[99]), 1)
    pair.same(ListConfigResourcesRequest(), 0)
