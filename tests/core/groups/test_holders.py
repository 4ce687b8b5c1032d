"""Who holds which partition."""

from penstock.base.ids import TopicId
from penstock.core.groups.holders import Holders

ONE, TWO = TopicId(bytes(16)), TopicId(bytes([1]) * 16)


def test_what_a_member_takes_is_free_no_more():
    holders = Holders()
    holders.take("a", {ONE: frozenset({0, 1})})

    assert holders.free_of(ONE, frozenset({1, 2})) == {2}
    assert holders.free_of(TWO, frozenset({1, 2})) == {1, 2}


def test_a_member_releases_nothing_that_another_took_from_it():
    holders = Holders()
    holders.take("a", {ONE: frozenset({0, 1})})
    holders.take("b", {ONE: frozenset({1})})

    holders.release("a", {ONE: frozenset({0, 1}), TWO: frozenset({7})})

    assert holders.free_of(ONE, frozenset({0, 1})) == {0}


def test_who_has_released_everything_leaves_no_trace():
    holders = Holders()
    holders.take("a", {ONE: frozenset({0, 1})})
    holders.release("a", {ONE: frozenset({0, 1})})

    assert holders == Holders()


def test_a_copy_goes_its_own_way():
    holders = Holders()
    holders.take("a", {ONE: frozenset({0})})
    copied = holders.copy()
    copied.release("a", {ONE: frozenset({0})})

    assert (holders.free_of(ONE, frozenset({0})), copied.free_of(ONE, frozenset({0}))) == (frozenset(), {0})
