"""Whatever arrives, decoding gives a message or PeerError, soon, and takes no memory on trust."""

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.base.errors import PeerError
from penstock.schema.codec import decode, encode
from penstock.schema.words import Message
from penstock.wire.headers import read_response_header
from tests.request_headers import read_request_header
from tests.wire.shapes import any_of, filled, messages, requests, versions

LARGE_NUMBERS = [
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\x7f\xff",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x07",
    b"\xff\x7f",
    b"\xff" * 12,
]


def survives(shape: type[Message], version: int, data: bytes) -> None:
    try:
        message = decode(shape, version, data)
    except PeerError:
        return
    assert isinstance(message, shape)
    encode(message, version)


@st.composite
def damaged(draw: st.DrawFn, shape: type[Message]) -> tuple[int, bytes]:
    """A version, and a message in it of which a few bytes were changed, inserted or cut out."""
    version = draw(st.sampled_from(versions(shape)))
    data = b"".join(encode(draw(any_of(shape, version)), version))  # type: ignore[arg-type]
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.integers(0, 4)))
        data = (
            data[:start] + draw(st.one_of(st.binary(max_size=4), st.sampled_from(LARGE_NUMBERS))) + data[end:]
        )
    return version, data


@pytest.mark.parametrize("shape", messages(), ids=lambda shape: shape.__name__)
def test_arbitrary_bytes_are_a_message_or_refused_in_every_version(shape: type[Message]) -> None:
    @settings(max_examples=40, deadline=None, database=None)
    @given(st.binary(max_size=200))
    def check(data: bytes) -> None:
        for version in versions(shape):
            survives(shape, version, data)

    check()


@pytest.mark.parametrize("shape", messages(), ids=lambda shape: shape.__name__)
def test_a_damaged_message_is_a_message_or_refused(shape: type[Message]) -> None:
    @settings(max_examples=60, deadline=None, database=None)
    @given(damaged(shape))
    def check(case: tuple[int, bytes]) -> None:
        survives(shape, *case)

    check()


def peak_bytes(shape: type[Message], version: int, data: bytes) -> int:
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    survives(shape, version, data)
    _, peak = tracemalloc.get_traced_memory()
    return peak - before


@pytest.mark.parametrize("shape", requests(), ids=lambda shape: shape.__name__)
def test_a_large_number_anywhere_costs_no_memory(shape: type[Message]) -> None:
    cases = []
    for version in versions(shape):
        data = b"".join(encode(filled(shape, version), version))  # type: ignore[arg-type]
        assert decode(shape, version, data) == filled(shape, version)
        cases += [
            (version, data[:position] + number + data[position + len(number) :])
            for position in range(len(data))
            for number in LARGE_NUMBERS[:5]
        ]
    tracemalloc.start()
    try:
        for version, data in cases:
            # Other threads of the suite allocate meanwhile: what the message takes is the least of some measurements.
            assert any(peak_bytes(shape, version, data) < 64 * 1024 for _ in range(3))
    finally:
        tracemalloc.stop()


@settings(max_examples=300, deadline=None, database=None)
@given(st.binary(max_size=60))
def test_arbitrary_bytes_are_a_header_or_refused(frame: bytes) -> None:
    try:
        header, position = read_request_header(frame)
    except PeerError:
        pass
    else:
        assert header.api_key == int.from_bytes(frame[:2], "big", signed=True)
        assert 8 <= position <= len(frame)
    for api_key, api_version in ((18, 4), (3, 12), (3, 1), (999, 0)):
        try:
            _, position = read_response_header(api_key, api_version, frame)
        except PeerError:
            continue
        assert 4 <= position <= len(frame)
