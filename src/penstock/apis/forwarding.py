"""Forwards requests that only the controller may answer, from the broker that received them.

The decoded request is sent to the controller, and its response is returned to the client. While there is no
controller, or it cannot be reached, the request waits for the next one: few clients would retry by themselves. After
`FORWARDING_TIMEOUT_S` this broker answers: its own controller is not active, and returns a retriable error.
"""

from collections.abc import Callable
from typing import Any

from penstock.apis.broker_callers import is_broker
from penstock.apis.context import Call
from penstock.apis.reply import Reply
from penstock.client.errors import ClientError, NoAnswerError
from penstock.schema.words import Message

# Longer than a session's expiry and an election; shorter than the request timeout of clients.
FORWARDING_TIMEOUT_S = 20.0
_RETRY_S = 0.1


def forwarding(handle: Callable[[Call, Any], Any], response: type[Message]) -> Callable[[Call, Any], Any]:
    """A handler that forwards its requests unless this broker is the controller."""

    def handle_or_forward(call: Call, request: Any) -> Any:
        if call.services.cluster.controller_link.is_here:
            return handle(call, request)
        return Reply(forward(call, request))

    async def forward(call: Call, request: Any) -> Any:
        link, loop = call.services.cluster.controller_link, call.services.node.world.loop
        deadline_s = loop.time() + FORWARDING_TIMEOUT_S
        while not link.is_here and loop.time() < deadline_s:
            if link.can_ask:
                # A forwarded request is not forwarded again: two brokers that each take the other for the controller
                # would send it back and forth. It waits if this broker is about to become the controller.
                if is_broker(call):
                    break
                try:
                    # In the client's version: another version may have the same content in other fields.
                    return await link.ask(request, response, version_max=call.version)
                except NoAnswerError:
                    break
                except ClientError:
                    pass
            await loop.sleep(_RETRY_S)
        answer = handle(call, request)
        return await answer.response() if isinstance(answer, Reply) else answer

    return handle_or_forward
