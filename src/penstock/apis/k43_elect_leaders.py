"""ElectLeaders (key 43), v0-v2: preferred leader election, and unclean election for partitions without a leader."""

from penstock.apis.context import Call
from penstock.apis.needs import Need
from penstock.apis.rights import ALTER, CLUSTER
from penstock.base.errors import Refusal
from penstock.base.ids import TopicPartition
from penstock.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

REQUEST = ElectLeadersRequest
VERSIONS = (0, 2)
NEEDS = (Need(ALTER, CLUSTER),)
ANSWERED_BY_CONTROLLER = ElectLeadersResponse

UNCLEAN = 1


async def handle(call: Call, request: ElectLeadersRequest) -> ElectLeadersResponse:
    partitions = None
    if request.topic_partitions is not None:
        partitions = [
            TopicPartition(topic.topic, number)
            for topic in request.topic_partitions
            for number in topic.partitions
        ]
    moves = await call.services.cluster.controller.elect_leaders(
        partitions, unclean=request.election_type == UNCLEAN
    )
    if isinstance(moves, Refusal):
        return ElectLeadersResponse(error_code=moves.code, replica_election_results=[])
    results: dict[str, ReplicaElectionResult] = {}
    for (topic, number), outcome in moves.items():
        result = results.setdefault(topic, ReplicaElectionResult(topic=topic, partition_result=[]))
        result.partition_result.append(
            PartitionResult(partition_id=number, error_code=outcome.code, error_message=outcome.message)
        )
    return ElectLeadersResponse(replica_election_results=list(results.values()))
