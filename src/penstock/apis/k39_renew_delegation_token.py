"""RenewDelegationToken (key 39), v1-v2: refused, as from any Kafka to clients that did not authenticate."""

from penstock.apis.context import Call
from penstock.apis.needs import Needs
from penstock.base.errors import ErrorCode
from penstock.wire.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

REQUEST = RenewDelegationTokenRequest
VERSIONS = (1, 2)
NEEDS: Needs = ()  # a token's owner and its renewers are known by the token

NO_TIME = -1


def handle(_call: Call, _request: RenewDelegationTokenRequest) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=NO_TIME
    )
