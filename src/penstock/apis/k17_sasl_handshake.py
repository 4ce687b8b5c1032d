"""SaslHandshake (key 17), v0-v1: refused, as on any listener without SASL."""

from penstock.apis.context import Call
from penstock.apis.needs import Needs
from penstock.base.errors import ErrorCode
from penstock.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

REQUEST = SaslHandshakeRequest
VERSIONS = (0, 1)
NEEDS: Needs = ()  # a client logs in before it has a principal


def handle(_call: Call, _request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
