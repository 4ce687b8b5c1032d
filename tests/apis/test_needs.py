"""Access rights: every API declares its needs, one place asks the authorizer, a denied request is not handled."""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest

import penstock.apis
from penstock.apis import ApiTable
from penstock.apis.context import Call, ConnectedClient, Services
from penstock.apis.error_response import error_response
from penstock.apis.needs import ListedOnly, Need, authorizing
from penstock.apis.reply import Reply
from penstock.base.errors import ErrorCode
from penstock.base.ids import TopicId
from penstock.cluster.metadata import MetadataImage, Topic
from penstock.core.access import (
    ANONYMOUS,
    CLUSTER_NAME,
    DENIED,
    Access,
    AclOperation,
    AclResourceType,
    AllowAll,
    Principal,
)
from penstock.schema.codec import decode, encode
from penstock.schema.words import FieldKind, Message, Struct, string, uuid
from penstock.services.metrics import Metrics
from penstock.wire.apis import APIS
from penstock.wire.messages import request_type, response_type
from penstock.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from penstock.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.wire.messages.init_producer_id import InitProducerIdRequest
from penstock.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.controlled import ControlledBroker
from tests.raw_client import RawClient


def modules() -> list[ModuleType]:
    found = [each.name for each in pkgutil.iter_modules(penstock.apis.__path__)]
    return [importlib.import_module(f"penstock.apis.{name}") for name in found if re.match(r"k\d+_", name)]


# Nothing of what these answer is anybody's: the log-in itself, versions, addresses, and what a token itself proves.
WITHOUT_NEEDS = {17, 18, 36, 38, 39, 40, 60}
TOPIC_ID = TopicId(b"the id of a topic"[:16])
KAFKAS = [module for module in modules() if module.REQUEST.API_KEY < 10_000]


class Recorder:
    """An authorizer that allows or denies everything, and keeps what it was asked."""

    allows_all = False

    def __init__(self, *, answer: bool) -> None:
        self.answer = answer
        self.asked: list[tuple[Principal, str, Access]] = []

    def allows(self, principal: Principal, host: str, access: Access) -> bool:
        self.asked.append((principal, host, access))
        return self.answer


class Rules(Recorder):
    """An authorizer that allows the accesses it was given, and no other."""

    def __init__(self, *allowed: Access) -> None:
        super().__init__(answer=False)
        self.allowed = allowed

    def allows(self, principal: Principal, host: str, access: Access) -> bool:
        super().allows(principal, host, access)
        return access in self.allowed


def call(version: int) -> Call:
    client = ConnectedClient("PLAINTEXT")
    client.host = "10.1.2.3"
    image = MetadataImage("a-cluster")
    image.apply_topic(Topic("some-name", TOPIC_ID, (), {}))
    services = SimpleNamespace(cluster=SimpleNamespace(image=image))
    return Call(cast(Services, services), client, "test", version)


def filled(shape: type[Struct], version: int) -> Any:
    """A message in which every array has one element and every string says something."""
    values: dict[str, Any] = {}
    for name, field in shape.FIELDS.items():
        if not field.is_in(version):
            continue
        kind = field.type
        value: Any
        if not isinstance(kind, FieldKind):
            value = filled(kind, version)
        elif kind is string:
            value = f"some-{name}"
        elif kind is uuid:
            value = TOPIC_ID
        elif field.is_array and kind.code:
            value = 3
        else:
            continue
        values[name] = [value] if field.is_array else value
    return shape(**values)


def versions_of(module: ModuleType) -> Iterator[int]:
    lowest, highest = module.VERSIONS
    yield from range(lowest, highest + 1)


@pytest.mark.parametrize("module", modules(), ids=lambda module: module.__name__.rpartition(".")[2])
def test_every_api_declares_what_it_needs(module: ModuleType) -> None:
    assert isinstance(module.NEEDS, tuple)
    assert all(isinstance(need, Need | ListedOnly) for need in module.NEEDS)
    if module.REQUEST.API_KEY < 10_000:
        assert bool(module.NEEDS) == (module.REQUEST.API_KEY not in WITHOUT_NEEDS)


