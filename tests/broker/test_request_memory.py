"""Request memory: never above the limit, always enough for small requests, and taken from requests without progress."""

from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from penstock.broker.request_memory import (
    OWN_BYTES,
    PACE_SEEN_S,
    READ_BYTES_MIN,
    SMALL_BYTES_MAX,
    Holder,
    RequestMemory,
)

MIB = 1 << 20
LIMIT = 512 * MIB
TIMEOUT_S = 10.0


class Desk:
    """Memory, its holders, and who was woken."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.memory = RequestMemory(limit, progress_timeout_s=TIMEOUT_S)
        self.woken: list[Holder] = []

    def join(self) -> Holder:
        holder: Holder

        def wake() -> None:
            self.woken.append(holder)

        holder = self.memory.join(wake)
        return holder

    def large(self, size: int = 85 * MIB) -> Holder:
        """A connection with a large request that has its memory."""
        holder = self.join()
        assert holder.ask(size)
        return holder


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_a_small_request_that_waits_behind_a_large_one_is_served_with_it(desk: Desk):
    holders = [desk.join() for _ in range(3)]
    large_max, small = desk.memory.size_max, SMALL_BYTES_MAX
    assert large_max is not None
    assert holders[0].ask(large_max)
    assert not holders[1].ask(large_max)
    while (taken := desk.join()).ask(small):  # until small requests have their share
        pass
    holders[0].give_back(large_max)
    assert desk.woken == [holders[1], taken]


def test_a_large_request_that_does_not_fit_waits_until_another_is_done(desk: Desk):
    others = [desk.large() for _ in range(3)]
    waits = desk.join()
    assert not waits.ask(85 * MIB)
    assert not waits.arriving
    others[1].give_back(85 * MIB)
    assert desk.woken == [waits]
    assert waits.arriving == 85 * MIB


def test_large_requests_get_their_memory_in_the_order_in_which_they_asked(desk: Desk):
    first = desk.large(300 * MIB)
    waiting = [desk.join() for _ in range(3)]
    for holder, size in zip(waiting, (200 * MIB, 10 * MIB, 20 * MIB), strict=True):
        assert not holder.ask(size), "the second would fit, but the first came before it"
    first.give_back(300 * MIB)
    assert desk.woken == waiting


def test_small_requests_have_room_however_many_large_ones_there_are(desk: Desk):
    waits_from = 0
    while desk.join().ask(85 * MIB):
        waits_from += 1
    assert waits_from == 3
    for _ in range(50):
        assert desk.join().ask(SMALL_BYTES_MAX)


def test_small_requests_leave_the_room_that_a_large_one_waits_for(desk: Desk):
    small = [desk.join() for _ in range(250)]
    granted = [holder for holder in small if holder.ask(SMALL_BYTES_MAX)]
    large = desk.join()
    assert not large.ask(300 * MIB)
    while not large.arriving:  # those that are done are followed by as many others
        granted.pop().give_back(SMALL_BYTES_MAX)
        newcomer = desk.join()
        if newcomer.ask(SMALL_BYTES_MAX):
            granted.append(newcomer)
    assert desk.woken[0] is large


def test_each_connection_has_reserved_memory_when_all_else_is_used(desk: Desk):
    newcomer = desk.join()
    while desk.join().ask(85 * MIB):
        pass
    while desk.join().ask(SMALL_BYTES_MAX):
        pass
    while desk.join().ask(OWN_BYTES):
        pass
    assert newcomer.may_be_read
    assert newcomer.room(1 << 16) >= OWN_BYTES
    assert newcomer.keep_own(OWN_BYTES)
    assert not newcomer.keep_own(1)
    assert not newcomer.may_be_read
    assert not newcomer.ask_to_read()


def test_memory_lent_for_reading_is_returned_when_it_is_no_longer_used():
    desk = Desk(limit=MIB)
    one, other = desk.join(), desk.join()
    assert one.ask(600_000)
    while one.room(1 << 16) > READ_BYTES_MIN:
        one.keep(one.room(1 << 16))
    assert not other.ask(1 << 16)
    one.keep(-one._kept)
    assert desk.woken == [other]


def test_a_closed_connection_frees_its_memory_and_its_place_in_the_queue(desk: Desk):
    goes, waits, stays = desk.large(300 * MIB), desk.join(), desk.join()
    assert not waits.ask(300 * MIB)
    assert not stays.ask(200 * MIB)
    waits.leave()
    goes.leave()
    assert desk.woken == [stays]
    assert desk.memory.held == 200 * MIB


def test_a_request_in_progress_keeps_its_memory_after_its_connection_is_closed(desk: Desk):
    holder = desk.large()
    holder.arriving = 0  # all has come
    holder.keep(10_000)
    holder.leave()
    assert desk.memory.held == 85 * MIB + 10_000
    holder.give_back(85 * MIB)
    holder.keep(-10_000)
    assert desk.memory.held == 0


def test_without_a_limit_nothing_waits():
    desk = Desk(limit=-1)
    assert desk.join().ask(1 << 40)
    assert desk.join().room(1 << 16) == 1 << 16
    assert desk.memory.size_max is None


# Progress.


def at_a_pace(desk: Desk, holder: Holder, bytes_per_s: float, *, seconds: float) -> Callable[[], bool]:
    """Whether it is ended while that many bytes come every second."""

    def story() -> bool:
        now = 100.0
        while now < 100.0 + seconds:
            if holder in desk.memory.without_progress(now):
                return True
            now += 0.25
            holder.arrived = min(holder.arriving, holder.arrived + int(bytes_per_s / 4))
        return False

    return story


def test_a_request_without_progress_is_ended_once_others_wait(desk: Desk):
    slow = desk.large()
    slow.arrived = 84 * MIB
    trickle = at_a_pace(desk, slow, 4, seconds=3 * PACE_SEEN_S)
    assert not trickle(), "no other request waits"
    while desk.join().ask(85 * MIB):
        pass
    assert trickle()


def test_a_request_that_comes_fast_enough_is_not_ended_though_others_wait(desk: Desk):
    steady = desk.large()
    while desk.join().ask(85 * MIB):
        pass
    assert not at_a_pace(desk, steady, 1.2 * 85 * MIB / TIMEOUT_S, seconds=8)()


def test_a_request_that_comes_too_slowly_for_its_size_is_ended(desk: Desk):
    slow = desk.large()
    while desk.join().ask(85 * MIB):
        pass
    assert at_a_pace(desk, slow, 0.5 * 85 * MIB / TIMEOUT_S, seconds=8)()


def test_a_request_that_the_broker_does_not_read_is_not_ended(desk: Desk):
    excused = desk.large()
    excused.is_excused = True
    while desk.join().ask(85 * MIB):
        pass
    assert not at_a_pace(desk, excused, 0, seconds=60)()


def test_requests_that_their_own_connection_holds_back_are_ended_after_the_timeout(desk: Desk):
    polls = desk.large()
    polls.arriving = 0  # it is complete, and behind a long poll
    polls.holds_back = True
    while desk.join().ask(85 * MIB):
        pass
    assert not at_a_pace(desk, polls, 0, seconds=TIMEOUT_S)()
    assert at_a_pace(desk, polls, 0, seconds=TIMEOUT_S + 1)()


def test_requests_that_wait_for_memory_are_not_closed_for_lack_of_progress(desk: Desk):
    while desk.join().ask(85 * MIB):
        pass
    (waits,) = desk.memory._large_waiting
    assert not at_a_pace(desk, waits, 0, seconds=60)()


# Whatever happens.


class Connection:
    """What a connection does with its holder, and what it really has."""

    def __init__(self, desk: Desk) -> None:
        self.holder = desk.join()
        self.kept = 0
        self.granted: list[int] = []  # complete
        self.had_own = bool(self.holder.own)
        self.is_read = True  # as it was decided when it was last looked at
        self.is_gone = False

    @property
    def bytes(self) -> int:
        return self.kept + sum(self.granted) + self.holder.arriving


class AnyStory(RuleBasedStateMachine):
    """Connections come, read, ask, finish and go in any order."""

    connections = Bundle("connections")

    @initialize(limit=st.sampled_from([64 << 10, MIB, 20 * MIB]))
    def open(self, limit: int) -> None:
        self.limit = limit
        self.desk = Desk(limit)
        self.all: list[Connection] = []

    @rule(target=connections)
    def come(self) -> Connection:
        connection = Connection(self.desk)
        self.all.append(connection)
        return connection

    @rule(connection=connections, part=st.floats(0, 1))
    def read(self, connection: Connection, part: float) -> None:
        holder = connection.holder
        if (
            connection.is_gone
            or holder.asked
            or holder.arriving
            or not (connection.is_read or holder.may_be_read)
        ):
            return
        count = int(part * holder.room(1 << 16))
        holder.keep(count)
        connection.kept += count
        connection.is_read = holder.may_be_read or holder.ask_to_read()

    @rule(connection=connections, part=st.floats(0, 1))
    def serve(self, connection: Connection, part: float) -> None:
        count = int(part * connection.kept)
        connection.holder.keep(-count)
        connection.kept -= count

    @rule(connection=connections, part=st.floats(0, 1))
    def ask(self, connection: Connection, part: float) -> None:
        holder, size_max = connection.holder, self.desk.memory.size_max
        assert size_max is not None
        if not connection.is_gone and not holder.asked and not holder.arriving:
            holder.ask(1 + int(part * (size_max - 1)))

    @rule(connection=connections)
    def complete(self, connection: Connection) -> None:
        if connection.holder.arriving:
            connection.granted.append(connection.holder.arriving)
            connection.holder.arriving = 0

    @rule(connection=connections)
    def finish(self, connection: Connection) -> None:
        if connection.granted:
            connection.holder.give_back(connection.granted.pop())

    @rule(connection=connections)
    def go(self, connection: Connection) -> None:
        if not connection.is_gone:
            connection.is_gone = True
            connection.holder.leave()

    @rule(connection=consumes(connections))
    def finish_all(self, connection: Connection) -> None:
        self.go(connection)
        while connection.granted:
            self.finish(connection)
        self.serve(connection, 1.0)
        self.all.remove(connection)

    @invariant()
    def the_limit_is_a_limit(self) -> None:
        assert self.desk.memory.held == sum(connection.bytes for connection in self.all)
        without_own = sum(not connection.had_own for connection in self.all)
        assert self.desk.memory.held <= self.limit + READ_BYTES_MIN * without_own

    @invariant()
    def no_request_waits_for_memory_that_is_free(self) -> None:
        memory = self.desk.memory
        for waiting in (memory._small_waiting, memory._large_waiting):
            assert not waiting or not memory._fits(waiting[0].asked)

    def teardown(self) -> None:
        for connection in list(self.all):
            self.finish_all(connection)
        assert self.desk.memory.held == 0
        assert self.desk.memory.room == self.limit
        assert self.desk.memory.waiting_count == 0


TestAnyStory = AnyStory.TestCase
TestAnyStory.settings = settings(max_examples=200, stateful_step_count=40, deadline=None, database=None)
