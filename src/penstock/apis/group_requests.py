"""What the APIs of groups share: who asks, when an answer is there, what a refusal means to a client."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from penstock.apis.context import Call
from penstock.apis.reply import Reply
from penstock.base.errors import ErrorCode, Refusal
from penstock.core.groups.requests import ClientInfo

Answered = TypeVar("Answered")
Response = TypeVar("Response")

# What somebody may do with a group, as a set of bits: read, delete, describe, describe and alter its configs.
GROUP_OPERATIONS: Final = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11

# In characters, which have four bytes each at most; and a string has at most 32,767.
MESSAGE_LENGTH_MAX: Final = 8_000


def client_of(call: Call) -> ClientInfo:
    """The client, as people see it who look at a group. The slash is Kafka's."""
    return ClientInfo(call.header.client_id or "", f"/{call.client.host}")


def new_uuid(call: Call) -> str:
    """A random id in the form that Java gives it, which tools print and cut."""
    digits = call.services.node.world.entropy.random_bytes(16).hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def when_answered(
    answer: Answered | Refusal | Awaitable[Answered | Refusal],
    respond: Callable[[Answered | Refusal], Response],
) -> Response | Reply:
    """The response if the coordinator's answer is there already, which saves a task; else a reply that awaits it."""
    return Reply(_respond_later(answer, respond)) if isinstance(answer, Awaitable) else respond(answer)


async def _respond_later(
    answer: Awaitable[Answered | Refusal], respond: Callable[[Answered | Refusal], Response]
) -> Response:
    return respond(await answer)


def code_of(refusal: Refusal) -> ErrorCode:
    """The error of a group's API; what does not fit into the coordinator's log is nothing a client can understand."""
    if refusal.code is ErrorCode.MESSAGE_TOO_LARGE:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return refusal.code


def message_of(refusal: Refusal) -> str | None:
    """What the client is told beside the code. It may contain what the client sent, which may be long."""
    return None if refusal.message is None else refusal.message[:MESSAGE_LENGTH_MAX]
