"""AlterUserScramCredentials (key 51), v0: refused with the reason, since no listener asks for credentials."""

from penstock.apis.context import Call
from penstock.apis.needs import Need
from penstock.apis.rights import ALTER, CLUSTER
from penstock.base.errors import ErrorCode
from penstock.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)

REQUEST = AlterUserScramCredentialsRequest
VERSIONS = (0, 0)
NEEDS = (Need(ALTER, CLUSTER),)


def handle(_call: Call, request: AlterUserScramCredentialsRequest) -> AlterUserScramCredentialsResponse:
    users = [each.name for each in request.deletions] + [each.name for each in request.upsertions]
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(
                user=user,
                error_code=ErrorCode.UNSUPPORTED_VERSION,
                error_message="This broker does not support SCRAM credentials; nothing was changed.",
            )
            for user in dict.fromkeys(users)
        ]
    )
