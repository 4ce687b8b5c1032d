"""Fetch (key 1), v4-v18: between the wire and `services.fetching`.

This module has what belongs to the protocol: fetch sessions (KIP-227), which determine the partitions of a request and
of its response; topic ids since v13; leader hints (KIP-951). A request with a replica id is a follower's and goes to
`services.fetching.follower_fetches`, every other one to `consumer_fetches`.
"""

from penstock.apis.broker_callers import is_broker
from penstock.apis.context import Call
from penstock.apis.leader_hints import Hint, endpoints, hint
from penstock.apis.needs import Need
from penstock.apis.reply import Reply
from penstock.apis.rights import READ, TOPIC
from penstock.base.errors import ErrorCode
from penstock.core.fetch_sessions import Answer, Fetch, FetchTarget, PartitionKey
from penstock.services.fetching.consumer_fetches import ConsumerFetch, ConsumerOptions
from penstock.services.fetching.follower_fetches import NO_BROKER_EPOCH, FollowerFetch
from penstock.services.fetching.partition_read import NO_REPLICA, FetchBounds, PartitionRead
from penstock.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

REQUEST = FetchRequest
VERSIONS = (4, 18)
NEEDS = (Need(READ, TOPIC, "topics.topic", ids="topics.topic_id"),)
CANCEL_ON_DISCONNECT = True

FOLLOWERS_SERVE_SINCE = 11  # consumers may fetch from followers (KIP-392)
TOPIC_IDS_SINCE = 13
REPLICA_STATE_SINCE = 15
HINTS_SINCE = 16  # the version with leader hints

READ_COMMITTED = 1
_NO_FOLLOWER = NO_REPLICA, NO_BROKER_EPOCH
_UNKNOWN_HIGH_WATERMARK = (1 << 63) - 1


def handle(call: Call, request: FetchRequest) -> FetchResponse | Reply:
    node_id, broker_epoch = _follower(call, request)
    if node_id >= 0 and not is_broker(call):
        return _refused(request)
    session = _session_fetch(call, request, is_follower=node_id >= 0)
    if isinstance(session, ErrorCode):
        return FetchResponse(error_code=session)
    limits = FetchBounds(request.max_wait_ms, request.min_bytes, request.max_bytes)
    if node_id >= 0:
        answered = call.services.follower_fetches.fetch(
            session, limits, node_id=node_id, broker_epoch=broker_epoch
        )
        if isinstance(answered, FollowerFetch):
            return Reply(_respond_to_follower(call, answered), release=answered.release)
        return _respond(call, *answered)
    options = ConsumerOptions(
        committed=request.isolation_level == READ_COMMITTED,
        rack=request.rack_id,
        leader_only=call.version < FOLLOWERS_SERVE_SINCE,
    )
    reads = call.services.consumer_fetches.fetch(session.partitions(), limits, options)
    if isinstance(reads, ConsumerFetch):
        return Reply(_respond_to_consumer(call, session, reads))
    return _respond(call, _finished(session, reads), reads)


async def _respond_to_follower(call: Call, fetch: FollowerFetch) -> FetchResponse:
    return _respond(call, *await fetch)


async def _respond_to_consumer(call: Call, session: Fetch, fetch: ConsumerFetch) -> FetchResponse:
    reads = await fetch
    return _respond(call, _finished(session, reads), reads)


def _finished(session: Fetch, reads: list[PartitionRead]) -> Answer:
    return session.finish({read.key: read.outcome() for read in reads})


def _follower(call: Call, request: FetchRequest) -> tuple[int, int]:
    """Node id and broker epoch of a follower; of a consumer, a negative id."""
    if call.version < REPLICA_STATE_SINCE:
        return request.replica_id, NO_BROKER_EPOCH
    state = request.replica_state
    return _NO_FOLLOWER if state is None else (state.replica_id, state.replica_epoch)


def _refused(request: FetchRequest) -> FetchResponse:
    """The response to a client that is no broker and gives a replica id: Kafka's, for one without CLUSTER_ACTION."""
    return FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[
                    PartitionData(
                        partition_index=asked.partition,
                        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                        high_watermark=-1,
                        records=b"",
                    )
                    for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _session_fetch(call: Call, request: FetchRequest, *, is_follower: bool) -> Fetch | ErrorCode:
    """The partitions of a request, by its fetch session; or the error of that session."""
    by_id = call.version >= TOPIC_IDS_SINCE
    wanted: dict[PartitionKey, FetchTarget] = {}
    for topic in request.topics:
        name: bytes | str = topic.topic_id if by_id else topic.topic
        for asked in topic.partitions:
            wanted[name, asked.partition] = FetchTarget(
                asked.fetch_offset,
                asked.partition_max_bytes,
                asked.current_leader_epoch,
                asked.last_fetched_epoch,
                asked.log_start_offset,
                None if asked.high_watermark == _UNKNOWN_HIGH_WATERMARK else asked.high_watermark,
            )
    return call.services.logs.fetch_sessions.begin(
        session_id=request.session_id,
        epoch=request.session_epoch,
        wanted=wanted,
        forgotten=[
            (topic.topic_id if by_id else topic.topic, index)
            for topic in request.forgotten_topics_data
            for index in topic.partitions
        ],
        uses_topic_ids=by_id,
        follower=is_follower,
        now_ms=call.services.node.world.loop.now_ms(),
    )


def _respond(call: Call, answer: Answer, reads: list[PartitionRead]) -> FetchResponse:
    if answer.error is not ErrorCode.NONE:
        return FetchResponse(error_code=answer.error, session_id=answer.session_id)
    by_key = {read.key: read for read in reads}
    topics: dict[bytes | str, FetchableTopicResponse] = {}
    hints: list[Hint] = []
    for key in answer.included:
        name = key[0]
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = (
                FetchableTopicResponse(topic_id=name)
                if isinstance(name, bytes)
                else FetchableTopicResponse(topic=name)
            )
        data = _partition_data(by_key[key])
        if data.error_code and call.version >= HINTS_SINCE:
            _add_hint(call, key, data, hints)
        topic.partitions.append(data)
    response = FetchResponse(session_id=answer.session_id, responses=list(topics.values()))
    if hints:
        response.node_endpoints = [
            NodeEndpoint(node_id=node_id, host=host, port=port, rack=rack)
            for node_id, host, port, rack in endpoints(hints)
        ]
    return response


def _partition_data(read: PartitionRead) -> PartitionData:
    diverging = read.diverging
    return PartitionData(
        partition_index=read.key[1],
        error_code=read.error,
        high_watermark=read.high_watermark,
        last_stable_offset=read.last_stable_offset,
        log_start_offset=read.log_start_offset,
        diverging_epoch=None
        if diverging is None
        else EpochEndOffset(epoch=diverging.epoch, end_offset=diverging.end_offset),
        preferred_read_replica=read.preferred_replica,
        aborted_transactions=(
            None
            if read.aborted is None
            else [
                AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset)
                for each in read.aborted
            ]
        ),
        records=read.records,
    )


def _add_hint(call: Call, key: PartitionKey, data: PartitionData, hints: list[Hint]) -> None:
    """Add the current leader of a partition that this broker does not lead (KIP-951)."""
    hinted = hint(call, data.error_code, *key)
    if hinted is not None:
        data.current_leader = LeaderIdAndEpoch(
            leader_id=hinted.leader.node_id, leader_epoch=hinted.leader_epoch
        )
        hints.append(hinted)
