"""CreateAcls (key 30), v1-v3: SECURITY_DISABLED for each, as from a Kafka without an authorizer."""

from penstock.apis.context import Call
from penstock.apis.needs import Need
from penstock.apis.rights import ALTER, CLUSTER
from penstock.base.errors import ErrorCode
from penstock.wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse

REQUEST = CreateAclsRequest
VERSIONS = (1, 3)
NEEDS = (Need(ALTER, CLUSTER),)


def handle(_call: Call, request: CreateAclsRequest) -> CreateAclsResponse:
    refused = AclCreationResult(
        error_code=ErrorCode.SECURITY_DISABLED,
        error_message="No Authorizer is configured: this broker does not support ACLs.",
    )
    return CreateAclsResponse(results=[refused for _ in request.creations])
