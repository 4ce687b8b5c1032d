"""Helpers of the config APIs: the access rights of config resources, and changing the configs of one."""

from collections.abc import Mapping

from penstock.apis.context import Call
from penstock.apis.needs import Need
from penstock.base.errors import ErrorCode, Refusal
from penstock.base.ids import topic_name_problem
from penstock.controller.controller import ConfigChange
from penstock.core.access import AclOperation, AclResourceType
from penstock.services.configs import ALL_BROKERS

UNKNOWN = 0
TOPIC = 2
BROKER = 4
BROKER_LOGGER = 8
CLIENT_METRICS = 16
GROUP = 32

# The resource type whose rights a config resource needs, by its type: a broker's are the cluster's.
_AUTHORIZED_AS = {
    TOPIC: AclResourceType.TOPIC,
    BROKER: AclResourceType.CLUSTER,
    BROKER_LOGGER: AclResourceType.CLUSTER,
    CLIENT_METRICS: AclResourceType.CLUSTER,
    GROUP: AclResourceType.GROUP,
}


def config_needs(operation: AclOperation) -> tuple[Need, ...]:
    """The access rights that a request about configs needs."""
    return tuple(
        Need(operation, resource, "resources.resource_name", where=("resource_type", resource_type))
        for resource_type, resource in _AUTHORIZED_AS.items()
    )


async def change_configs(
    call: Call, *, resource_type: int, name: str, change: ConfigChange, validate_only: bool
) -> Refusal:
    """Replace a resource's configs by the result of `change`; a Refusal with code NONE if that succeeded."""
    if resource_type == TOPIC:
        return await _change_topic(call, name, change, validate_only=validate_only)
    if resource_type == BROKER:
        return await _change_broker(call, name, change, validate_only=validate_only)
    if resource_type == GROUP:
        return await _change_group(call, name, change, validate_only=validate_only)
    return unsupported(resource_type)


def unsupported(resource_type: int) -> Refusal:
    return Refusal(
        ErrorCode.INVALID_REQUEST,
        f"resources of type {resource_type} have no configs here; topics (2), brokers (4) and groups (32) have",
    )


def unknown_topic(name: str) -> Refusal:
    problem = topic_name_problem(name)
    if problem is not None:
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
    return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")


async def _change_topic(call: Call, name: str, change: ConfigChange, *, validate_only: bool) -> Refusal:
    outcome = await call.services.cluster.controller.alter_topic_configs(
        name, change, validate_only=validate_only
    )
    if not isinstance(outcome, Refusal):
        return Refusal(ErrorCode.NONE)
    return unknown_topic(name) if outcome.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else outcome


async def _change_broker(call: Call, key: str, change: ConfigChange, *, validate_only: bool) -> Refusal:
    services = call.services

    def checked(before: Mapping[str, str]) -> Mapping[str, str] | Refusal:
        configs = change(before)
        if isinstance(configs, Refusal):
            return configs
        return services.node.configs.broker_refusal(key, configs) or configs

    refusal = await services.cluster.controller.alter_broker_configs(
        key, checked, validate_only=validate_only
    )
    return refusal or Refusal(ErrorCode.NONE)


async def _change_group(call: Call, group_id: str, change: ConfigChange, *, validate_only: bool) -> Refusal:
    services = call.services
    if not group_id:
        return Refusal(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")

    def checked(before: Mapping[str, str]) -> Mapping[str, str] | Refusal:
        configs = change(before)
        if isinstance(configs, Refusal):
            return configs
        return services.node.configs.group_refusal(configs) or configs

    refusal = await services.cluster.controller.alter_group_configs(
        group_id, checked, validate_only=validate_only
    )
    return refusal or Refusal(ErrorCode.NONE)


def is_this_broker(call: Call, name: str) -> bool:
    return name in (ALL_BROKERS, str(call.services.node.node_id))
