"""Heartbeat (key 12), v0-v4: extends the session of a member, and tells it whether its classic group rebalances.

Kafka answers at once, so a member learns of a rebalance with its next heartbeat, up to one interval (3 s) late. Here
the response is held until the group rebalances, for at most `penstock.group.heartbeat.wait.ms`, so that the members of
a stable group learn of a rebalance at once. The client must support that: it must send heartbeats beside its other
work, on a connection without fetches (`CLIENTS_THAT_MAY_WAIT`, by the software name in its ApiVersions request). Its
next request on that connection releases the response.

A member that was just told of a rebalance sends its next heartbeat when that is due, so it learns of a second rebalance
right after the first as late as in Kafka. ConsumerGroupHeartbeat is never held: while one is in flight, Java's consumer
does not send the next one, which names the partitions it has revoked and for which other members wait.
"""

import asyncio
from typing import Final

from penstock.apis.context import Call
from penstock.apis.group_requests import code_of, when_answered
from penstock.apis.needs import Need
from penstock.apis.reply import Reply
from penstock.apis.rights import GROUP, READ
from penstock.base.errors import ErrorCode, Refusal
from penstock.core.groups.requests import Heartbeat
from penstock.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

REQUEST = HeartbeatRequest
VERSIONS = (0, 4)
NEEDS = (Need(READ, GROUP, "group_id"),)
CANCEL_ON_DISCONNECT = True
LOW_PRIORITY = True

# The software names of clients that send only heartbeats on the connection while one is in flight: Java's consumer,
# librdkafka under several names, and our own. KafkaJS would wait for it; kafka-python fetches on the same connection;
# aiokafka sends no software name.
CLIENTS_THAT_MAY_WAIT: Final = frozenset(
    {
        "apache-kafka-java",
        "confluent-kafka-dotnet",
        "confluent-kafka-go",
        "confluent-kafka-python",
        "librdkafka",
        "penstock",
    }
)


def handle(call: Call, request: HeartbeatRequest) -> HeartbeatResponse | Reply:
    if not request.group_id:
        return HeartbeatResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    heartbeat = Heartbeat(
        group_id=request.group_id,
        member_id=request.member_id,
        generation=request.generation_id,
        instance_id=request.group_instance_id,
    )
    groups = call.services.coordinators.groups
    answer = groups.ask_at_once(heartbeat.group_id, lambda shard, now_ms: shard.heartbeat(heartbeat, now_ms))
    if answer is ErrorCode.NONE and call.client.software_name in CLIENTS_THAT_MAY_WAIT:
        news = groups.ask_at_once(
            heartbeat.group_id, lambda shard, now_ms: shard.await_rebalance(heartbeat, now_ms)
        )
        if isinstance(news, asyncio.Future):
            return Reply(_when_there_is_news(call, heartbeat, news), release=lambda: _release(news))
    return when_answered(answer, _respond)


async def _when_there_is_news(
    call: Call, heartbeat: Heartbeat, news: "asyncio.Future[ErrorCode | Refusal]"
) -> HeartbeatResponse:
    answer = await news
    if answer is ErrorCode.REQUEST_TIMED_OUT:
        # The open connection shows that the member is alive, so its session timeout starts again.
        answer = await call.services.coordinators.groups.ask(
            heartbeat.group_id, lambda shard, now_ms: shard.heartbeat(heartbeat, now_ms)
        )
    return _respond(answer)


def _release(news: "asyncio.Future[ErrorCode | Refusal]") -> None:
    if not news.done():
        news.set_result(ErrorCode.NONE)


def _respond(answer: ErrorCode | Refusal) -> HeartbeatResponse:
    if isinstance(answer, Refusal):
        # While the shard is being loaded, an error would make the member rejoin without need.
        loading = answer.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return HeartbeatResponse(error_code=ErrorCode.NONE if loading else code_of(answer))
    return HeartbeatResponse(error_code=answer)
