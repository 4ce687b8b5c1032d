"""The sans-I/O channel as transcripts: bytes and responses in, requests and bytes out."""

from collections.abc import Callable, Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.apis import ApiTable
from penstock.base.errors import PeerError
from penstock.broker.channel import (
    READ_BYTES_PER_TURN_MAX,
    REQUESTS_PER_TURN_MAX,
    TURN_MS_MAX,
    KafkaChannel,
)
from penstock.broker.channel_interface import ChannelLimits
from penstock.broker.channel_states import TRANSITIONS, ChannelEvent, ChannelState
from penstock.broker.request import Request
from penstock.broker.request_memory import OWN_BYTES, RequestMemory
from penstock.core.access import AllowAll
from penstock.services.metrics import Metrics
from penstock.wire.headers import RequestHeader, frame_request
from penstock.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

MIB = 1 << 20
APIS = ApiTable(Metrics(), AllowAll())


def frame(number: int, body: bytes = b"") -> bytes:
    return b"".join(frame_request(RequestHeader(SaslHandshakeRequest.API_KEY, 0, number, "me"), [body]))


def frames(numbers: Iterable[int]) -> bytes:
    return b"".join(frame(number) for number in numbers)


def large(number: int, size: int) -> bytes:
    """A request of so many bytes, its length not counted."""
    return frame(number, bytes(size - len(frame(number)) + 4))


class Transcript:
    """A channel, driven as a connection drives it. Every event returns what is to be done.

    Requests whose numbers are in `later` are answered by `answer`, those in `blocking` as well, and no other starts
    before; those in `polls` block, too, and only wait; those in `news` are released by the next request; those in
    `silent` are answered with nothing. All others are answered at once. Each takes `request_ms`.
    """

    def __init__(
        self,
        *,
        in_flight_max: int = 5,
        request_bytes_max: int = 100 * MIB,
        memory: RequestMemory | None = None,
        later: Iterable[int] = (),
        blocking: Iterable[int] = (),
        polls: Iterable[int] = (),
        news: Iterable[int] = (),
        silent: Iterable[int] = (),
        request_ms: float = 0.0,
    ) -> None:
        self.memory = memory or RequestMemory(-1)
        limits = ChannelLimits(request_bytes_max, in_flight_max, unsent_bytes_max=1, elements_max=1)
        self.woken = 0
        self.channel = KafkaChannel(limits, self.memory, APIS)
        self.channel.memory.wake = self._wake
        self.later, self.blocking, self.polls = set(later), set(blocking), set(polls)
        self.news, self.silent = set(news), set(silent)
        self.request_ms = request_ms
        self.now_s = 100.0
        self.waiting: dict[int, Request] = {}
        self.actions: list[str] = []
        self._is_read = True

    def _wake(self) -> None:
        self.woken += 1

    def receive(self, data: bytes) -> list[str]:
        self.channel.received(data)
        return self.look()

    def fill(self, count: int) -> list[str]:
        """The network writes so many bytes to the request's own memory."""
        assert self.channel.room is not None
        self.channel.filled(count)
        return self.look()

    def answer(self, number: int) -> list[str]:
        self._respond(self.waiting.pop(number))
        return self.look()

    def turn(self) -> list[str]:
        self.channel.turn_came()
        return self.look()

    def reading_turn(self) -> list[str]:
        self.channel.reading_turn_came()
        return self.look()

    def congest(self, is_congested: bool) -> list[str]:
        self.channel.is_congested = is_congested
        return self.look()

    def look(self) -> list[str]:
        state = self.channel.state
        while (request := self.channel.next_request(self.now_s)) is not None:
            self._start(request)
        if self.channel.state is ChannelState.YIELDED and state is not ChannelState.YIELDED:
            self.actions.append("yield")
        self._send()
        if self.channel.may_read() is not self._is_read:
            self._is_read = not self._is_read
            self.actions.append("read" if self._is_read else "pause")
        actions, self.actions = self.actions, []
        return actions

    def _start(self, request: Request) -> None:
        number = request.correlation_id
        self.actions.append(f"start {number}")
        self.now_s += self.request_ms / 1000
        if number not in self.later | self.blocking | self.polls | self.news:
            self._respond(request)
            return
        if number in self.blocking | self.polls:
            self.channel.block(request)
        release: Callable[[], None] | None = None
        if number in self.news:

            def release() -> None:
                self.actions.append(f"release {number}")

        self.waiting[number] = request
        self.channel.defer(request, only_waits=number in self.polls, release=release)

    def _respond(self, request: Request) -> None:
        is_silent = request.correlation_id in self.silent
        self.channel.respond(request, None if is_silent else SaslHandshakeResponse())

    def _send(self) -> None:
        sent, channel = b"".join(self.channel.outgoing_chunks), self.channel
        assert len(sent) == channel.outgoing_bytes
        channel.outgoing_chunks, channel.outgoing_bytes = [], 0
        numbers, position = [], 0
        while position < len(sent):
            numbers.append(int.from_bytes(sent[position + 4 : position + 8], "big"))
            position += 4 + int.from_bytes(sent[position : position + 4], "big")
        if numbers:
            self.actions.append("send " + " ".join(map(str, numbers)))


