"""What only the controller may answer goes there, whichever broker a client asks.

The request is sent on as it was understood, and the answer comes back the same way. While there is no controller, or
none that can be reached, the request waits for the next one: few clients would try again by themselves. Where none
comes this broker answers: its own controller refuses everything, with an error after which clients may try again.
"""

from collections.abc import Callable
from typing import Any

from penstock.apis.broker_callers import is_broker
from penstock.apis.context import Call
from penstock.apis.reply import Reply
from penstock.client.errors import ClientError, NoAnswerError
from penstock.schema.words import Message

# Longer than a session that expires and an election; shorter than clients wait for an answer.
PATIENCE_S = 20.0
_AGAIN_S = 0.1


def forwarding(handle: Callable[[Call, Any], Any], response: type[Message]) -> Callable[[Call, Any], Any]:
    """A handler that has the controller answer."""

    def handle_or_forward(call: Call, request: Any) -> Any:
        if call.services.cluster.controller_link.is_here:
            return handle(call, request)
        return Reply(forward(call, request))

    async def forward(call: Call, request: Any) -> Any:
        link, loop = call.services.cluster.controller_link, call.services.node.world.loop
        deadline_s = loop.time() + PATIENCE_S
        while not link.is_here and loop.time() < deadline_s:
            if link.can_ask:
                # What a broker forwarded goes no further: two that each take the other for the controller would never
                # end. It waits where this broker is to be the controller, and has yet to take office.
                if is_broker(call):
                    break
                try:
                    # In no other version than it came: what one says in one field another may say elsewhere.
                    return await link.ask(request, response, version_max=call.version)
                except NoAnswerError:
                    break
                except ClientError:
                    pass
            await loop.sleep(_AGAIN_S)
        answer = handle(call, request)
        return await answer.response() if isinstance(answer, Reply) else answer

    return handle_or_forward
