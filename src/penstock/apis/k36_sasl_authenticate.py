"""SaslAuthenticate (key 36), v0-v2: refused, as on any listener without SASL."""

from penstock.apis.context import Call
from penstock.apis.needs import Needs
from penstock.base.errors import ErrorCode
from penstock.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

REQUEST = SaslAuthenticateRequest
VERSIONS = (0, 2)
NEEDS: Needs = ()  # a client logs in before it has a principal


def handle(_call: Call, _request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="This listener does not use SASL; connect with security.protocol=PLAINTEXT.",
    )
