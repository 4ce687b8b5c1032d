"""DescribeUserScramCredentials (key 50), v0: there are none, so no named user has any."""

from collections import Counter

from penstock.apis.context import Call
from penstock.apis.needs import Need
from penstock.apis.rights import CLUSTER, DESCRIBE
from penstock.base.errors import ErrorCode
from penstock.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

REQUEST = DescribeUserScramCredentialsRequest
VERSIONS = (0, 0)
NEEDS = (Need(DESCRIBE, CLUSTER),)


def handle(_call: Call, request: DescribeUserScramCredentialsRequest) -> DescribeUserScramCredentialsResponse:
    named = Counter(user.name for user in request.users or ())
    return DescribeUserScramCredentialsResponse(
        results=[_result(name, count) for name, count in named.items()]
    )


def _result(name: str, count: int) -> DescribeUserScramCredentialsResult:
    if count > 1:
        return DescribeUserScramCredentialsResult(
            user=name,
            error_code=ErrorCode.DUPLICATE_RESOURCE,
            error_message=f"The request names the user {name!r} more than once.",
        )
    return DescribeUserScramCredentialsResult(
        user=name,
        error_code=ErrorCode.RESOURCE_NOT_FOUND,
        error_message=f"The user {name!r} has no SCRAM credentials.",
    )
