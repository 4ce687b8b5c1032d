"""The one type for a response that a handler cannot return at once (in Kafka, a delayed operation in purgatory)."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class Reply:
    """What a handler returns instead of a response that does not exist yet.

    The connection awaits `awaited`; its result is the response, or `respond(result)` where `respond` is given. A
    coroutine is run as a task. A future needs no task, and is never cancelled by the connection: use one where the
    request is frequent.

    The connection starts its next request only when the response is there, unless `next_may_start`: the handler has
    then done all that depends on the order of requests. Responses are sent in the order of requests in any case.

    `release`, where given, completes a response that only waits for news (a follower's delayed fetch, a held
    heartbeat). The connection calls it when the client's next request arrives, which may start meanwhile.
    """

    __slots__ = ("awaited", "next_may_start", "release", "respond")

    def __init__(
        self,
        awaited: "asyncio.Future[Any] | Coroutine[Any, Any, Any]",
        respond: Callable[[Any], Any] | None = None,
        *,
        next_may_start: bool = False,
        release: Callable[[], None] | None = None,
    ) -> None:
        self.awaited = awaited
        self.respond = respond
        self.next_may_start = next_may_start or release is not None
        self.release = release

    async def response(self) -> Any:
        """Await the response, in any coroutine that has to answer in the connection's place."""
        result = await self.awaited
        return result if self.respond is None else self.respond(result)
