"""What only the controller may answer goes there, whichever broker a client asks.

The request is sent on as it was understood, and the answer comes back the same way. Where the controller cannot be
asked, this broker answers itself: its own controller refuses everything, with an error after which clients try again.
"""

from collections.abc import Callable, Coroutine
from typing import Any

from penstock.client.errors import ClientError
from penstock.schema.words import Message
from penstock.services.context import Call
from penstock.services.peers import is_peer


def forwarding(
    handle: Callable[[Call, Any], Any], response: type[Message]
) -> Callable[[Call, Any], "Any | Coroutine[Any, Any, Any]"]:
    """A handler that has the controller answer."""

    def handle_or_forward(call: Call, request: Any) -> Any:
        link = call.services.controller_link
        # What a broker forwarded goes no further: two that each take the other for the controller would never end.
        if link.is_here or not link.can_ask or is_peer(call.header.client_id):
            return handle(call, request)
        return forward(call, request)

    async def forward(call: Call, request: Any) -> Any:
        try:
            return await call.services.controller_link.ask(request, response)
        except ClientError:
            answer = handle(call, request)
            return await answer if isinstance(answer, Coroutine) else answer

    return handle_or_forward