# Order.


def test_requests_of_one_read_are_answered_with_one_write() -> None:
    assert Transcript().receive(frames([1, 2, 3])) == ["start 1", "start 2", "start 3", "send 1 2 3"]


def test_responses_are_sent_in_the_order_of_requests_whichever_is_there_first() -> None:
    story = Transcript(later=[1, 3])
    assert story.receive(frames([1, 2, 3])) == ["start 1", "start 2", "start 3"]
    assert story.answer(3) == []
    assert story.answer(1) == ["send 1 2 3"]


def test_a_request_without_a_response_does_not_delay_the_next_response() -> None:
    story = Transcript(later=[1, 2], silent=[2, 3])
    assert story.receive(frames([1, 2, 3, 4])) == ["start 1", "start 2", "start 3", "start 4"]
    assert story.answer(2) == []
    assert story.answer(1) == ["send 1 4"]
    assert story.channel.is_idle


def test_a_large_response_is_not_copied() -> None:
    story, large = Transcript(), bytes(MIB)
    story.channel.received(frame(1))
    request = story.channel.next_request(0.0)
    assert request is not None

    class Large:
        version = 0

        def write(self, _response: object) -> list[bytes]:
            return [b"start", large]

    request.served = Large()  # type: ignore[assignment]
    story.channel.respond(request, "response")
    assert story.channel.outgoing_chunks[1] is large
    assert story.channel.outgoing_bytes == 4 + 4 + 5 + MIB


# Holding back.


def test_a_blocking_request_holds_back_the_next_and_then_the_socket() -> None:
    story = Transcript(blocking=[1])
    assert story.receive(frame(1)) == ["start 1"]
    assert story.receive(frames([2, 3])) == ["pause"]
    assert story.answer(1) == ["start 2", "start 3", "send 1 2 3", "read"]


def test_no_more_requests_are_in_flight_than_the_limit() -> None:
    story = Transcript(in_flight_max=2, later=[1, 2, 3])
    assert story.receive(frames([1, 2])) == ["start 1", "start 2", "pause"]
    assert story.answer(1) == ["send 1", "read"]
    assert story.receive(frames([3, 4])) == ["start 3", "pause"]
    assert story.answer(3) == []
    assert story.answer(2) == ["start 4", "send 2 3 4", "read"]


def test_a_client_that_reads_no_responses_gets_no_request_started() -> None:
    story = Transcript()
    assert story.congest(True) == ["pause"]
    assert story.receive(frame(1)) == []
    assert story.congest(False) == ["start 1", "send 1", "read"]


def test_the_next_request_releases_a_response_that_waits_for_news() -> None:
    story = Transcript(news=[1])
    assert story.receive(frame(1)) == ["start 1"]
    assert story.receive(frame(2)) == ["release 1", "start 2"]
    assert story.answer(1) == ["send 1 2"]


def test_a_full_channel_is_read_on_if_the_next_request_releases_a_response() -> None:
    story = Transcript(in_flight_max=1, news=[1])
    assert story.receive(frame(1)) == ["start 1"], "and it is not paused"
    assert story.receive(frame(2)) == ["release 1", "pause"]
    assert story.answer(1) == ["start 2", "send 1 2", "read"]


# Budgets.


def test_the_requests_of_a_turn_are_limited() -> None:
    story, numbers = Transcript(), range(REQUESTS_PER_TURN_MAX + 3)
    first = story.receive(frames(numbers))
    assert first[:REQUESTS_PER_TURN_MAX] == [f"start {number}" for number in numbers[:-3]]
    assert first[REQUESTS_PER_TURN_MAX] == "yield"
    assert first[-1] == "pause"
    assert story.look() == [], "nothing else gives it a turn"
    assert story.turn() == [
        *(f"start {number}" for number in numbers[-3:]),
        "send " + " ".join(map(str, numbers[-3:])),
        "read",
    ]


