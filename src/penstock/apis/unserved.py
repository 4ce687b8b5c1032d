"""Answers to what Kafka's protocol has and this broker does not do: UNSUPPORTED_VERSION, and the connection stays open.

These APIs are not advertised, and clients that look at ApiVersions do not send them. A client that sends one all the
same learns from the answer what is wrong, and keeps its connection. That goes for every version in the protocol's
schema; the format of a version that is not in it is unknown, so the connection is closed, as Kafka closes it.
"""

from typing import Final

from penstock.apis.context import Call
from penstock.apis.error_response import error_response
from penstock.base.errors import ErrorCode
from penstock.schema.words import Message

_REASON: Final = "This broker does not implement this request."


def refuse(call: Call, request: Message) -> Message:
    """The answer to any request that no module serves."""
    return error_response(request, call.version, ErrorCode.UNSUPPORTED_VERSION, _REASON)
