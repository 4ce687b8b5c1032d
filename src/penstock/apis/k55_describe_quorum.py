"""DescribeQuorum (key 55), v0-v2: refused with the reason, since no Raft quorum keeps the metadata."""

from penstock.apis.context import Call
from penstock.apis.needs import Need
from penstock.apis.rights import CLUSTER, DESCRIBE
from penstock.base.errors import ErrorCode
from penstock.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse

REQUEST = DescribeQuorumRequest
VERSIONS = (0, 2)
NEEDS = (Need(DESCRIBE, CLUSTER),)


def handle(_call: Call, _request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        error_message="There is no KRaft quorum here: a cluster keeps its metadata in ZooKeeper, a single broker in "
        "its data directory. DescribeCluster names the controller.",
    )
