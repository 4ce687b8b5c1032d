"""AlterClientQuotas (key 49), v0-v1: refused with the reason, since a quota would not be enforced."""

from penstock.apis.context import Call
from penstock.apis.needs import Need
from penstock.apis.rights import ALTER_CONFIGS, CLUSTER
from penstock.base.errors import ErrorCode
from penstock.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntryDataResponse,
)

REQUEST = AlterClientQuotasRequest
VERSIONS = (0, 1)
NEEDS = (Need(ALTER_CONFIGS, CLUSTER),)


def handle(_call: Call, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        entries=[
            EntryDataResponse(
                error_code=ErrorCode.UNSUPPORTED_VERSION,
                error_message="This broker does not support client quotas; nothing was changed.",
                entity=entry.entity,
            )
            for entry in request.entries
        ]
    )
