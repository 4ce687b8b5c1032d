"""For `penstock serve --verbose`: a handler that logs which error codes its answers hold.

It is put around handlers when they are assembled, and only where debug lines are logged: else it costs nothing.
"""

import logging
from collections.abc import Callable, Coroutine, Iterator
from types import CoroutineType
from typing import Any

from penstock.apis.context import Call, Held, Late, Soon
from penstock.base.errors import ErrorCode
from penstock.schema.words import Struct

log = logging.getLogger("penstock.requests")

Handler = Callable[[Call, Any], "Any | Coroutine[Any, Any, Any]"]


def telling(name: str, handle: Handler) -> Handler:
    """The handler itself, or, where debug lines are logged, one that tells what it refuses."""
    if not log.isEnabledFor(logging.DEBUG):
        return handle

    def tell(call: Call, answer: Any) -> Any:
        codes = sorted({ErrorCode(code).name for code in _error_codes(answer) if code in _KNOWN})
        if codes:
            log.debug(
                "%s v%d of %s:%s (client id %r) answered with %s",
                name,
                call.version,
                call.client.host,
                call.client.port,
                call.header.client_id,
                ", ".join(codes),
            )
        return answer

    async def told_later(call: Call, answer: Coroutine[Any, Any, Any]) -> Any:
        return tell(call, await answer)

    def handle_and_tell(call: Call, request: Any) -> Any:
        outcome = handle(call, request)
        match outcome:
            case CoroutineType():
                return told_later(call, outcome)
            case Late() | Held():
                return outcome._replace(answer=told_later(call, outcome.answer))
            case Soon(future, answer):
                return Soon(future, lambda result: tell(call, answer(result)))
        return tell(call, outcome)

    return handle_and_tell


_KNOWN = frozenset(code.value for code in ErrorCode if code is not ErrorCode.NONE)


def _error_codes(answer: Any) -> Iterator[int]:
    """Of an answer and all that it holds."""
    if isinstance(answer, list | tuple):
        for each in answer:
            yield from _error_codes(each)
    elif isinstance(answer, Struct):
        for field in answer.FIELDS:
            value = getattr(answer, field)
            if field == "error_code":
                yield value
            else:
                yield from _error_codes(value)
