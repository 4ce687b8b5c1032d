"""ApiVersions (key 18), v0-v4: the supported versions of all APIs, and features.

A request in a version from the future is answered in version 0 with UNSUPPORTED_VERSION and the range of this API,
so that the client can ask again. Supported features are this broker's, finalised ones the cluster's: clients use the
finalised ones. A feature at level 0 is not finalised.
"""

import re

from penstock.apis.broker_callers import claims_to_be_old_broker
from penstock.apis.context import Call
from penstock.apis.needs import Needs
from penstock.base.errors import ErrorCode
from penstock.wire.apis import APIS
from penstock.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

REQUEST = ApiVersionsRequest
VERSIONS = (0, 4)
NEEDS: Needs = ()  # every client may ask which versions there are
KEY = 18

SOFTWARE_NAME_SINCE = 3
VERSION_0_OF_FEATURES_SINCE = 4

_SOFTWARE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?\Z")


def handle(call: Call, request: ApiVersionsRequest) -> ApiVersionsResponse:
    if call.version >= SOFTWARE_NAME_SINCE and not _names_are_valid(request):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    call.client.software_name = request.client_software_name
    features = call.services.cluster.image.features
    served = call.services.node.api_versions
    if claims_to_be_old_broker(call):  # others learn these in the handshake
        more = {key: range_ for key, range_ in call.services.node.broker_api_versions.items() if key in APIS}
        served = dict(sorted({**served, **more}.items()))
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=key, min_version=lowest, max_version=highest)
            for key, (lowest, highest) in served.items()
        ],
        supported_features=[
            SupportedFeatureKey(name=name, min_version=lowest, max_version=highest)
            for name, (lowest, highest) in call.services.cluster.supported_features.items()
            # Older clients reject a lowest version of 0.
            if lowest > 0 or call.version >= VERSION_0_OF_FEATURES_SINCE
        ],
        finalized_features_epoch=features.epoch,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in features.levels.items()
            if level > 0
        ],
    )


def handle_unsupported(_call: Call) -> ApiVersionsResponse:
    lowest, highest = VERSIONS
    return ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[ApiVersion(api_key=KEY, min_version=lowest, max_version=highest)],
    )


def _names_are_valid(request: ApiVersionsRequest) -> bool:
    return all(
        _SOFTWARE_NAME.match(name) for name in (request.client_software_name, request.client_software_version)
    )
