"""Answers requests of Kafka APIs that this broker does not implement: UNSUPPORTED_VERSION; the connection stays open.

These APIs are not advertised, so clients that read ApiVersions do not send them. A client that sends one anyway gets an
error that names the problem, and keeps its connection. That applies to every version in the protocol's schema; the
format of any other version is unknown, so the connection is closed, as Kafka closes it.
"""

from typing import Final

from penstock.apis.context import Call
from penstock.apis.error_response import error_response
from penstock.base.errors import ErrorCode
from penstock.schema.words import Message

_REASON: Final = "This broker does not implement this request."


def refuse(call: Call, request: Message) -> Message:
    """The response to any request that no module serves."""
    return error_response(request, call.version, ErrorCode.UNSUPPORTED_VERSION, _REASON)
