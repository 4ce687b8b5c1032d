"""Who leads and who is in sync as brokers come and go: the rules one by one, then any story of comings and goings."""

import hypothesis.strategies as some
from hypothesis import given

from penstock.cluster.metadata import NO_LEADER, PartitionState
from penstock.controller.controller import _new_partition
from penstock.controller.rules.leader_election import (
    cancel_exchange,
    elect,
    elect_preferred,
    exchange,
    fence,
    finish_exchange,
    hand_over,
    welcome,
    without_needless,
)


def state(
    leader: int,
    isr: tuple[int, ...],
    replicas: tuple[int, ...] = (1, 2, 3),
    elr: tuple[int, ...] = (),
) -> PartitionState:
    return PartitionState(leader, 5, replicas, isr, 7, elr=elr)


def test_the_first_replica_that_is_in_sync_and_alive_leads():
    led = elect(state(NO_LEADER, (2, 3)), {1, 2, 3})
    assert (led.leader, led.leader_epoch, led.partition_epoch) == (2, 6, 8)


def test_a_leader_that_is_fine_stays():
    before = state(3, (2, 3))
    assert elect(before, {1, 2, 3}) is before


def test_nobody_outside_the_in_sync_set_leads():
    assert elect(state(1, (1,)), {2, 3}).leader == NO_LEADER


def test_an_unclean_leader_is_alone_in_sync():
    led = elect(state(1, (1,)), {3}, unclean=True)
    assert (led.leader, led.isr) == (3, (3,))


def test_who_is_gone_leaves_the_in_sync_set_and_another_leads():
    after = fence(state(1, (1, 2, 3)), 1, {2, 3})
    assert (after.leader, after.isr, after.leader_epoch) == (2, (2, 3), 6)


def test_a_follower_that_is_gone_costs_no_leader_epoch():
    after = fence(state(1, (1, 2, 3)), 3, {1, 2})
    assert (after.leader, after.isr, after.leader_epoch, after.partition_epoch) == (1, (1, 2), 5, 8)


def test_the_last_in_sync_replica_stays_in_the_set_when_it_is_gone():
    after = fence(state(1, (1,)), 1, {2, 3})
    assert (after.leader, after.isr) == (NO_LEADER, (1,))


def test_who_may_have_lost_something_leaves_the_in_sync_set():
    after = welcome(state(1, (1, 2)), 1, {1, 2}, keeps_all=False, same_directory=True)
    assert (after.leader, after.isr) == (2, (2,))


def test_who_may_have_lost_something_does_not_lead_though_the_others_are_away():
    after = welcome(state(1, (1, 2)), 1, {1}, keeps_all=False, same_directory=True)
    assert (after.leader, after.isr) == (NO_LEADER, (2,))


def test_the_last_member_leads_with_what_it_has():
    after = welcome(state(NO_LEADER, (1,)), 1, {1, 2}, keeps_all=False, same_directory=True)
    assert (after.leader, after.isr) == (1, (1,))


def test_the_last_member_does_not_lead_with_an_empty_directory():
    after = welcome(state(1, (1,)), 1, {1, 2}, keeps_all=False, same_directory=False)
    assert (after.leader, after.isr) == (NO_LEADER, ())
    again = welcome(after, 1, {1, 2}, keeps_all=True, same_directory=True)
    assert again.leader == NO_LEADER, "nor after its next restart"


def test_a_leader_that_comes_back_leads_in_a_new_epoch():
    after = welcome(state(1, (1, 2)), 1, {1, 2}, keeps_all=True, same_directory=True)
    assert after.leader == 1
    assert after.leader_epoch > 5


def test_whoever_has_no_replica_changes_nothing():
    before = state(1, (1, 2))
    assert welcome(before, 9, {1, 2, 9}, keeps_all=False, same_directory=False) is before


def test_a_leader_that_stops_hands_over_and_stays_in_sync_until_it_is_gone():
    after = hand_over(state(1, (1, 2)), 1, {1, 2, 3})
    assert (after.leader, after.isr) == (2, (1, 2))
    alone = state(1, (1,))
    assert hand_over(alone, 1, {1, 2, 3}) is alone


