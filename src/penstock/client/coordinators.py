"""Coordinators of groups and transactional ids: find them, and send them requests. FindCoordinator v0-v6.

Coordinators are cached with the cluster's metadata, and forgotten with it when one turns out to be stale.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from penstock.base.errors import Refusal
from penstock.client.client import Client
from penstock.client.cluster import CoordinatorKind
from penstock.client.errors import AnsweredError, error_code, raise_if_refused
from penstock.schema.words import Message
from penstock.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

R = TypeVar("R", bound=Message)

_SEVERAL_KEYS_SINCE = 4


async def find_coordinators(
    client: Client, kind: CoordinatorKind, keys: Sequence[str]
) -> dict[int, list[str]]:
    """The keys by the node that coordinates them; AnsweredError for one without a coordinator."""
    known = client.cluster.coordinators
    unknown = [key for key in keys if (kind, key) not in known]
    if unknown:
        connection = await client.any_connection()
        if connection.versions.pick(FindCoordinatorRequest) >= _SEVERAL_KEYS_SINCE:
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=unknown)
            answer = await connection.ask(request, FindCoordinatorResponse)
            for each in answer.coordinators:
                raise_if_refused(each.error_code, each.error_message, _about(kind, each.key))
                known[kind, each.key] = each.node_id
        else:
            for key in unknown:
                request = FindCoordinatorRequest(key_type=kind, key=key)
                answer = await connection.ask(request, FindCoordinatorResponse)
                raise_if_refused(answer.error_code, answer.error_message, _about(kind, key))
                known[kind, key] = answer.node_id
    by_node: dict[int, list[str]] = {}
    for key in keys:
        by_node.setdefault(known[kind, key], []).append(key)
    return by_node


async def ask_coordinator(
    client: Client,
    kind: CoordinatorKind,
    key: str,
    request: Message,
    response: type[R],
    *,
    code_of: Callable[[R], int],
    about: str,
    patience_ms: int | None = None,
    timeout_ms: int | None = None,
    version_max: int | None = None,
) -> R:
    """Send a request to the coordinator, retrying retriable errors; AnsweredError for any other error code."""

    async def attempt() -> R:
        (node_id,) = await find_coordinators(client, kind, [key])
        answer = await client.ask_node(
            node_id, request, response, timeout_ms=timeout_ms, version_max=version_max
        )
        if code := code_of(answer):
            message: str | None = getattr(answer, "error_message", None)
            raise AnsweredError(Refusal(error_code(code), message), about)
        return answer

    return await client.retry(attempt, patience_ms=patience_ms)


def _about(kind: CoordinatorKind, key: str) -> str:
    what = "group" if kind is CoordinatorKind.GROUP else "transactional id"
    return f"find the coordinator of {what} {key!r}"
