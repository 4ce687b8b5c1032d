"""DescribeDelegationToken (key 41), v1-v3: refused, as from any Kafka to clients that did not authenticate."""

from penstock.apis.context import Call
from penstock.apis.needs import ListedOnly
from penstock.apis.rights import DELEGATION_TOKEN, DESCRIBE
from penstock.base.errors import ErrorCode
from penstock.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)

REQUEST = DescribeDelegationTokenRequest
VERSIONS = (1, 3)
NEEDS = (ListedOnly(DESCRIBE, DELEGATION_TOKEN),)


def handle(_call: Call, _request: DescribeDelegationTokenRequest) -> DescribeDelegationTokenResponse:
    return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
