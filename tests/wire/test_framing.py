"""A stream is cut into the frames that were sent, however it arrives."""

import tracemalloc
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.base.errors import PeerError
from penstock.wire.framing import FrameReader


def frame(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


def cut(stream: bytes, positions: list[int]) -> list[bytes]:
    edges = [0, *sorted(position % (len(stream) + 1) for position in positions), len(stream)]
    return [stream[start:end] for start, end in pairwise(edges)]


@settings(max_examples=400, deadline=None, database=None)
@given(st.lists(st.binary(max_size=30), max_size=6), st.lists(st.integers(0, 300), max_size=12))
def test_the_same_frames_come_out_however_the_stream_is_cut(contents: list[bytes], cuts: list[int]) -> None:
    reader = FrameReader(size_max=30)
    received: list[bytes] = []
    for piece in cut(b"".join(map(frame, contents)), cuts):
        received += map(bytes, reader.put(piece))
        assert reader.held_bytes <= 34
    assert received == contents
    assert reader.held_bytes == 0


@settings(max_examples=400, deadline=None, database=None)
@given(st.lists(st.binary(max_size=40), max_size=10))
def test_any_stream_gives_frames_or_is_refused(pieces: list[bytes]) -> None:
    reader = FrameReader(size_max=20)
    received: list[bytes] = []
    try:
        for piece in pieces:
            received += map(bytes, reader.put(piece))
    except PeerError:
        return
    stream = b"".join(pieces)
    taken = b"".join(map(frame, received))
    assert stream.startswith(taken)
    assert bool(len(stream) - len(taken)) == bool(reader.held_bytes)
    assert reader.held_bytes <= 24


def test_one_byte_at_a_time() -> None:
    reader = FrameReader(size_max=100)
    received = [content for byte in frame(b"slow") + frame(b"") for content in reader.put(bytes([byte]))]
    assert received == [b"slow", b""]


@settings(max_examples=60, deadline=None, database=None)
@given(
    st.lists(st.sampled_from([0, 3, 5_000, 70_000, 200_000]), max_size=4),
    st.lists(st.integers(0, 1 << 20), max_size=12),
)
def test_large_frames_come_out_as_well(sizes: list[int], cuts: list[int]) -> None:
    contents = [bytes(index % 251 for index in range(size)) for size in sizes]
    reader = FrameReader(size_max=200_000)
    pieces = cut(b"".join(map(frame, contents)), cuts)
    assert [bytes(content) for piece in pieces for content in reader.put(piece)] == contents
    assert reader.held_bytes == 0


@settings(max_examples=60, deadline=None, database=None)
@given(
    st.lists(st.sampled_from([0, 3, 5_000, 70_000, 200_000]), max_size=4),
    st.lists(st.integers(0, 1 << 20), max_size=12),
)
def test_the_same_frames_come_out_of_what_was_written_to_their_room(
    sizes: list[int], cuts: list[int]
) -> None:
    contents = [bytes(index % 251 for index in range(size)) for size in sizes]
    reader = FrameReader(size_max=200_000)
    received: list[bytes] = []
    for piece in cut(b"".join(map(frame, contents)), cuts):
        received += map(bytes, receive(reader, piece))
    assert received == contents
    assert reader.room is None
    assert reader.held_bytes == 0


def receive(reader: FrameReader, piece: bytes) -> Iterator[memoryview]:
    """As a connection does: written to the room where there is some, else fed."""
    while piece:
        if reader.room is None:
            yield from reader.put(piece)
            return
        count = min(len(reader.room), len(piece))
        reader.room[:count] = piece[:count]
        yield from reader.filled(count)
        piece = piece[count:]


def test_the_rest_of_a_large_frame_is_written_where_it_stays() -> None:
    content = bytes(range(250)) * 2_000
    reader = FrameReader(size_max=1 << 20)
    assert reader.put(frame(content)[:50_000]) == []
    room = reader.room
    assert room is not None
    assert len(room) == 4 + len(content) - 50_000
    room[:] = frame(content)[50_000:]
    (received,) = reader.filled(len(room))
    assert received == content
    assert received.obj is room.obj


def test_a_whole_frame_is_not_copied() -> None:
    data = frame(b"whole")
    (content,) = FrameReader(size_max=100).put(data)
    assert content == b"whole"
    assert content.obj is data


def test_frames_stay_as_they_are_when_more_arrives() -> None:
    reader = FrameReader(size_max=100)
    reader.put(frame(b"first")[:6])
    (first,) = reader.put(frame(b"first")[6:] + frame(b"second")[:5])
    (second,) = reader.put(frame(b"second")[5:])
    assert (first, second) == (b"first", b"second")


@pytest.mark.parametrize(
    "length", [b"\xff\xff\xff\xff", b"\x80\x00\x00\x00", b"\x7f\xff\xff\xff", b"\x00\x00\x00\x65"]
)
@pytest.mark.parametrize("split", [0, 1, 3])
@pytest.mark.parametrize("before", [b"", frame(b"good")])
def test_a_length_that_is_negative_or_too_large_is_refused(before: bytes, split: int, length: bytes) -> None:
    reader = FrameReader(size_max=100)
    reader.put(before + length[:split])
    with pytest.raises(PeerError, match="at most 100"):
        reader.put(length[split:])


def test_a_large_announcement_takes_no_memory() -> None:
    reader = FrameReader(size_max=2**31 - 1)
    tracemalloc.start()
    try:
        reader.put(b"\x7f\xff\xff\xff" + b"a little")
        assert tracemalloc.get_traced_memory()[1] < 10_000
    finally:
        tracemalloc.stop()


def test_what_waits_is_at_most_the_frame_however_small_the_pieces() -> None:
    reader = FrameReader(size_max=100_000)
    tracemalloc.start()
    try:
        for byte in frame(bytes(100_000))[:-1]:
            reader.put(bytes([byte]))
        assert tracemalloc.get_traced_memory()[0] < 150_000
    finally:
        tracemalloc.stop()
    assert len(reader.put(b"\x00")[0]) == 100_000


def test_what_waits_does_not_hold_what_came_with_it() -> None:
    reader = FrameReader(size_max=1 << 20)
    tracemalloc.start()
    try:
        reader.put(frame(bytes(500_000)) + frame(bytes(100_000))[:1_000])
        assert reader.held_bytes < 20_000
        assert tracemalloc.get_traced_memory()[0] < 30_000
    finally:
        tracemalloc.stop()


def test_room_grows_with_what_has_arrived() -> None:
    reader = FrameReader(size_max=1 << 30)
    reader.put((1 << 30).to_bytes(4, "big"))
    assert reader.held_bytes < 5_000
    while reader.held_bytes < 1 << 20:
        assert reader.room is not None
        before = reader.held_bytes
        assert reader.filled(len(reader.room)) == []
        assert before < reader.held_bytes <= 16 * before


def test_all_of_a_large_frame_is_allocated_once_a_part_of_it_has_come() -> None:
    allocated: list[int] = []

    def allocate(size: int) -> bytearray:
        allocated.append(size)
        return bytearray(size)

    content = bytes(range(250)) * 20_000
    reader = FrameReader(size_max=1 << 30, allocate=allocate)
    received = [
        bytes(whole) for piece in cut(frame(content), [1_000, 70_000, 2 << 20]) for whole in reader.put(piece)
    ]
    assert received == [content]
    assert allocated == [len(content)]
