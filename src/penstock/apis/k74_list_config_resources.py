"""ListConfigResources (key 74), v0-v1: the names of all resources that can have configs.

Version 0 asks for client metrics subscriptions only. Telemetry is not offered, so there are none. Groups are
listed that have configs of their own.
"""

from penstock.apis.config_resources import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from penstock.apis.context import Call
from penstock.apis.needs import Need
from penstock.apis.rights import CLUSTER, DESCRIBE_CONFIGS
from penstock.base.errors import ErrorCode
from penstock.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

REQUEST = ListConfigResourcesRequest
VERSIONS = (0, 1)
NEEDS = (Need(DESCRIBE_CONFIGS, CLUSTER),)
LOW_PRIORITY = True

_ALL = (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP)


def handle(call: Call, request: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
    if call.version == 0:
        return ListConfigResourcesResponse()
    wanted = request.resource_types or list(_ALL)
    if any(kind not in _ALL for kind in wanted):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    image = call.services.cluster.image
    found = []
    if TOPIC in wanted:
        found += [ConfigResource(resource_name=t.name, resource_type=TOPIC) for t in image.topics()]
    for kind in (BROKER, BROKER_LOGGER):
        if kind in wanted:
            found += [
                ConfigResource(resource_name=str(node_id), resource_type=kind)
                for node_id in sorted(image.brokers)
            ]
    if GROUP in wanted:
        found += [
            ConfigResource(resource_name=group_id, resource_type=GROUP)
            for group_id in sorted(image.group_configs)
        ]
    return ListConfigResourcesResponse(config_resources=found)
