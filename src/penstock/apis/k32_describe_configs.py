"""DescribeConfigs (key 32), v1-v4: the configs of topics, brokers and groups, with their sources, synonyms and docs."""

from penstock.apis.config_resources import (
    BROKER,
    GROUP,
    TOPIC,
    config_needs,
    is_this_broker,
    unknown_topic,
    unsupported,
)
from penstock.apis.context import Call
from penstock.apis.rights import DESCRIBE_CONFIGS
from penstock.base.errors import ErrorCode, Refusal
from penstock.services.configs import ConfigEntry
from penstock.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

REQUEST = DescribeConfigsRequest
VERSIONS = (1, 4)
NEEDS = config_needs(DESCRIBE_CONFIGS)
LOW_PRIORITY = True

_NO_GROUP = "Group name must not be empty"


def handle(call: Call, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=[_describe(call, request, resource) for resource in request.resources]
    )


def _describe(
    call: Call, request: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    entries = _entries(call, resource)
    result = DescribeConfigsResult(resource_type=resource.resource_type, resource_name=resource.resource_name)
    if isinstance(entries, Refusal):
        result.error_code = entries.code
        result.error_message = entries.message
        return result
    wanted = resource.configuration_keys
    result.configs = [
        _show(entry, request) for entry in entries if not wanted or entry.setting.name in wanted
    ]
    return result


def _entries(call: Call, resource: DescribeConfigsResource) -> list[ConfigEntry] | Refusal:
    name = resource.resource_name
    configs = call.services.node.configs
    if resource.resource_type == TOPIC:
        topic = call.services.cluster.image.topic(name)
        return unknown_topic(name) if topic is None else configs.describe_topic(topic)
    if resource.resource_type == GROUP:
        return configs.describe_group(name) if name else Refusal(ErrorCode.INVALID_REQUEST, _NO_GROUP)
    if resource.resource_type != BROKER:
        return unsupported(resource.resource_type)
    if not is_this_broker(call, name):
        return Refusal(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {call.services.node.node_id} or empty string, but received {name}",
        )
    return configs.describe_broker(name)


def _show(entry: ConfigEntry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    setting = entry.setting
    return DescribeConfigsResourceResult(
        name=setting.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=setting.sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=shown.name, value=shown.value, source=shown.source)
            for shown in (entry.synonyms if request.include_synonyms else ())
        ],
        config_type=setting.kind,
        documentation=setting.doc if request.include_documentation else None,
    )
