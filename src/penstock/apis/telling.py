"""For `penstock serve --verbose`: a handler that logs which error codes its answers hold.

It is put around handlers when they are assembled, and only where debug lines are logged: else it costs nothing.
"""

import logging
from collections.abc import Callable, Iterator
from typing import Any

from penstock.apis.context import Call
from penstock.apis.reply import Reply
from penstock.base.errors import ErrorCode
from penstock.schema.words import Struct

log = logging.getLogger("penstock.requests")

Handler = Callable[[Call, Any], Any]


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

    def handle_and_tell(call: Call, request: Any) -> Any:
        outcome = handle(call, request)
        if not isinstance(outcome, Reply):
            return tell(call, outcome)
        respond = outcome.respond
        outcome.respond = lambda result: tell(call, result if respond is None else respond(result))
        return outcome

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
