"""Request headers as a broker reads them, for tests of the client's side."""

from penstock.base.buffers import Buffer
from penstock.broker.request import Request
from penstock.wire.headers import RequestHeader


def read_request_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """The header, and the position of the body."""
    request = Request(frame, 0.0)
    header = RequestHeader(request.api_key, request.api_version, request.correlation_id, request.client_id)
    return header, request.body_position
