"""Heartbeat (key 12), v0-v4: a member of a classic group is alive, and hears whether the group is being rebalanced.

Kafka answers at once, so that members hear of a rebalance when their next heartbeat is due. Here the answer is held
until there is something to tell, for a while (`penstock.group.heartbeat.wait.ms`), if the client can bear it: it must
send heartbeats beside its other work, on a connection without fetches. Its next request on it lets the answer go.
"""

import asyncio
from typing import Final

from penstock.apis.context import Call
from penstock.apis.group_requests import code_of, when_answered
from penstock.apis.reply import Reply
from penstock.base.errors import ErrorCode, Refusal
from penstock.core.groups.requests import Heartbeat
from penstock.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

REQUEST = HeartbeatRequest
VERSIONS = (0, 4)
CANCEL_ON_DISCONNECT = True
LOW_PRIORITY = True

# What clients call themselves that do nothing but send heartbeats while one is under way: Java's consumer, librdkafka
# under several names, and our own. KafkaJS would wait for it; kafka-python fetches on the same connection; aiokafka
# does not say its name.
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
            return Reply(_when_there_is_news(call, heartbeat, news), release=lambda: _let_go(news))
    return when_answered(answer, _respond)


async def _when_there_is_news(
    call: Call, heartbeat: Heartbeat, news: "asyncio.Future[ErrorCode | Refusal]"
) -> HeartbeatResponse:
    answer = await news
    if answer is ErrorCode.REQUEST_TIMED_OUT:
        # Its connection is still there, which is as good as another heartbeat: a full session begins now.
        answer = await call.services.coordinators.groups.ask(
            heartbeat.group_id, lambda shard, now_ms: shard.heartbeat(heartbeat, now_ms)
        )
    return _respond(answer)


def _let_go(news: "asyncio.Future[ErrorCode | Refusal]") -> None:
    if not news.done():
        news.set_result(ErrorCode.NONE)


def _respond(answer: ErrorCode | Refusal) -> HeartbeatResponse:
    if isinstance(answer, Refusal):
        # Loading takes a moment: that is no reason for a member to join again, which is all that clients would do.
        loading = answer.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return HeartbeatResponse(error_code=ErrorCode.NONE if loading else code_of(answer))
    return HeartbeatResponse(error_code=answer)
