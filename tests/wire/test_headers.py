"""Headers: the header version of each API version, and how much is read of the headers of unknown APIs."""

import io
from importlib import import_module

import pytest
from kio.serial import entity_reader, entity_writer

from penstock.base.errors import PeerError
from penstock.wire.headers import (
    RequestHeader,
    frame_request,
    frame_response,
    is_known,
    read_response_header,
)
from tests.request_headers import read_request_header

METADATA, API_VERSIONS, SASL_HANDSHAKE = 3, 18, 17


def framed(frame: list[object]) -> bytes:
    """The frame's content; its length must be right."""
    whole = b"".join(frame)  # type: ignore[arg-type]
    assert int.from_bytes(whole[:4], "big") == len(whole) - 4
    return whole[4:]


@pytest.mark.parametrize("client_id", ["me", "", None, "größe"])
@pytest.mark.parametrize(
    ("api_key", "api_version", "header_version"),
    [(METADATA, 8, 1), (METADATA, 9, 2), (API_VERSIONS, 2, 1), (API_VERSIONS, 3, 2), (SASL_HANDSHAKE, 1, 1)],
)
def test_a_request_header_is_what_kio_writes(
    api_key: int, api_version: int, header_version: int, client_id: str | None
) -> None:
    shape = import_module(f"kio.schema.request_header.v{header_version}.header").RequestHeader
    theirs = shape(
        request_api_key=api_key, request_api_version=api_version, correlation_id=77, client_id=client_id
    )
    with io.BytesIO() as buffer:
        entity_writer(shape)(buffer, theirs)
        expected = buffer.getvalue()
    header = RequestHeader(api_key, api_version, 77, client_id)
    assert framed(frame_request(header, [b"body"])) == expected + b"body"
    assert read_request_header(expected + b"body") == (header, len(expected))


@pytest.mark.parametrize(
    ("api_key", "api_version", "header_version"),
    [(METADATA, 8, 0), (METADATA, 9, 1), (API_VERSIONS, 0, 0), (API_VERSIONS, 4, 0), (SASL_HANDSHAKE, 1, 0)],
)
def test_a_response_header_is_what_kio_reads(api_key: int, api_version: int, header_version: int) -> None:
    shape = import_module(f"kio.schema.response_header.v{header_version}.header").ResponseHeader
    frame = framed(
        frame_response(api_key=api_key, api_version=api_version, correlation_id=-5, chunks=[b"body"])
    )
    header, size = entity_reader(shape)(frame, 0)
    assert header.correlation_id == -5
    assert frame[size:] == b"body"
    assert read_response_header(api_key, api_version, frame) == (-5, size)


def test_tagged_fields_in_headers_are_skipped() -> None:
    request = b"\x00\x03\x00\x0c\x00\x00\x00\x01\xff\xff" + b"\x01\x07\x02zz" + b"body"
    assert read_request_header(request) == (RequestHeader(METADATA, 12, 1, None), 15)
    assert read_response_header(METADATA, 12, b"\x00\x00\x00\x01" + b"\x01\x07\x02zz" + b"body") == (1, 9)


def test_a_header_is_read_from_a_view() -> None:
    frame = framed(frame_request(RequestHeader(METADATA, 12, 1, "me"), [b"body"]))
    header, position = read_request_header(memoryview(frame))
    assert header.client_id == "me"
    assert frame[position:] == b"body"


@pytest.mark.parametrize(
    ("api_key", "api_version"), [(999, 0), (-1, 3), (METADATA, 99), (API_VERSIONS, -1), (4, 1)]
)
@pytest.mark.parametrize(
    "rest", [b"", b"\x00", b"\x00\x05ab", b"\xff\xfe", b"\x00\x02\xff\xff", b"\x00\x02me"]
)
def test_of_an_unknown_request_at_least_its_numbers_are_read(
    api_key: int, api_version: int, rest: bytes
) -> None:
    assert not is_known(api_key, api_version)
    numbers = api_key.to_bytes(2, "big", signed=True) + api_version.to_bytes(2, "big", signed=True)
    header, position = read_request_header(numbers + b"\x00\x00\x00\x09" + rest)
    assert header[:3] == (api_key, api_version, 9)
    assert position <= 8 + len(rest)


def test_a_newer_version_of_api_versions_still_tells_who_asks() -> None:
    header = RequestHeader(API_VERSIONS, 99, 5, "from the future")
    frame = framed(frame_request(header, [b"whatever"]))
    assert read_request_header(frame) == (header, len(frame) - len(b"whatever"))


@pytest.mark.parametrize("rest", [b"", b"\x00", b"\x00\x05ab", b"\xff\xfe", b"\x00\x02\xff\xff", b"\xff\xff"])
def test_a_broken_header_of_a_known_request_is_refused(rest: bytes) -> None:
    with pytest.raises(PeerError, match="header is broken"):
        read_request_header(b"\x00\x03\x00\x0c\x00\x00\x00\x09" + rest)


def test_a_client_id_of_negative_length_is_refused() -> None:
    assert read_request_header(b"\x00\x03\x00\x08\x00\x00\x00\x09\xff\xff")[0].client_id is None
    with pytest.raises(PeerError, match="a client id of -2 bytes"):
        read_request_header(b"\x00\x03\x00\x08\x00\x00\x00\x09\xff\xfe")


@pytest.mark.parametrize("size", range(8))
def test_a_frame_without_room_for_the_numbers_is_refused(size: int) -> None:
    with pytest.raises(PeerError):
        read_request_header(bytes([255] * size))


@pytest.mark.parametrize(
    "frame", [b"", b"\x00\x00\x00", b"\x00\x00\x00\x01", b"\x00\x00\x00\x01\x01\x00\x05a"]
)
def test_a_broken_response_header_is_refused(frame: bytes) -> None:
    with pytest.raises(PeerError):
        read_response_header(METADATA, 12, frame)


def test_large_chunks_are_not_copied_into_the_frame() -> None:
    large = bytes(1_000_000)
    chunks = frame_response(api_key=1, api_version=12, correlation_id=1, chunks=[b"small", large, b"end"])
    assert len(chunks) == 3
    assert chunks[1] is large
    assert frame_response(api_key=1, api_version=12, correlation_id=1, chunks=[large])[1] is large


def test_a_small_response_is_one_buffer() -> None:
    assert len(frame_response(api_key=0, api_version=9, correlation_id=1, chunks=[bytes(60)])) == 1