def test_the_preferred_leader_takes_over_only_in_sync():
    assert elect_preferred(state(2, (1, 2)), {1, 2}).leader == 1
    behind = state(2, (2,))
    assert elect_preferred(behind, {1, 2}) is behind


# Who left a set that was too small to commit anything.


def test_who_leaves_a_set_that_is_then_too_small_stays_eligible():
    after = fence(state(1, (1, 2)), 2, {1}, min_isr=2)
    assert (after.leader, after.isr, after.elr) == (1, (1,), (2,))


def test_who_leaves_a_set_that_is_large_enough_does_not():
    assert fence(state(1, (1, 2, 3)), 2, {1, 3}, min_isr=2).elr == ()


def test_more_members_than_replicas_are_not_asked_for():
    after = fence(state(1, (1, 2), (1, 2)), 2, {1}, min_isr=3)
    assert after.elr == (2,)
    assert fence(state(1, (1,), (1,)), 1, set(), min_isr=3).elr == ()
    # Nor those that are only being added.
    growing = exchange(state(1, (1,), (1,)), (1, 2, 3), {1, 2, 3})
    assert growing.elr_after((1, 2), min_isr=2) == ()
    assert growing._replace(elr=(3,)).elr_after((1,), min_isr=2) == ()


def test_a_last_member_that_may_have_lost_something_makes_way_for_those_that_are_eligible():
    after = welcome(state(1, (1,), elr=(3,)), 1, {1, 2}, keeps_all=False, same_directory=True)
    assert (after.leader, after.isr, after.elr) == (NO_LEADER, (), (3,))
    back = welcome(after, 3, {1, 2, 3}, keeps_all=True, same_directory=True)
    assert (back.leader, back.isr, back.elr) == (3, (3,), ())


def test_who_is_eligible_leads_when_the_last_member_is_gone_and_then_that_one_is_eligible():
    after = fence(state(1, (1,), elr=(3,)), 1, {2, 3}, min_isr=2)
    assert (after.leader, after.isr, after.elr, after.leader_epoch) == (3, (3,), (1,), 6)


def test_a_member_leads_rather_than_somebody_who_is_eligible():
    after = elect(state(NO_LEADER, (3,), elr=(1, 2)), {1, 2, 3})
    assert (after.leader, after.isr, after.elr) == (3, (3,), (1, 2))


def test_who_is_eligible_and_may_have_lost_something_is_so_no_more():
    after = welcome(state(1, (1,), elr=(2,)), 2, {1, 2}, keeps_all=False, same_directory=True)
    assert (after.leader, after.isr, after.elr) == (1, (1,), ())


def test_the_last_one_with_everything_leads_with_what_it_has_though_it_was_only_eligible():
    after = welcome(state(NO_LEADER, (), elr=(2,)), 2, {1, 2}, keeps_all=False, same_directory=True)
    assert (after.leader, after.isr, after.elr) == (2, (2,), ())
    empty = welcome(state(NO_LEADER, (), elr=(2,)), 2, {1, 2}, keeps_all=False, same_directory=False)
    assert (empty.leader, empty.isr, empty.elr) == (NO_LEADER, (), ())


def test_an_unclean_leader_makes_nobody_eligible():
    after = elect(state(NO_LEADER, (1,), elr=(2,)), {3}, unclean=True)
    assert (after.leader, after.isr, after.elr) == (3, (3,), ())
    clean = elect(state(NO_LEADER, (1,), elr=(2,)), {2, 3}, unclean=True)
    assert (clean.leader, clean.elr) == (2, (1,))


def test_a_topic_that_asks_for_fewer_members_has_nobody_eligible_any_more():
    small = state(1, (1,), elr=(2,))
    assert without_needless(small, min_isr=2) is small
    after = without_needless(small, min_isr=1)
    assert (after.elr, after.partition_epoch, after.leader_epoch) == ((), 8, 5)