def test_the_time_of_a_turn_is_limited() -> None:
    story = Transcript(request_ms=TURN_MS_MAX)
    assert story.receive(frames([1, 2, 3])) == ["start 1", "start 2", "yield", "send 1 2", "pause"]
    assert story.turn() == ["start 3", "send 3", "read"]


def test_a_large_request_is_read_a_part_per_turn() -> None:
    story, request = Transcript(), large(1, 3 * READ_BYTES_PER_TURN_MAX)
    assert story.receive(request[:100_000]) == []
    missing, turns = len(request) - 100_000, []
    while missing:
        room = story.channel.room
        assert room is not None
        assert len(room) <= READ_BYTES_PER_TURN_MAX
        missing -= len(room)
        if story.fill(len(room)) == ["pause"]:
            turns.append(story.reading_turn())
    assert turns == [["read"], ["read"]]
    assert story.channel.is_idle


# Draining and closing.


def test_a_drained_channel_sends_pending_responses_and_starts_no_requests() -> None:
    story = Transcript(blocking=[2], later=[1])
    assert story.receive(frames([1, 2, 3]) + frame(4)[:5]) == ["start 1", "start 2", "pause"]
    story.channel.drain()
    assert story.channel.owes_responses
    assert story.memory.held == sum(len(frame(number)) - 4 for number in (1, 2))
    assert story.answer(2) == []
    assert story.answer(1) == ["send 1 2"]
    assert not story.channel.owes_responses
    assert story.channel.state is ChannelState.DRAINING


def test_a_request_that_was_kept_for_its_turn_leaves_nothing_when_it_is_discarded() -> None:
    story = Transcript()
    story.channel.received(frame(1))
    request = story.channel.next_request(0.0)
    assert request is not None
    story.channel.block(request)
    story.channel.keep(request)
    assert story.memory.held == len(frame(1)) - 4
    assert not story.channel.is_idle
    story.channel.close()
    story.channel.discard(request)
    assert story.memory.held == 0


def test_a_response_that_comes_after_the_end_gives_back_its_memory_only() -> None:
    story = Transcript(later=[1])
    story.receive(frame(1))
    story.channel.close()
    story.channel.memory.leave()
    assert story.memory.held == len(frame(1)) - 4
    story._respond(story.waiting.pop(1))
    assert story.memory.held == 0
    assert story.channel.next_request(0.0) is None


def test_every_state_can_be_closed_and_no_state_follows() -> None:
    for events in TRANSITIONS.values():
        assert events[ChannelEvent.CLOSE] is ChannelState.CLOSED
    assert set(TRANSITIONS[ChannelState.CLOSED].values()) == {ChannelState.CLOSED}
    assert set(TRANSITIONS[ChannelState.DRAINING].values()) == {ChannelState.DRAINING, ChannelState.CLOSED}
    assert set(TRANSITIONS) == set(ChannelState)


# What peers get wrong.


@pytest.mark.parametrize(
    "garbage",
    [
        b"\xff\xff\xff\xff",
        b"\x80\x00\x00\x00",
        b"\x7f\xff\xff\xff",
        b"\x00\x00\x00\x65" + bytes(0x65),
        b"\x00\x00\x00\x02\x00\x03",
        b"\x00\x00\x00\x00",
        b"".join(frame_request(RequestHeader(999, 0, 2, "me"), [])),
        b"".join(frame_request(RequestHeader(SaslHandshakeRequest.API_KEY, 99, 2, "me"), [])),
    ],
)
def test_requests_before_garbage_are_started_and_the_garbage_is_refused(garbage: bytes) -> None:
    story = Transcript(request_bytes_max=100)
    with pytest.raises(PeerError):
        story.receive(frame(1) + garbage)
    assert story.actions == ["start 1"]
    story.channel.close()
    assert story.memory.held == 0


# Memory.


def test_a_request_in_pieces_has_no_memory_before_it_is_granted() -> None:
    memory = RequestMemory(MIB)
    other = memory.join(lambda: None)
    assert other.ask(600_000)
    story = Transcript(memory=memory)
    request = large(1, 300_000)
    assert story.receive(request[:50_000]) == ["pause"]
    assert story.channel.memory.asked
    assert story.channel.room is None
    other.give_back(600_000)
    assert story.woken == 1
    story.channel.got_memory()
    assert story.look() == ["read"]
    assert memory.held == 300_000
    while story.channel.room is not None:
        actions = story.fill(min(len(story.channel.room), 300_000))
        if story.channel.awaits_reading_turn:
            actions = story.reading_turn()
    assert actions[:2] == ["start 1", "send 1"]
    assert memory.held == 0


