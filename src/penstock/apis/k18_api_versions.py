"""ApiVersions (key 18), v0-v4: which APIs in which versions, and which features.

A request in a version from the future is answered in version 0 with UNSUPPORTED_VERSION and the range of this API,
so that the client can ask again. A feature is finalised when what it promises works: clients then use it.
"""

import re

from penstock.base.errors import ErrorCode
from penstock.services.context import Call
from penstock.services.peers import is_peer
from penstock.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

REQUEST = ApiVersionsRequest
VERSIONS = (0, 4)
KEY = 18

BETWEEN_BROKERS = (56, 63, 67)  # of no use to clients, who are not told of them

SOFTWARE_NAME_SINCE = 3
VERSION_0_OF_FEATURES_SINCE = 4

# What a client may count on, by the level of the feature that says so: groups of the consumer protocol (KIP-848), and
# transactions whose every end brings a new epoch (KIP-890).
FEATURES = {"group.version": 1, "transaction.version": 2}
FEATURES_EPOCH = 1

_SOFTWARE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?\Z")


def handle(call: Call, request: ApiVersionsRequest) -> ApiVersionsResponse:
    if call.version >= SOFTWARE_NAME_SINCE and not _names_are_valid(request):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    call.client.software_name = request.client_software_name
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=key, min_version=lowest, max_version=highest)
            for key, (lowest, highest) in call.services.api_versions.items()
            if key not in BETWEEN_BROKERS or is_peer(call.header.client_id)
        ],
        supported_features=[
            SupportedFeatureKey(name=name, min_version=0, max_version=level)
            for name, level in FEATURES.items()
            # Older clients break over a version 0.
            if call.version >= VERSION_0_OF_FEATURES_SINCE
        ],
        finalized_features_epoch=FEATURES_EPOCH,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in FEATURES.items()
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
