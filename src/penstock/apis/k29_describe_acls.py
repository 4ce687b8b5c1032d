"""DescribeAcls (key 29), v1-v3: SECURITY_DISABLED, as from a Kafka without an authorizer."""

from penstock.apis.context import Call
from penstock.apis.needs import Need
from penstock.apis.rights import CLUSTER, DESCRIBE
from penstock.base.errors import ErrorCode
from penstock.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

REQUEST = DescribeAclsRequest
VERSIONS = (1, 3)
NEEDS = (Need(DESCRIBE, CLUSTER),)


def handle(_call: Call, _request: DescribeAclsRequest) -> DescribeAclsResponse:
    return DescribeAclsResponse(
        error_code=ErrorCode.SECURITY_DISABLED,
        error_message="No Authorizer is configured: this broker has no ACLs, and every client may do everything.",
    )
