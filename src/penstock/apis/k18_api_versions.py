"""ApiVersions (key 18), v0-v4: which APIs in which versions, and which features.

A request in a version from the future is answered in version 0 with UNSUPPORTED_VERSION and the range of this API,
so that the client can ask again. No feature is finalised yet: each becomes one when what it promises works.
"""

import re

from penstock.base.errors import ErrorCode
from penstock.services.context import Call
from penstock.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse

REQUEST = ApiVersionsRequest
VERSIONS = (0, 4)
KEY = 18

SOFTWARE_NAME_SINCE = 3

_SOFTWARE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?\Z")


def handle(call: Call, request: ApiVersionsRequest) -> ApiVersionsResponse:
    if call.version >= SOFTWARE_NAME_SINCE and not _names_are_valid(request):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=key, min_version=lowest, max_version=highest)
            for key, (lowest, highest) in call.services.api_versions.items()
        ],
        finalized_features_epoch=0,
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
