"""The ledger of the members' stories sees what must not happen."""

from typing import Any

import pytest

from tests.foreign.members.ledger import Ledger


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


def enter(ledger: Ledger, member: str, what: str, at_ns: int, **facts: Any) -> None:
    ledger.enter(member, {"what": what, "at_ns": at_ns, **facts})


def read(ledger: Ledger, member: str, at_ns: int, *, offset: int = 0) -> None:
    enter(ledger, member, "read", at_ns, partition=0, offset=offset, value=str(offset))


def test_a_partition_that_goes_from_hand_to_hand_is_right(ledger: Ledger) -> None:
    enter(ledger, "one", "assigned", 1, partitions=[0])
    read(ledger, "one", 2)
    enter(ledger, "one", "committed", 3, offsets={"0": 1})
    enter(ledger, "one", "revoked", 4, partitions=[0])
    enter(ledger, "two", "assigned", 5, partitions=[0])
    read(ledger, "two", 6, offset=1)
    assert ledger.faults() == []
    assert ledger.values() == {"0", "1"}
    assert ledger.given_up("one", from_ns=1, until_ns=9) == [0]


def test_a_partition_with_two_owners_is_a_fault_in_either_order_of_the_entries(ledger: Ledger) -> None:
    enter(ledger, "two", "assigned", 5, partitions=[0])
    enter(ledger, "one", "assigned", 1, partitions=[0])
    enter(ledger, "one", "revoked", 6, partitions=[0])
    assert ledger.faults() == ["one still had partition 0 when two got it"]


def test_a_record_read_from_a_partition_that_the_member_does_not_own_is_a_fault(ledger: Ledger) -> None:
    enter(ledger, "one", "assigned", 1, partitions=[0])
    read(ledger, "two", 2)
    assert ledger.faults() == ["two read 0@0 and did not own the partition"]


def hand_over(ledger: Ledger) -> None:
    enter(ledger, "one", "assigned", 1, partitions=[0])
    read(ledger, "one", 2)
    enter(ledger, "one", "revoked", 4, partitions=[0])
    enter(ledger, "two", "assigned", 5, partitions=[0])
    read(ledger, "two", 6)


def test_a_record_read_twice_without_a_death_is_seen(ledger: Ledger) -> None:
    hand_over(ledger)
    assert ledger.faults() == ["two read 0@0 again after one, who lived on"]


def test_a_record_that_a_killed_member_had_not_committed_may_be_read_again(ledger: Ledger) -> None:
    ledger.enter_killed("one", 3)
    hand_over(ledger)
    assert ledger.faults() == []


def test_a_record_that_could_not_be_committed_to_a_killed_broker_may_be_read_again(ledger: Ledger) -> None:
    ledger.enter_broker_killed(1)
    hand_over(ledger)
    assert ledger.faults() == []


def test_a_committed_record_read_again_is_a_fault_even_after_member_and_broker_died(ledger: Ledger) -> None:
    ledger.enter_killed("one", 3)
    ledger.enter_broker_killed(3)
    enter(ledger, "one", "committed", 3, offsets={"0": 1})
    hand_over(ledger)
    assert ledger.faults() == ["two read 0@0 again after one, though it was committed"]
