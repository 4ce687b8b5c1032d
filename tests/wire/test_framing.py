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


def feed(reader: FrameReader, piece: bytes) -> list[memoryview]:
    """The frames that are complete with a piece."""
    reader.put(piece)
    return reader.take_all()


def filled(reader: FrameReader, count: int) -> list[memoryview]:
    reader.filled(count)
    return reader.take_all()


def cut(stream: bytes, positions: list[int]) -> list[bytes]:
    edges = [0, *sorted(position % (len(stream) + 1) for position in positions), len(stream)]
    return [stream[start:end] for start, end in pairwise(edges)]


@settings(max_examples=400, deadline=None, database=None)
@given(st.lists(st.binary(max_size=30), max_size=6), st.lists(st.integers(0, 300), max_size=12))
def test_the_same_frames_come_out_however_the_stream_is_cut(contents: list[bytes], cuts: list[int]) -> None:
    reader = FrameReader(size_max=30)
    received: list[bytes] = []
    for piece in cut(b"".join(map(frame, contents)), cuts):
        received += map(bytes, feed(reader, piece))
        assert reader.held <= 34
    assert received == contents
    assert reader.held == 0


@settings(max_examples=400, deadline=None, database=None)
@given(st.lists(st.binary(max_size=40), max_size=10))
def test_any_stream_gives_frames_or_is_refused(pieces: list[bytes]) -> None:
    reader = FrameReader(size_max=20)
    received: list[bytes] = []
    try:
        for piece in pieces:
            received += map(bytes, feed(reader, piece))
    except PeerError:
        return
    stream = b"".join(pieces)
    taken = b"".join(map(frame, received))
    assert stream.startswith(taken)
    assert bool(len(stream) - len(taken)) == bool(reader.held)
    assert reader.held <= 24


def test_one_byte_at_a_time() -> None:
    reader = FrameReader(size_max=100)
    received = [content for byte in frame(b"slow") + frame(b"") for content in feed(reader, bytes([byte]))]
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
    assert [bytes(content) for piece in pieces for content in feed(reader, piece)] == contents
    assert reader.held == 0


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
    assert reader.held == 0


def receive(reader: FrameReader, piece: bytes) -> Iterator[memoryview]:
    """As a connection does: written to the room where there is some, else fed."""
    while piece:
        if reader.room is None:
            yield from feed(reader, piece)
            return
        count = min(len(reader.room), len(piece))
        reader.room[:count] = piece[:count]
        yield from filled(reader, count)
        piece = piece[count:]


def test_the_rest_of_a_large_frame_is_written_where_it_stays() -> None:
    content = bytes(range(250)) * 2_000
    reader = FrameReader(size_max=1 << 20)
    assert feed(reader, frame(content)[:50_000]) == []
    room = reader.room
    assert room is not None
    assert len(room) == 4 + len(content) - 50_000
    room[:] = frame(content)[50_000:]
    (received,) = filled(reader, len(room))
    assert received == content
    assert received.obj is room.obj


def test_a_whole_frame_is_not_copied() -> None:
    data = frame(b"whole")
    (content,) = feed(FrameReader(size_max=100), data)
    assert content == b"whole"
    assert content.obj is data


def test_frames_stay_as_they_are_when_more_arrives() -> None:
    reader = FrameReader(size_max=100)
    feed(reader, frame(b"first")[:6])
    (first,) = feed(reader, frame(b"first")[6:] + frame(b"second")[:5])
    (second,) = feed(reader, frame(b"second")[5:])
    assert (first, second) == (b"first", b"second")


@pytest.mark.parametrize(
    "length", [b"\xff\xff\xff\xff", b"\x80\x00\x00\x00", b"\x7f\xff\xff\xff", b"\x00\x00\x00\x65"]
)
@pytest.mark.parametrize("split", [0, 1, 3])
@pytest.mark.parametrize("before", [b"", frame(b"good")])
def test_a_length_that_is_negative_or_too_large_is_refused(before: bytes, split: int, length: bytes) -> None:
    reader = FrameReader(size_max=100)
    feed(reader, before + length[:split])
    with pytest.raises(PeerError, match="at most 100"):
        feed(reader, length[split:])


def test_a_large_announcement_takes_no_memory() -> None:
    reader = FrameReader(size_max=2**31 - 1)
    tracemalloc.start()
    try:
        feed(reader, b"\x7f\xff\xff\xff" + b"a little")
        assert tracemalloc.get_traced_memory()[1] < 10_000
    finally:
        tracemalloc.stop()


def test_what_waits_is_at_most_the_frame_however_small_the_pieces() -> None:
    reader = FrameReader(size_max=100_000)
    tracemalloc.start()
    try:
        for byte in frame(bytes(100_000))[:-1]:
            feed(reader, bytes([byte]))
        assert tracemalloc.get_traced_memory()[0] < 150_000
    finally:
        tracemalloc.stop()
    assert len(feed(reader, b"\x00")[0]) == 100_000


def test_what_waits_does_not_hold_what_came_with_it() -> None:
    reader = FrameReader(size_max=1 << 20)
    tracemalloc.start()
    try:
        feed(reader, frame(bytes(500_000)) + frame(bytes(100_000))[:1_000])
        assert reader.held < 20_000
        assert tracemalloc.get_traced_memory()[0] < 30_000
    finally:
        tracemalloc.stop()


def test_room_grows_with_what_has_arrived() -> None:
    reader = FrameReader(size_max=1 << 30)
    feed(reader, (1 << 30).to_bytes(4, "big"))
    assert reader.held < 5_000
    while reader.held < 1 << 20:
        assert reader.room is not None
        before = reader.held
        assert filled(reader, len(reader.room)) == []
        assert before < reader.held <= 16 * before


def test_frames_are_cut_only_as_they_are_taken() -> None:
    reader = FrameReader(size_max=100)
    reader.put(frame(b"good") + b"\xff\xff\xff\xff")
    assert reader.take() == b"good"
    with pytest.raises(PeerError, match="at most 100"):
        reader.take()


def test_a_frame_that_has_only_begun_is_announced_and_has_no_memory_before_it_is_given_some() -> None:
    reader = FrameReader(size_max=1 << 20)
    reader.put(frame(b"whole") + frame(bytes(1 << 20))[:1_000])
    assert reader.take() == b"whole"
    assert reader.take() is None
    assert (reader.announced, reader.room, reader.unread_bytes) == (1 << 20, None, 1_000)
    reader.begin()
    assert (reader.announced, reader.unread_bytes) == (0, 0)
    assert (reader.begun_bytes, reader.missing_bytes) == (1 << 20, (1 << 20) - 996)
    assert reader.room is not None


def test_what_comes_while_a_frame_waits_for_its_memory_is_kept_with_it() -> None:
    reader = FrameReader(size_max=100)
    reader.put(frame(b"content")[:6])
    assert reader.take() is None
    assert reader.announced == 7
    reader.put(frame(b"content")[6:])
    assert reader.take() == b"content"
    assert reader.announced == 0
    assert reader.held == 0


def test_all_of_a_large_frame_is_allocated_once_a_part_of_it_has_come() -> None:
    allocated: list[int] = []

    def allocate(size: int) -> bytearray:
        allocated.append(size)
        return bytearray(size)

    content = bytes(range(250)) * 20_000
    reader = FrameReader(size_max=1 << 30, allocate=allocate)
    received = [
        bytes(whole)
        for piece in cut(frame(content), [1_000, 70_000, 2 << 20])
        for whole in feed(reader, piece)
    ]
    assert received == [content]
    assert allocated == [len(content)]
