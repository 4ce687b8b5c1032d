"""A follower's connection to one leader: Fetch with a replica id, in a session, and ListOffsets.

The leader delays a fetch for which it has no records; ReleaseFetch (key 10003) completes it.
"""

from typing import Final, NamedTuple

from penstock.base.errors import ErrorCode
from penstock.base.version import VERSION
from penstock.client.connection import Connection
from penstock.client.errors import raise_if_refused
from penstock.core.fetch_sessions import PartitionKey
from penstock.core.follower_fetch_session import SessionRequest
from penstock.core.replication import EpochEnd
from penstock.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from penstock.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from penstock.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from penstock.wire.private.release_fetch import ReleaseFetchRequest, ReleaseFetchResponse

# As timestamps of ListOffsets.
LOG_END: Final = -1
LOG_START: Final = -2


class FollowerTerms(NamedTuple):
    """The follower's identity, and the limits of its fetch: bytes, and how long the leader may delay the response."""

    node_id: int
    broker_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int


class LeaderData(NamedTuple):
    """One partition in a leader's response."""

    key: PartitionKey
    error: ErrorCode
    high_watermark: int
    log_start_offset: int
    diverging: EpochEnd | None  # the logs of leader and follower diverge there
    records: memoryview | None


class LeaderAnswer(NamedTuple):
    """A leader's response to a fetch: the state of the fetch session, and the partitions with changes."""

    error: ErrorCode
    session_id: int
    partitions: list[LeaderData]


async def fetch_as_follower(
    connection: Connection, session_request: SessionRequest, terms: FollowerTerms
) -> LeaderAnswer:
    """Fetch what a session asks for."""
    answer = await connection.ask(_fetch_request(session_request, terms), FetchResponse)
    found = []
    for topic in answer.responses:
        for data in topic.partitions:
            assert data.records is None or isinstance(data.records, memoryview)  # as the codec reads them
            diverging = data.diverging_epoch
            found.append(
                LeaderData(
                    (topic.topic_id, data.partition_index),
                    ErrorCode(data.error_code),
                    data.high_watermark,
                    data.log_start_offset,
                    None if diverging is None else EpochEnd(diverging.epoch, diverging.end_offset),
                    data.records,
                )
            )
    return LeaderAnswer(ErrorCode(answer.error_code), answer.session_id, found)


def _fetch_request(session_request: SessionRequest, terms: FollowerTerms) -> FetchRequest:
    topics: dict[bytes | str, FetchTopic] = {}
    for (topic_id, index), wanted in session_request.wanted.items():
        assert isinstance(topic_id, bytes)
        topic = topics.setdefault(topic_id, FetchTopic(topic_id=topic_id))
        topic.partitions.append(
            FetchPartition(
                partition=index,
                current_leader_epoch=wanted.current_leader_epoch,
                fetch_offset=wanted.fetch_offset,
                last_fetched_epoch=wanted.last_fetched_epoch,
                log_start_offset=wanted.log_start_offset,
                partition_max_bytes=wanted.max_bytes,
                high_watermark=wanted.high_watermark or 0,
            )
        )
    forgotten: dict[bytes | str, ForgottenTopic] = {}
    for topic_id, index in session_request.forgotten:
        assert isinstance(topic_id, bytes)
        forgotten.setdefault(topic_id, ForgottenTopic(topic_id=topic_id)).partitions.append(index)
    return FetchRequest(
        replica_state=ReplicaState(replica_id=terms.node_id, replica_epoch=terms.broker_epoch),
        max_wait_ms=terms.max_wait_ms,
        min_bytes=terms.min_bytes,
        max_bytes=terms.max_bytes,
        session_id=session_request.session_id,
        session_epoch=session_request.epoch,
        topics=list(topics.values()),
        forgotten_topics_data=list(forgotten.values()),
    )


async def leader_offset(
    connection: Connection, topic: str, index: int, *, leader_epoch: int, which: int, node_id: int
) -> int | ErrorCode:
    """Where a leader's log starts (`LOG_START`) or ends (`LOG_END`)."""
    session_request = ListOffsetsPartition(
        partition_index=index, current_leader_epoch=leader_epoch, timestamp=which
    )
    request = ListOffsetsRequest(
        replica_id=node_id, topics=[ListOffsetsTopic(name=topic, partitions=[session_request])]
    )
    answer = await connection.ask(request, ListOffsetsResponse)
    told = answer.topics[0].partitions[0]
    return ErrorCode(told.error_code) if told.error_code else told.offset


async def release_fetch(connection: Connection, leader: int) -> None:
    """Make the leader complete the fetch that it delays."""
    if connection.versions.offers(ReleaseFetchRequest):
        await connection.ask(ReleaseFetchRequest(), ReleaseFetchResponse)
        return
    # On a broker without the handshake (`cluster.unproven_peers`), any request completes the fetch.
    request = ApiVersionsRequest(client_software_name="penstock", client_software_version=VERSION)
    answer = await connection.ask(request, ApiVersionsResponse)
    raise_if_refused(answer.error_code, None, f"asking broker {leader}")