@pytest.mark.parametrize("module", modules(), ids=lambda module: module.__name__.rpartition(".")[2])
def test_declared_paths_lead_to_fields(module: ModuleType) -> None:
    for need in module.NEEDS:
        if isinstance(need, ListedOnly):
            continue
        for path in filter(None, (need.names, need.ids)):
            *parents, last = path.split(".")
            shape: Any = module.REQUEST
            for parent in parents:
                assert shape.FIELDS[parent].is_array
                shape = shape.FIELDS[parent].type
            assert last in shape.FIELDS
            assert need.where is None or need.where[0] in shape.FIELDS


@pytest.mark.parametrize("module", KAFKAS, ids=lambda module: module.__name__.rpartition(".")[2])
def test_a_denied_request_never_reaches_its_handler_in_any_version(module: ModuleType) -> None:
    if not any(isinstance(need, Need) for need in module.NEEDS):
        return
    reached = []
    asked_once = False
    for version in versions_of(module):
        authorizer = Recorder(answer=False)
        handle = authorizing(lambda call, request: reached.append(request), module.NEEDS, authorizer)
        request = filled(module.REQUEST, version)
        for field, value in (("key_type", 0), ("resource_type", 2)):
            for each in (request, *getattr(request, "resources", ())):
                if field in each.FIELDS:
                    setattr(each, field, value)
        response = handle(call(version), request)
        if not authorizer.asked:
            continue  # a version that has none of the fields that name something
        asked_once = True
        principal, host, access = authorizer.asked[-1]
        assert (principal, host) == (ANONYMOUS, "10.1.2.3")
        codes = set(error_codes(response))
        assert codes <= {DENIED[access.resource]}, (version, codes)
        assert codes or version_without_place_for_errors(module, version), version
        frame = b"".join(bytes(chunk) for chunk in encode(response, version))
        assert decode(type(response), version, frame, 0) is not None
    assert asked_once
    assert reached == []


def version_without_place_for_errors(module: ModuleType, version: int) -> bool:
    # DescribeLogDirs says nothing before version 3 but that there are no directories.
    return module.REQUEST.API_KEY == 35 and version < 3


@pytest.mark.parametrize("module", KAFKAS, ids=lambda module: module.__name__.rpartition(".")[2])
def test_an_allowed_request_reaches_its_handler(module: ModuleType) -> None:
    version = module.VERSIONS[1]
    request = filled(module.REQUEST, version)
    handle = authorizing(lambda call, request: request, module.NEEDS, Recorder(answer=True))
    assert handle(call(version), request) is request


def test_a_broker_without_access_control_asks_nothing() -> None:
    def handle(call: Call, request: Any) -> None:
        return None

    needs = (Need(AclOperation.ALTER, AclResourceType.CLUSTER),)
    assert authorizing(handle, needs, AllowAll()) is handle


def test_each_topic_of_a_request_is_asked_about_once() -> None:
    module = importlib.import_module("penstock.apis.k01_fetch")
    authorizer = Recorder(answer=True)
    request = FetchRequest(
        topics=[FetchTopic(topic=name, partitions=[FetchPartition(partition=0)]) for name in ("b", "a", "b")]
    )
    handle = authorizing(lambda call, request: "done", module.NEEDS, authorizer)
    assert handle(call(4), request) == "done"
    assert [access for _, _, access in authorizer.asked] == [
        Access(AclOperation.READ, AclResourceType.TOPIC, "a"),
        Access(AclOperation.READ, AclResourceType.TOPIC, "b"),
    ]


def test_a_right_on_the_cluster_creates_topics_of_any_name() -> None:
    module = importlib.import_module("penstock.apis.k19_create_topics")
    request = CreateTopicsRequest(topics=[CreatableTopic(name="orders")])
    on_cluster = Rules(Access(AclOperation.CREATE, AclResourceType.CLUSTER, CLUSTER_NAME))
    on_topic = Rules(Access(AclOperation.CREATE, AclResourceType.TOPIC, "orders"))
    on_another = Rules(Access(AclOperation.CREATE, AclResourceType.TOPIC, "payments"))
    outcomes = [
        authorizing(lambda call, request: "done", module.NEEDS, rules)(call(7), request)
        for rules in (on_cluster, on_topic, on_another)
    ]
    assert outcomes[:2] == ["done", "done"]
    assert outcomes[2].topics[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert outcomes[2].topics[0].name == "orders"


def test_configs_need_rights_to_what_they_belong_to() -> None:
    module = importlib.import_module("penstock.apis.k32_describe_configs")
    authorizer = Recorder(answer=True)
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=2, resource_name="orders"),
            DescribeConfigsResource(resource_type=4, resource_name="1"),
            DescribeConfigsResource(resource_type=32, resource_name="billing"),
        ]
    )
    authorizing(lambda call, request: None, module.NEEDS, authorizer)(call(4), request)
    operation = AclOperation.DESCRIBE_CONFIGS
    assert [access for _, _, access in authorizer.asked] == [
        Access(operation, AclResourceType.TOPIC, "orders"),
        Access(operation, AclResourceType.CLUSTER, CLUSTER_NAME),
        Access(operation, AclResourceType.GROUP, "billing"),
    ]


