"""Helpers of the group APIs: the client of a call, replies of coordinators, and error codes."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from penstock.apis.context import Call
from penstock.apis.reply import Reply
from penstock.base.errors import ErrorCode, Refusal
from penstock.core.groups.requests import ClientInfo

Answered = TypeVar("Answered")
Response = TypeVar("Response")

# The authorized operations on a group, as a bit set: read, delete, describe, describe and alter its configs.
GROUP_OPERATIONS: Final = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11

# In characters, of up to four bytes each; a string of the protocol has at most 32,767 bytes.
MESSAGE_LENGTH_MAX: Final = 8_000


def client_of(call: Call) -> ClientInfo:
    """The client, as group descriptions show it. The slash is Kafka's."""
    return ClientInfo(call.client_id or "", f"/{call.client.host}")


def new_uuid(call: Call) -> str:
    """A random UUID in Java's format, which tools parse."""
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
    """The error code for clients, which do not expect MESSAGE_TOO_LARGE from a coordinator."""
    if refusal.code is ErrorCode.MESSAGE_TOO_LARGE:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return refusal.code


def message_of(refusal: Refusal) -> str | None:
    """The error message, cut to size: it may contain what the client sent."""
    return None if refusal.message is None else refusal.message[:MESSAGE_LENGTH_MAX]
