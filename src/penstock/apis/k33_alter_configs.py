"""AlterConfigs (key 33), v0-v2: replace all the configs of a topic or broker."""

from collections.abc import Mapping

from penstock.apis.config_resources import change_configs, config_needs
from penstock.apis.context import Call
from penstock.apis.rights import ALTER_CONFIGS
from penstock.base.errors import ErrorCode, Refusal
from penstock.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

REQUEST = AlterConfigsRequest
VERSIONS = (0, 2)
NEEDS = config_needs(ALTER_CONFIGS)
ANSWERED_BY_CONTROLLER = AlterConfigsResponse


async def handle(call: Call, request: AlterConfigsRequest) -> AlterConfigsResponse:
    return AlterConfigsResponse(
        responses=[await _alter(call, request, resource) for resource in request.resources]
    )


async def _alter(
    call: Call, request: AlterConfigsRequest, resource: AlterConfigsResource
) -> AlterConfigsResourceResponse:
    def replace(_before: Mapping[str, str]) -> Mapping[str, str] | Refusal:
        nulls = [config.name for config in resource.configs if config.value is None]
        if nulls:
            return Refusal(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {','.join(nulls)}")
        return {config.name: config.value for config in resource.configs if config.value is not None}

    outcome = await change_configs(
        call,
        resource_type=resource.resource_type,
        name=resource.resource_name,
        change=replace,
        validate_only=request.validate_only,
    )
    return AlterConfigsResourceResponse(
        error_code=outcome.code,
        error_message=outcome.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
