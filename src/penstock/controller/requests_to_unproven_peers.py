"""Requests between the controller and brokers of the versions before the handshake, which have no private API keys.
DELETE THIS with `cluster.unproven_peers`, and with the code in `apis` that imports either.

Log ends travel in OffsetForLeaderEpoch, with topic ids for names; bytes sent to consumers in DescribeLogDirs, as a log
directory.
"""

from collections.abc import Mapping
from typing import Final

from penstock.base.ids import TopicPartition
from penstock.cluster.peers import Peers
from penstock.controller.rules.majority_partitions import Report
from penstock.wire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from penstock.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

CONTROLLER_ASKS: Final = -3  # the replica id by which a controller asks for log ends
SENT_BYTES: Final = "penstock:sent-bytes"  # the log directory whose sizes are bytes sent


async def ask_log_ends(
    peers: Peers, node_id: int, leader_epochs: Mapping[TopicPartition, int]
) -> dict[TopicPartition, Report]:
    """The log ends of the partitions, which go by topic id, that the broker reports; a ClientError if it cannot be
    asked.
    """
    topics: dict[str, OffsetForLeaderTopic] = {}
    for (topic_id, index), leader_epoch in leader_epochs.items():
        topic = topics.setdefault(topic_id, OffsetForLeaderTopic(topic=topic_id, partitions=[]))
        topic.partitions.append(
            OffsetForLeaderPartition(
                partition=index, current_leader_epoch=leader_epoch, leader_epoch=leader_epoch
            )
        )
    request = OffsetForLeaderEpochRequest(replica_id=CONTROLLER_ASKS, topics=list(topics.values()))
    answer = await peers.ask(node_id, request, OffsetForLeaderEpochResponse)
    return {
        TopicPartition(result.topic, each.partition): Report(each.leader_epoch, each.end_offset)
        for result in answer.topics
        for each in result.partitions
        if not each.error_code
    }


async def ask_loads(
    peers: Peers, node_id: int
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """The sizes and the sent bytes of a broker's partitions; a ClientError if it cannot be asked."""
    answer = await peers.ask(node_id, DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse)
    sizes: dict[TopicPartition, int] = {}
    sent: dict[TopicPartition, int] = {}
    for result in answer.results:
        totals = sent if result.log_dir == SENT_BYTES else sizes
        for topic in result.topics:
            for each in topic.partitions:
                totals[TopicPartition(topic.name, each.partition_index)] = each.partition_size
    return sizes, sent