def test_bytes_that_arrive_while_a_request_waits_for_memory_are_kept() -> None:
    memory = RequestMemory(MIB)
    other = memory.join(lambda: None)
    assert other.ask(600_000)
    story = Transcript(memory=memory)
    request = large(1, 200_000)
    assert story.receive(request[:60_000]) == ["pause"]
    assert story.receive(request[60_000:]) == ["start 1", "send 1"], "the rest was under way"
    other.give_back(600_000)
    story.channel.got_memory()
    assert story.look() == ["read"]
    assert memory.held == 0


def test_a_small_request_in_pieces_needs_no_grant() -> None:
    memory = RequestMemory(MIB)
    story = Transcript(memory=memory)
    request = large(1, OWN_BYTES - 10)
    assert memory.join(lambda: None).ask(600_000)
    assert story.receive(request[:100]) == []
    assert story.receive(request[100:]) == ["start 1", "send 1"]
    assert memory.held == 600_000


def test_requests_behind_a_long_poll_are_the_clients_own_delay_and_those_behind_other_requests_are_not() -> (
    None
):
    polling, writing = Transcript(polls=[1]), Transcript(blocking=[1])
    for story in (polling, writing):
        story.receive(frames([1, 2]))
    assert polling.channel.memory.holds_back
    assert not writing.channel.memory.holds_back


def test_a_large_request_of_an_unknown_api_gives_back_its_memory() -> None:
    story = Transcript(memory=RequestMemory(MIB))
    request = b"".join(frame_request(RequestHeader(999, 0, 1, "me"), [bytes(50_000)]))
    assert story.receive(request[:20_000]) == []
    assert story.memory.held == len(request) - 4
    with pytest.raises(PeerError, match="999"):
        story.receive(request[20_000:])
    story.channel.close()
    assert story.memory.held == 0


def test_a_deferred_request_counts_until_it_is_answered() -> None:
    story = Transcript(later=[1])
    story.receive(frame(1) + frame(2)[:7])
    assert story.memory.held >= len(frame(1)) - 4 + 7
    story.answer(1)
    story.receive(frame(2)[7:])
    assert story.memory.held == 0


# Whatever happens.


@settings(max_examples=300, deadline=None, database=None)
@given(st.data())
def test_any_sequence_of_events_answers_all_requests_in_order_and_frees_all_memory(
    data: st.DataObject,
) -> None:
    count = data.draw(st.integers(1, 12))
    kinds = data.draw(st.lists(st.sampled_from("alblpn"), min_size=count, max_size=count))
    of = {kind: [number for number, each in enumerate(kinds) if each == kind] for kind in "albpn"}
    memory = RequestMemory(data.draw(st.sampled_from([-1, 64 << 10, MIB])))
    story = Transcript(
        in_flight_max=data.draw(st.integers(1, 4)),
        memory=memory,
        later=of["l"],
        blocking=of["b"],
        polls=of["p"],
        news=of["n"],
        request_ms=data.draw(st.sampled_from([0.0, 0.2])),
    )
    stream = b"".join(
        frame(number, bytes(data.draw(st.sampled_from([0, 9, 5_000])))) for number in range(count)
    )
    actions: list[str] = []
    while stream or story.waiting or story.channel.state is ChannelState.YIELDED:
        actions += story.turn() if story.channel.state is ChannelState.YIELDED else []
        if story.waiting and (not stream or not story._is_read or data.draw(st.booleans())):
            actions += story.answer(data.draw(st.sampled_from(sorted(story.waiting))))
        elif stream and story._is_read:
            size = data.draw(st.integers(1, len(stream)))
            room = story.channel.room
            if room is None:
                actions += story.receive(stream[:size])
            else:
                size = min(size, len(room))
                room[:size] = stream[:size]
                actions += story.fill(size)
            stream = stream[size:]
    assert [each for each in actions if each.startswith("start")] == [f"start {n}" for n in range(count)]
    sent = [number for each in actions if each.startswith("send") for number in each.split()[1:]]
    assert sent == [str(number) for number in range(count)]
    assert story.channel.is_idle
    assert memory.held == 0
