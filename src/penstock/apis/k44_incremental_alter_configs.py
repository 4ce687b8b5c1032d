"""IncrementalAlterConfigs (key 44), v0-v1: set, delete, append to and subtract from single configs."""

from collections import Counter
from collections.abc import Mapping

from penstock.apis.config_resources import BROKER, GROUP, TOPIC, change_configs, config_needs
from penstock.apis.context import Call
from penstock.apis.rights import ALTER_CONFIGS
from penstock.base.broker_settings import BROKER_SETTINGS
from penstock.base.errors import ErrorCode, Refusal, SettingError
from penstock.base.group_settings import GROUP_SETTINGS
from penstock.base.settings import SettingKind
from penstock.base.topic_settings import TOPIC_SETTINGS
from penstock.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

REQUEST = IncrementalAlterConfigsRequest
VERSIONS = (0, 1)
NEEDS = config_needs(ALTER_CONFIGS)
ANSWERED_BY_CONTROLLER = IncrementalAlterConfigsResponse

_CATALOGUES = {TOPIC: TOPIC_SETTINGS, BROKER: BROKER_SETTINGS, GROUP: GROUP_SETTINGS}

SET = 0
DELETE = 1
APPEND = 2
SUBTRACT = 3


async def handle(call: Call, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
    occurrences = Counter((r.resource_type, r.resource_name) for r in request.resources)
    responses = []
    for resource in request.resources:
        if occurrences[resource.resource_type, resource.resource_name] > 1:
            outcome = Refusal(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
        else:
            outcome = await _alter(call, resource, validate_only=request.validate_only)
        responses.append(
            AlterConfigsResourceResponse(
                error_code=outcome.code,
                error_message=outcome.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    return IncrementalAlterConfigsResponse(responses=responses)


async def _alter(call: Call, resource: AlterConfigsResource, *, validate_only: bool) -> Refusal:
    return await change_configs(
        call,
        resource_type=resource.resource_type,
        name=resource.resource_name,
        change=lambda before: _apply(resource, before),
        validate_only=validate_only,
    )


def _apply(resource: AlterConfigsResource, before: Mapping[str, str]) -> Mapping[str, str] | Refusal:
    names = Counter(config.name for config in resource.configs)
    repeated = [name for name, count in names.items() if count > 1]
    if repeated:
        return Refusal(
            ErrorCode.INVALID_REQUEST, f"Error due to duplicate config keys : {','.join(repeated)}"
        )
    after = dict(before)
    for config in resource.configs:
        refusal = _apply_one(resource, config, after)
        if refusal is not None:
            return refusal
    return after


def _apply_one(
    resource: AlterConfigsResource, config: AlterableConfig, configs: dict[str, str]
) -> Refusal | None:
    if config.config_operation == DELETE:
        configs.pop(config.name, None)
        return None
    if config.value is None:
        return Refusal(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {config.name}")
    if config.config_operation == SET:
        configs[config.name] = config.value
        return None
    if config.config_operation not in (APPEND, SUBTRACT):
        return Refusal(ErrorCode.INVALID_REQUEST, f"config operation {config.config_operation} is not known")
    return _change_list(resource, config, configs)


def _change_list(
    resource: AlterConfigsResource, config: AlterableConfig, configs: dict[str, str]
) -> Refusal | None:
    catalogue = _CATALOGUES[resource.resource_type]
    try:
        setting = catalogue[config.name]
    except SettingError as error:
        return Refusal(ErrorCode.INVALID_CONFIG, str(error))
    if setting.kind is not SettingKind.LIST:
        return Refusal(
            ErrorCode.INVALID_CONFIG, f"{config.name} is not a list; nothing can be appended or subtracted"
        )
    assert config.value is not None
    present = configs.get(config.name)
    words = list(setting.default) if present is None else [word for word in present.split(",") if word]
    for word in config.value.split(","):
        if config.config_operation == SUBTRACT and word in words:
            words.remove(word)
        elif config.config_operation == APPEND and word not in words:
            words.append(word)
    configs[config.name] = ",".join(words)
    return None
