"""CreateDelegationToken (key 38), v1-v3: refused, as from any Kafka to clients that did not authenticate."""

from penstock.apis.context import Call
from penstock.apis.needs import Needs
from penstock.base.errors import ErrorCode
from penstock.wire.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)

REQUEST = CreateDelegationTokenRequest
VERSIONS = (1, 3)
NEEDS: Needs = ()  # a user makes tokens for itself

REQUESTER_SINCE = 3
NO_TIME = -1


def handle(call: Call, _request: CreateDelegationTokenRequest) -> CreateDelegationTokenResponse:
    response = CreateDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
        principal_type="User",
        principal_name="ANONYMOUS",
        issue_timestamp_ms=NO_TIME,
        expiry_timestamp_ms=NO_TIME,
        max_timestamp_ms=NO_TIME,
    )
    if call.version >= REQUESTER_SINCE:
        response.token_requester_principal_type = response.principal_type
        response.token_requester_principal_name = response.principal_name
    return response
