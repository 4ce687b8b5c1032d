"""The steps of a reassignment."""

from penstock.cluster.metadata import PartitionState
from penstock.controller.rules.reassignment import (
    begin_reassignment,
    cancel_reassignment,
    complete_reassignment,
)


def state(leader: int, isr: tuple[int, ...], replicas: tuple[int, ...] = (1, 2, 3)) -> PartitionState:
    return PartitionState(leader, 5, replicas, isr, 7)


def test_new_replicas_are_added_before_old_ones_go():
    begun = begin_reassignment(state(1, (1, 2), (1, 2)), (2, 3), {1, 2, 3})
    assert (begun.replicas, begun.adding, begun.removing) == ((2, 3, 1), (3,), (1,))
    assert (begun.leader, begun.isr) == (1, (1, 2))
    assert complete_reassignment(begun, {1, 2, 3}) is begun, "3 has not caught up"
    done = complete_reassignment(begun._replace(isr=(1, 2, 3)), {1, 2, 3})
    assert (done.replicas, done.isr, done.adding, done.removing) == ((2, 3), (2, 3), (), ())
    assert (done.leader, done.leader_epoch) == (2, 6)


def test_a_reassignment_can_be_cancelled():
    begun = begin_reassignment(state(1, (1, 2), (1, 2)), (2, 3), {1, 2, 3})
    back = cancel_reassignment(begun._replace(isr=(1, 2, 3)), {1, 2, 3})
    assert (sorted(back.replicas), back.isr, back.adding, back.removing) == ([1, 2], (1, 2), (), ())


def test_replicas_only_change_their_order():
    begun = begin_reassignment(state(1, (1, 2), (1, 2)), (2, 1), {1, 2})
    done = complete_reassignment(begun, {1, 2})
    assert (done.replicas, done.leader) == ((2, 1), 1)


def test_a_reassignment_waits_while_only_those_that_go_have_everything():
    begun = begin_reassignment(state(1, (1,), (1, 2)), (2,), {1, 2})
    assert complete_reassignment(begun, {1, 2}) is begun


def test_a_reassignment_instead_of_another_forgets_what_that_one_would_have_added():
    begun = begin_reassignment(state(1, (1, 2, 3)), (1, 2, 4), {1, 2, 3, 4, 5})
    other = begin_reassignment(begun._replace(isr=(1, 2, 3, 4)), (1, 2, 5), {1, 2, 3, 4, 5})
    assert (other.replicas, other.adding, other.removing) == ((1, 2, 5, 3), (5,), (3,))
    assert other.isr == (1, 2, 3)
    assert cancel_reassignment(other, {1, 2, 3, 4, 5}).replicas == (1, 2, 3)


def test_an_adding_replica_of_a_replaced_reassignment_stays_while_it_is_the_only_one_in_sync():
    begun = begin_reassignment(state(1, (1,), (1,)), (4,), {1, 4, 5})
    other = begin_reassignment(begun._replace(leader=4, isr=(4,)), (5,), {4, 5})
    assert (other.leader, other.isr) == (4, (4,))
    assert 4 in other.replicas


def test_another_leads_at_once_where_the_leader_would_have_been_added():
    begun = begin_reassignment(state(1, (1, 2, 3)), (4, 2, 3), {1, 2, 3, 4, 5})
    led = begun._replace(leader=4, isr=(2, 3, 4))
    other = begin_reassignment(led, (5, 2, 3), {2, 3, 4, 5})
    assert (other.leader, other.leader_epoch) == (2, 6)


def test_an_epoch_ends_when_a_replica_goes_so_that_it_counts_no_more_before_it_has_deleted_what_it_had():
    begun = begin_reassignment(state(1, (1, 2)), (1, 2), {1, 2, 3})
    done = complete_reassignment(begun, {1, 2, 3})
    assert (done.replicas, done.leader, done.leader_epoch) == ((1, 2), 1, 6)
    back = cancel_reassignment(begin_reassignment(state(1, (1, 2, 3)), (1, 2, 4), {1, 2, 3, 4}), {1, 2, 3, 4})
    assert (back.leader, back.leader_epoch) == (1, 6)


def test_no_epoch_ends_when_replicas_only_change_their_order_or_are_added():
    assert (
        complete_reassignment(
            begin_reassignment(state(1, (1, 2, 3)), (2, 1, 3), {1, 2, 3}), {1, 2, 3}
        ).leader_epoch
        == 5
    )
    begun = begin_reassignment(state(1, (1, 2, 3)), (1, 2, 3, 4), {1, 2, 3, 4})
    assert complete_reassignment(begun._replace(isr=(1, 2, 3, 4)), {1, 2, 3, 4}).leader_epoch == 5