def test_a_replica_that_goes_is_eligible_no_more():
    begun = exchange(state(1, (1,), (1, 2, 3), elr=(2, 3)), (1, 2), {1, 2, 3})
    done = finish_exchange(begun, {1})
    assert (done.replicas, done.isr, done.elr) == ((1, 2), (1,), (2,))


def test_a_new_partition_whose_replicas_are_all_away_is_led_by_the_first_to_come():
    made = _new_partition((1, 2, 3), frozenset({4}))
    assert (made.leader, made.isr, made.elr) == (NO_LEADER, (), (1, 2, 3))
    led = welcome(made, 2, {2, 4}, keeps_all=True, same_directory=True)
    assert (led.leader, led.isr) == (2, (2,))


EVENTS = some.lists(
    some.tuples(
        some.sampled_from(["fence", "crash", "power cut", "restart", "join", "lag"]),
        some.sampled_from([1, 2, 3]),
    ),
    max_size=40,
)


@given(EVENTS, some.sampled_from([1, 2, 3]))
def test_no_story_makes_a_leader_of_somebody_without_everything(events, min_isr):
    """`complete` are the replicas that have all that was acknowledged; each leader has to be one of them.

    Machines lose their power and are back at once; or, fewer than `min.insync.replicas`, unnoticed: such a one is there
    in the eyes of the others until it is fenced, or comes back.
    """
    now = state(1, (1, 2, 3))
    alive, complete, unclean = {1, 2, 3}, {1, 2, 3}, set()
    for event, broker in events:
        before = now
        running = alive - unclean
        if event == "fence" and broker in alive:
            alive.discard(broker)
            now = fence(now, broker, alive, min_isr=min_isr)
        elif event == "crash" and broker in running and is_kept_by_others(now, complete - {broker}):
            complete.discard(broker)
            now = welcome(now, broker, alive, keeps_all=False, same_directory=True)
        elif event == "power cut" and broker in running and len(unclean) + 1 < min_isr:
            if is_kept_by_others(now, complete - {broker}):
                complete.discard(broker)
                unclean.add(broker)
        elif event == "restart" and (broker not in alive or broker in unclean):
            alive.add(broker)
            now = welcome(now, broker, alive, keeps_all=broker not in unclean, same_directory=True)
            unclean.discard(broker)
        elif event == "join" and now.leader in running and broker in running:
            complete.add(broker)  # it has caught up with the leader
            now = with_in_sync(now, {*now.isr, broker}, min_isr)
        elif event == "lag" and now.leader in running and broker != now.leader:
            now = with_in_sync(now, {*now.isr} - {broker}, min_isr)
        if now.leader in running and unclean.isdisjoint(now.isr):
            assert now.leader in now.isr
            assert now.leader in complete
            if len(now.isr) >= min_isr:
                # What is written from now on, only members of the set have for sure.
                complete &= {*now.isr}
        assert not {*now.isr, *now.elr} - complete - unclean, "they would lead"
        assert not {*now.isr} & {*now.elr}
        assert len(now.isr) < min_isr or not now.elr
        assert now.leader == NO_LEADER or now.leader in alive
        assert (now.leader == before.leader) or now.leader_epoch > before.leader_epoch
        assert now == before or now.partition_epoch > before.partition_epoch


def is_kept_by_others(now: PartitionState, complete: set[int]) -> bool:
    """Whether a power cut leaves one of those that may lead; with the last one, something may be lost."""
    return not complete.isdisjoint({*now.isr, *now.elr})


def with_in_sync(now: PartitionState, members: set[int], min_isr: int) -> PartitionState:
    isr = tuple(each for each in now.replicas if each in members)
    elr = now.elr_after(isr, min_isr=min_isr)
    if (isr, elr) == (now.isr, now.elr):
        return now
    return now._replace(isr=isr, elr=elr, partition_epoch=now.partition_epoch + 1)


