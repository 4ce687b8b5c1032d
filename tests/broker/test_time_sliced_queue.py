"""Low-priority requests get at most a few milliseconds of each turn of the event loop; shown on a clock that advances
whenever it is read.
"""

import asyncio
import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock.base.errors import Refusal
from penstock.broker.connection import ServerConnection
from penstock.broker.time_sliced_queue import TimeSlicedQueue
from penstock.schema.codec import encode
from penstock.wire.headers import RequestHeader, frame_request
from penstock.wire.messages.api_versions import ApiVersionsRequest
from penstock.wire.messages.heartbeat import HeartbeatRequest
from tests.broker.controlled import ControlledBroker

SLICE_MS = 5
MEMBERS = 60


class SteppedLoop:
    """A loop that is turned by hand, with a clock that stands still meanwhile."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._soon: list[Callable[[], object]] = []

    def time(self) -> float:
        return self.now_s

    def call_soon(self, callback: Callable[[], object]) -> None:
        self._soon.append(callback)

    def turn(self) -> None:
        soon, self._soon = self._soon, []
        for callback in soon:
            callback()

    @property
    def is_idle(self) -> bool:
        return not self._soon


class Line:
    """Turns on such a loop, and what was done so far."""

    def __init__(self) -> None:
        self.loop = SteppedLoop()
        self.turns = TimeSlicedQueue(self.loop, slice_ms=SLICE_MS)  # type: ignore[arg-type]
        self.done: list[Any] = []

    def work(self, name: object, *, ms: float) -> Callable[[], None]:
        def do() -> None:
            self.loop.now_s += ms / 1000
            self.done.append(name)

        return do


@pytest.fixture
def line() -> Line:
    return Line()


def test_a_turn_of_the_loop_exceeds_its_limit_by_at_most_one_request(line: Line) -> None:
    for number in range(10):
        line.turns.wait(line.work(number, ms=2))
    done = []
    while not line.loop.is_idle:
        line.loop.turn()
        done.append(len(line.done))
    assert done == [3, 6, 9, 10]
    assert line.done == list(range(10))


def test_no_work_is_done_before_the_next_turn_of_the_loop(line: Line) -> None:
    line.turns.wait(line.work("only", ms=0))
    assert (len(line.turns), line.done) == (1, [])
    line.loop.turn()
    assert (len(line.turns), line.done) == (0, ["only"])
    assert line.loop.is_idle


def test_work_that_follows_from_work_goes_to_the_end_of_the_line(line: Line) -> None:
    line.turns.wait(lambda: line.turns.wait(line.work("follows", ms=SLICE_MS)))
    line.turns.wait(line.work("second", ms=SLICE_MS))
    line.loop.turn()
    assert line.done == ["second"]
    line.loop.turn()
    assert line.done == ["second", "follows"]


def test_work_that_fails_does_not_stop_other_work(line: Line) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    line.turns.wait(fail)
    line.turns.wait(line.work("next", ms=0))
    with pytest.raises(ZeroDivisionError):
        line.loop.turn()
    line.loop.turn()
    assert line.done == ["next"]
    assert line.loop.is_idle


# In a broker.


class Wire(asyncio.Transport):
    """The other end of a connection of the broker: keeps what it is sent."""

    def __init__(self, connection: ServerConnection) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.connection = connection
        self.sent = bytearray()
        connection.connection_made(self)

    def write(self, data: Any) -> None:
        self.sent += data

    def writelines(self, list_of_data: Any) -> None:
        for data in list_of_data:
            self.write(data)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def abort(self) -> None:
        self.connection.connection_lost(None)

    close = abort

    def answered(self) -> list[int]:
        """The correlation ids of the answers, in order."""
        found, position = [], 0
        while position < len(self.sent):
            size = int.from_bytes(self.sent[position : position + 4], "big")
            found.append(int.from_bytes(self.sent[position + 4 : position + 8], "big"))
            position += 4 + size
        return found


@pytest.fixture
def controlled() -> Iterator[ControlledBroker]:
    with ControlledBroker(settings={"penstock.loop.slice.ms": SLICE_MS}) as broker:
        yield broker


def wires(controlled: ControlledBroker, count: int) -> list[Wire]:
    connections = controlled.broker._connections
    assert connections is not None
    return [Wire(connections.make("PLAINTEXT")) for _ in range(count)]


def frame(request: Any, version: int, correlation_id: int) -> bytes:
    header = RequestHeader(request.API_KEY, version, correlation_id, "member")
    return b"".join(frame_request(header, encode(request, version)))


def heartbeat(correlation_id: int) -> bytes:
    return frame(HeartbeatRequest(group_id="group", generation_id=1, member_id="m"), 4, correlation_id)


def ping(correlation_id: int) -> bytes:
    return frame(ApiVersionsRequest(), 0, correlation_id)


def count_looks_at_the_clock(controlled: ControlledBroker) -> None:
    """From now on the clock advances by 1 ms with every read, and never otherwise."""
    looks = itertools.count()
    controlled._shifted.time = lambda: next(looks) / 1000


def test_the_requests_of_many_members_leave_room_for_others_in_every_turn_of_the_loop(
    controlled: ControlledBroker,
) -> None:
    async def story() -> None:
        members = wires(controlled, MEMBERS)
        (other,) = wires(controlled, 1)
        count_looks_at_the_clock(controlled)
        for member in members:
            member.connection.data_received(heartbeat(1))
        assert not any(member.sent for member in members)
        answered = 0
        for turn in itertools.count(1):
            other.connection.data_received(ping(turn))
            assert len(other.answered()) == turn
            await asyncio.sleep(0)
            before, answered = answered, sum(bool(member.sent) for member in members)
            assert 1 <= answered - before <= SLICE_MS
            if answered == MEMBERS:
                break
        for wire in (*members, other):
            wire.abort()

    controlled.run(story)


def test_responses_keep_their_order_between_low_priority_requests_and_others(
    controlled: ControlledBroker,
) -> None:
    async def story() -> None:
        (wire,) = wires(controlled, 1)
        wire.connection.data_received(
            ping(1) + heartbeat(2) + ping(3) + heartbeat(4) + heartbeat(5) + ping(6)
        )
        while len(wire.answered()) < 6:
            await asyncio.sleep(0)
        assert wire.answered() == [1, 2, 3, 4, 5, 6]
        wire.abort()

    controlled.run(story)


def test_waiting_low_priority_requests_are_counted_and_dropped_with_their_connection(
    controlled: ControlledBroker,
) -> None:
    async def story() -> None:
        connections = controlled.broker._connections
        assert connections is not None
        gone, stays = wires(controlled, 2)
        for wire in (gone, stays):
            wire.connection.data_received(heartbeat(1))
            assert not wire.connection.is_idle
        assert connections._memory.held == 2 * (len(heartbeat(1)) - 4)
        gone.abort()
        while not stays.sent:
            await asyncio.sleep(0)
        assert connections._memory.held == 0
        assert not gone.sent
        assert stays.connection.is_idle
        stays.abort()

    controlled.run(story)


def test_a_client_that_goes_before_its_shard_is_asked_for_leaves_nothing_half_begun(
    controlled: ControlledBroker,
) -> None:
    async def story() -> None:
        groups = controlled.broker.services.coordinators.groups
        assert not isinstance(await groups.topic(), Refusal)
        assert len(groups._tasks)  # a broker loads what it begins to lead
        await groups._tasks.finish()
        for loaded in list(groups._loaded_shards.values()):
            loaded.unload()
        (wire,) = wires(controlled, 1)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            wire.connection.data_received(heartbeat(1))
            asyncio.get_running_loop().call_soon(wire.abort)  # in the turn in which the request is begun
            for _ in range(5):
                await asyncio.sleep(0)
        assert [str(warning.message) for warning in seen] == []
        assert not groups._loads_in_progress  # so it was not asked

    controlled.run(story)


def test_a_stop_does_not_wait_for_requests_whose_turn_has_not_come(controlled: ControlledBroker) -> None:
    async def story() -> None:
        (wire,) = wires(controlled, 1)
        wire.connection.data_received(heartbeat(1))
        await wire.connection.drain()
        assert not wire.sent

    controlled.run(story)


def test_garbage_in_a_request_that_takes_turns_costs_its_connection(controlled: ControlledBroker) -> None:
    async def story() -> None:
        (wire,) = wires(controlled, 1)
        broken = b"".join(frame_request(RequestHeader(HeartbeatRequest.API_KEY, 4, 1, "x"), [b"\x80"]))
        refused = controlled.broker.services.node.refused_connections
        before = refused.value
        wire.connection.data_received(broken)
        while refused.value == before:
            await asyncio.sleep(0)
        assert not wire.sent

    controlled.run(story)
