"""For `penstock serve --verbose`: logs the error codes in the responses of handlers.

Handlers are wrapped when the API table is built, and only if debug lines are logged: otherwise this has no cost.
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


def logging_errors(name: str, handle: Handler) -> Handler:
    """The handler itself, or, if debug lines are logged, one that logs the error codes of its responses."""
    if not log.isEnabledFor(logging.DEBUG):
        return handle

    def log_errors(call: Call, response: Any) -> Any:
        codes = sorted({ErrorCode(code).name for code in _error_codes(response) if code in _KNOWN})
        if codes:
            log.debug(
                "%s v%d of %s:%s (client id %r) answered with %s",
                name,
                call.version,
                call.client.host,
                call.client.port,
                call.client_id,
                ", ".join(codes),
            )
        return response

    def handle_and_log(call: Call, request: Any) -> Any:
        outcome = handle(call, request)
        if not isinstance(outcome, Reply):
            return log_errors(call, outcome)
        respond = outcome.respond
        outcome.respond = lambda result: log_errors(call, result if respond is None else respond(result))
        return outcome

    return handle_and_log


_KNOWN = frozenset(code.value for code in ErrorCode if code is not ErrorCode.NONE)


def _error_codes(part: Any) -> Iterator[int]:
    """All error codes in a response, or in a part of one."""
    if isinstance(part, list | tuple):
        for each in part:
            yield from _error_codes(each)
    elif isinstance(part, Struct):
        for field in part.FIELDS:
            value = getattr(part, field)
            if field == "error_code":
                yield value
            else:
                yield from _error_codes(value)