def test_new_replicas_are_added_before_old_ones_go():
    begun = exchange(state(1, (1, 2), (1, 2)), (2, 3), {1, 2, 3})
    assert (begun.replicas, begun.adding, begun.removing) == ((2, 3, 1), (3,), (1,))
    assert (begun.leader, begun.isr) == (1, (1, 2))
    assert finish_exchange(begun, {1, 2, 3}) is begun, "3 has not caught up"
    done = finish_exchange(begun._replace(isr=(1, 2, 3)), {1, 2, 3})
    assert (done.replicas, done.isr, done.adding, done.removing) == ((2, 3), (2, 3), (), ())
    assert (done.leader, done.leader_epoch) == (2, 6)


def test_an_exchange_can_be_given_up():
    begun = exchange(state(1, (1, 2), (1, 2)), (2, 3), {1, 2, 3})
    back = cancel_exchange(begun._replace(isr=(1, 2, 3)), {1, 2, 3})
    assert (sorted(back.replicas), back.isr, back.adding, back.removing) == ([1, 2], (1, 2), (), ())


def test_replicas_only_change_their_order():
    begun = exchange(state(1, (1, 2), (1, 2)), (2, 1), {1, 2})
    done = finish_exchange(begun, {1, 2})
    assert (done.replicas, done.leader) == ((2, 1), 1)


def test_an_exchange_waits_while_only_those_that_go_have_everything():
    begun = exchange(state(1, (1,), (1, 2)), (2,), {1, 2})
    assert finish_exchange(begun, {1, 2}) is begun


def test_an_exchange_instead_of_another_forgets_what_that_one_would_have_added():
    begun = exchange(state(1, (1, 2, 3)), (1, 2, 4), {1, 2, 3, 4, 5})
    other = exchange(begun._replace(isr=(1, 2, 3, 4)), (1, 2, 5), {1, 2, 3, 4, 5})
    assert (other.replicas, other.adding, other.removing) == ((1, 2, 5, 3), (5,), (3,))
    assert other.isr == (1, 2, 3)
    assert cancel_exchange(other, {1, 2, 3, 4, 5}).replicas == (1, 2, 3)


def test_what_an_exchange_would_have_added_stays_while_nobody_else_has_everything():
    begun = exchange(state(1, (1,), (1,)), (4,), {1, 4, 5})
    other = exchange(begun._replace(leader=4, isr=(4,)), (5,), {4, 5})
    assert (other.leader, other.isr) == (4, (4,))
    assert 4 in other.replicas


def test_another_leads_at_once_where_the_leader_would_have_been_added():
    begun = exchange(state(1, (1, 2, 3)), (4, 2, 3), {1, 2, 3, 4, 5})
    led = begun._replace(leader=4, isr=(2, 3, 4))
    other = exchange(led, (5, 2, 3), {2, 3, 4, 5})
    assert (other.leader, other.leader_epoch) == (2, 6)


def test_an_epoch_ends_when_a_replica_goes_so_that_it_counts_no_more_before_it_has_deleted_what_it_had():
    begun = exchange(state(1, (1, 2)), (1, 2), {1, 2, 3})
    done = finish_exchange(begun, {1, 2, 3})
    assert (done.replicas, done.leader, done.leader_epoch) == ((1, 2), 1, 6)
    back = cancel_exchange(exchange(state(1, (1, 2, 3)), (1, 2, 4), {1, 2, 3, 4}), {1, 2, 3, 4})
    assert (back.leader, back.leader_epoch) == (1, 6)


def test_no_epoch_ends_when_replicas_only_change_their_order_or_are_added():
    assert finish_exchange(exchange(state(1, (1, 2, 3)), (2, 1, 3), {1, 2, 3}), {1, 2, 3}).leader_epoch == 5
    begun = exchange(state(1, (1, 2, 3)), (1, 2, 3, 4), {1, 2, 3, 4})
    assert finish_exchange(begun._replace(isr=(1, 2, 3, 4)), {1, 2, 3, 4}).leader_epoch == 5
