"""ExpireDelegationToken (key 40), v1-v2: refused, as from any Kafka to clients that did not authenticate."""

from penstock.apis.context import Call
from penstock.apis.needs import Needs
from penstock.base.errors import ErrorCode
from penstock.wire.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)

REQUEST = ExpireDelegationTokenRequest
VERSIONS = (1, 2)
NEEDS: Needs = ()  # a token's owner and its renewers are known by the token

NO_TIME = -1


def handle(_call: Call, _request: ExpireDelegationTokenRequest) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=NO_TIME
    )
