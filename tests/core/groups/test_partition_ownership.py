"""Who holds which partition."""

from penstock.base.ids import TopicId
from penstock.core.groups.partition_ownership import PartitionOwners

ONE, TWO = TopicId(bytes(16)), TopicId(bytes([1]) * 16)


def test_what_a_member_takes_is_free_no_more():
    owners = PartitionOwners()
    owners.take("a", {ONE: frozenset({0, 1})})

    assert owners.free_of(ONE, frozenset({1, 2})) == {2}
    assert owners.free_of(TWO, frozenset({1, 2})) == {1, 2}


def test_a_member_releases_nothing_that_another_took_from_it():
    owners = PartitionOwners()
    owners.take("a", {ONE: frozenset({0, 1})})
    owners.take("b", {ONE: frozenset({1})})

    owners.release("a", {ONE: frozenset({0, 1}), TWO: frozenset({7})})

    assert owners.free_of(ONE, frozenset({0, 1})) == {0}


def test_who_has_released_everything_leaves_no_trace():
    owners = PartitionOwners()
    owners.take("a", {ONE: frozenset({0, 1})})
    owners.release("a", {ONE: frozenset({0, 1})})

    assert owners == PartitionOwners()


def test_a_copy_goes_its_own_way():
    owners = PartitionOwners()
    owners.take("a", {ONE: frozenset({0})})
    copied = owners.copy()
    copied.release("a", {ONE: frozenset({0})})

    assert (owners.free_of(ONE, frozenset({0})), copied.free_of(ONE, frozenset({0}))) == (frozenset(), {0})
