"""Configs of topics, brokers and groups: read and change them. DescribeConfigs v1-v4,
IncrementalAlterConfigs v0-v1.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from penstock.base.errors import Refusal
from penstock.client.client import Client
from penstock.client.errors import raise_if_refused, refusal_of
from penstock.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from penstock.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


class ResourceType(IntEnum):
    TOPIC = 2
    BROKER = 4
    GROUP = 32


class Resource(NamedTuple):
    """A resource with configs: a topic or group by name, a broker by its id as text."""

    type: ResourceType
    name: str

    def __str__(self) -> str:
        return f"{self.type.name.lower()} {self.name}"


class ConfigSource(IntEnum):
    """Where a config's value comes from, with the numbers of the protocol."""

    UNKNOWN = 0
    TOPIC = 1
    BROKER = 2
    CLUSTER_BROKERS = 3
    FILE = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class Config(NamedTuple):
    name: str
    value: str | None
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool
    documentation: str | None

    @property
    def is_own(self) -> bool:
        """Whether it is set on the resource itself, not inherited."""
        return self.source in (ConfigSource.TOPIC, ConfigSource.BROKER, ConfigSource.GROUP)


class _Operation(IntEnum):
    SET = 0
    DELETE = 1


async def describe_configs(
    client: Client, resources: Sequence[Resource], *, documentation: bool = False
) -> dict[Resource, list[Config] | Refusal]:
    """All configs of each resource, in the order of their names."""
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=each.type, resource_name=each.name, configuration_keys=None)
            for each in resources
        ],
        include_documentation=documentation,
    )

    async def attempt() -> dict[Resource, list[Config] | Refusal]:
        node_id = _responsible(resources)
        if node_id is None:
            response = await client.ask_any(request, DescribeConfigsResponse)
        else:
            response = await client.ask_node(node_id, request, DescribeConfigsResponse)
        results: dict[Resource, list[Config] | Refusal] = {}
        for each in response.results:
            resource = Resource(ResourceType(each.resource_type), each.resource_name)
            refusal = refusal_of(each.error_code, each.error_message)
            results[resource] = refusal or sorted(map(_config, each.configs))
        return results

    return await client.retry(attempt)


async def alter_configs(
    client: Client,
    resource: Resource,
    *,
    set_to: Mapping[str, str],
    reset: Iterable[str] = (),
    by_controller: bool = False,
) -> None:
    """Set configs and reset others to what they inherit, all or none; AnsweredError if the broker refuses.
    `by_controller`: ask the controller even for a broker's configs, since that broker may be offline.
    """
    changes = [
        AlterableConfig(name=name, config_operation=_Operation.SET, value=value)
        for name, value in set_to.items()
    ]
    changes += [AlterableConfig(name=name, config_operation=_Operation.DELETE, value=None) for name in reset]
    request = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(resource_type=resource.type, resource_name=resource.name, configs=changes)
        ]
    )

    async def attempt() -> None:
        node_id = None if by_controller else _responsible([resource])
        if node_id is None:
            response = await client.ask_controller(request, IncrementalAlterConfigsResponse)
        else:
            response = await client.ask_node(node_id, request, IncrementalAlterConfigsResponse)
        for each in response.responses:
            raise_if_refused(each.error_code, each.error_message, f"change the configs of {resource}")

    await client.retry(attempt)


def _responsible(resources: Sequence[Resource]) -> int | None:
    """The broker to ask about its own configs; None if any broker will do."""
    for resource in resources:
        if resource.type is ResourceType.BROKER and resource.name:
            assert len(resources) == 1, "a broker's configs are asked for one broker at a time"
            return int(resource.name)
    return None


def _config(each: DescribeConfigsResourceResult) -> Config:
    try:
        source = ConfigSource(each.config_source)
    except ValueError:
        source = ConfigSource.UNKNOWN
    return Config(each.name, each.value, source, each.read_only, each.is_sensitive, each.documentation)