def test_a_producer_without_a_transactional_id_needs_idempotent_write() -> None:
    module = importlib.import_module("penstock.apis.k22_init_producer_id")
    for transactional_id, expected in (
        (None, Access(AclOperation.IDEMPOTENT_WRITE, AclResourceType.CLUSTER, CLUSTER_NAME)),
        ("payments", Access(AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, "payments")),
    ):
        authorizer = Recorder(answer=True)
        request = InitProducerIdRequest(transactional_id=transactional_id)
        authorizing(lambda call, request: None, module.NEEDS, authorizer)(call(4), request)
        assert [access for _, _, access in authorizer.asked] == [expected]


def test_a_denied_produce_names_every_partition_with_the_error() -> None:
    request = ProduceRequest(
        topic_data=[
            TopicProduceData(name="orders", partition_data=[PartitionProduceData(index=i) for i in (0, 7)])
        ]
    )
    response: Any = error_response(request, 9, ErrorCode.TOPIC_AUTHORIZATION_FAILED, per_part=True)
    (topic,) = response.responses
    assert topic.name == "orders"
    assert [(each.index, each.error_code) for each in topic.partition_responses] == [(0, 29), (7, 29)]


@pytest.mark.parametrize("key", [key for key, api in sorted(APIS.items()) if api.versions is not None])
def test_every_response_can_say_that_the_request_is_refused(key: int) -> None:
    """For every API of the protocol, at every version, and as a message that can be sent."""
    versions = APIS[key].versions
    assert versions is not None
    for version in range(versions[0], versions[1] + 1):
        request: Message = filled(request_type(key), version)
        response = error_response(request, version, ErrorCode.UNSUPPORTED_VERSION)
        frame = b"".join(bytes(chunk) for chunk in encode(response, version))
        decoded = decode(response_type(key), version, frame, 0)
        if (key, version) not in NO_PLACE:
            assert set(error_codes(decoded)) == {ErrorCode.UNSUPPORTED_VERSION}, version


# DescribeLogDirs had no error code for the request as a whole before version 3.
NO_PLACE = {(35, 1), (35, 2)}


def test_all_apis_are_served_through_the_authorizer() -> None:
    """The table wraps each handler that needs something: with another authorizer none is the module's own."""
    guarded = ApiTable(Metrics(), Recorder(answer=False))
    for module in KAFKAS:
        key = module.REQUEST.API_KEY
        api = guarded.find(key, module.VERSIONS[1])
        if any(isinstance(need, Need) for need in module.NEEDS):
            assert api.handle is not module.handle


def test_the_errors_of_a_denied_request_reach_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """Through a whole broker: a topic is not created, and the answer says why."""
    monkeypatch.setattr("penstock.broker.service_groups.AllowAll", lambda: Recorder(answer=False))
    with ControlledBroker() as broker, RawClient(broker.bootstrap_servers) as client:
        answer = client.ask(
            CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)]), 7
        )
        assert answer.topics[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert broker.broker.services.cluster.image.topic("t") is None
        fetched = client.ask(FetchRequest(topics=[FetchTopic(topic="t", partitions=[FetchPartition()])]), 4)
        assert fetched.responses[0].partitions[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def error_codes(answer: Any) -> Iterator[int]:
    assert not isinstance(answer, Reply)
    if isinstance(answer, list):
        for each in answer:
            yield from error_codes(each)
    elif isinstance(answer, Struct):
        for field in answer.FIELDS:
            if field in ("error_code", "partition_error_code"):
                if getattr(answer, field):
                    yield getattr(answer, field)
            else:
                yield from error_codes(getattr(answer, field))
