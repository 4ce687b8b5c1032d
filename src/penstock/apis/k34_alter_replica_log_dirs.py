"""AlterReplicaLogDirs (key 34), v1-v2: a broker has one log directory, so a replica is there already or cannot move."""

from penstock.apis.context import Call
from penstock.apis.needs import Need
from penstock.apis.rights import ALTER, CLUSTER
from penstock.base.errors import ErrorCode
from penstock.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

REQUEST = AlterReplicaLogDirsRequest
VERSIONS = (1, 2)
NEEDS = (Need(ALTER, CLUSTER),)


def handle(call: Call, request: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
    topics: dict[str, AlterReplicaLogDirTopicResult] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            result = topics.setdefault(topic.name, AlterReplicaLogDirTopicResult(topic_name=topic.name))
            result.partitions += [
                AlterReplicaLogDirPartitionResult(
                    partition_index=index, error_code=_outcome(call, directory.path, topic.name, index)
                )
                for index in topic.partitions
            ]
    return AlterReplicaLogDirsResponse(results=list(topics.values()))


def _outcome(call: Call, path: str, topic: str, index: int) -> ErrorCode:
    if path != call.services.node.log_dir:
        return ErrorCode.LOG_DIR_NOT_FOUND
    found = call.services.logs.replicas.find_replica(topic, index)
    if found is ErrorCode.NOT_LEADER_OR_FOLLOWER:
        return ErrorCode.REPLICA_NOT_AVAILABLE
    return found if isinstance(found, ErrorCode) else ErrorCode.NONE
