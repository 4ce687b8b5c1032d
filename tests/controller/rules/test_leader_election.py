"""Who leads and who is in sync as brokers come and go: the rules one by one, then any story of comings and goings."""

import hypothesis.strategies as some
from hypothesis import given

from penstock.cluster.metadata import NO_LEADER, PartitionState
from penstock.controller.rules.leader_election import (
    clear_needless_elr,
    elect,
    elect_for_shutdown,
    elect_preferred,
    fence_replica,
    unfence_replica,
)
from penstock.controller.rules.new_topics import new_partition
from penstock.controller.rules.reassignment import begin_reassignment, complete_reassignment


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


def test_no_replica_outside_the_isr_is_elected():
    assert elect(state(1, (1,)), {2, 3}).leader == NO_LEADER


def test_an_unclean_leader_is_alone_in_sync():
    led = elect(state(1, (1,)), {3}, unclean=True)
    assert (led.leader, led.isr) == (3, (3,))


def test_who_is_gone_leaves_the_in_sync_set_and_another_leads():
    after = fence_replica(state(1, (1, 2, 3)), 1, {2, 3})
    assert (after.leader, after.isr, after.leader_epoch) == (2, (2, 3), 6)


def test_a_follower_that_is_gone_costs_no_leader_epoch():
    after = fence_replica(state(1, (1, 2, 3)), 3, {1, 2})
    assert (after.leader, after.isr, after.leader_epoch, after.partition_epoch) == (1, (1, 2), 5, 8)


def test_the_last_in_sync_replica_stays_in_the_set_when_it_is_gone():
    after = fence_replica(state(1, (1,)), 1, {2, 3})
    assert (after.leader, after.isr) == (NO_LEADER, (1,))


def test_who_may_have_lost_something_leaves_the_in_sync_set():
    after = unfence_replica(state(1, (1, 2)), 1, {1, 2}, keeps_all=False, same_directory=True)
    assert (after.leader, after.isr) == (2, (2,))


def test_who_may_have_lost_something_does_not_lead_though_the_others_are_away():
    after = unfence_replica(state(1, (1, 2)), 1, {1}, keeps_all=False, same_directory=True)
    assert (after.leader, after.isr) == (NO_LEADER, (2,))


def test_the_last_member_leads_with_what_it_has():
    after = unfence_replica(state(NO_LEADER, (1,)), 1, {1, 2}, keeps_all=False, same_directory=True)
    assert (after.leader, after.isr) == (1, (1,))


def test_the_last_member_does_not_lead_with_an_empty_directory():
    after = unfence_replica(state(1, (1,)), 1, {1, 2}, keeps_all=False, same_directory=False)
    assert (after.leader, after.isr) == (NO_LEADER, ())
    again = unfence_replica(after, 1, {1, 2}, keeps_all=True, same_directory=True)
    assert again.leader == NO_LEADER, "nor after its next restart"


def test_a_leader_that_comes_back_leads_in_a_new_epoch():
    after = unfence_replica(state(1, (1, 2)), 1, {1, 2}, keeps_all=True, same_directory=True)
    assert after.leader == 1
    assert after.leader_epoch > 5


def test_unfencing_a_broker_without_a_replica_changes_nothing():
    before = state(1, (1, 2))
    assert unfence_replica(before, 9, {1, 2, 9}, keeps_all=False, same_directory=False) is before


def test_a_leader_that_stops_hands_over_and_stays_in_sync_until_it_is_gone():
    after = elect_for_shutdown(state(1, (1, 2)), 1, {1, 2, 3})
    assert (after.leader, after.isr) == (2, (1, 2))
    alone = state(1, (1,))
    assert elect_for_shutdown(alone, 1, {1, 2, 3}) is alone


def test_the_preferred_leader_takes_over_only_in_sync():
    assert elect_preferred(state(2, (1, 2)), {1, 2}).leader == 1
    behind = state(2, (2,))
    assert elect_preferred(behind, {1, 2}) is behind


# Who left a set that was too small to commit anything.


def test_who_leaves_a_set_that_is_then_too_small_stays_eligible():
    after = fence_replica(state(1, (1, 2)), 2, {1}, min_isr=2)
    assert (after.leader, after.isr, after.elr) == (1, (1,), (2,))


def test_who_leaves_a_set_that_is_large_enough_does_not():
    assert fence_replica(state(1, (1, 2, 3)), 2, {1, 3}, min_isr=2).elr == ()


def test_more_members_than_replicas_are_not_asked_for():
    after = fence_replica(state(1, (1, 2), (1, 2)), 2, {1}, min_isr=3)
    assert after.elr == (2,)
    assert fence_replica(state(1, (1,), (1,)), 1, set(), min_isr=3).elr == ()
    # Nor those that are only being added.
    growing = begin_reassignment(state(1, (1,), (1,)), (1, 2, 3), {1, 2, 3})
    assert growing.elr_after((1, 2), min_isr=2) == ()
    assert growing._replace(elr=(3,)).elr_after((1,), min_isr=2) == ()


def test_a_last_member_that_may_have_lost_something_makes_way_for_those_that_are_eligible():
    after = unfence_replica(state(1, (1,), elr=(3,)), 1, {1, 2}, keeps_all=False, same_directory=True)
    assert (after.leader, after.isr, after.elr) == (NO_LEADER, (), (3,))
    back = unfence_replica(after, 3, {1, 2, 3}, keeps_all=True, same_directory=True)
    assert (back.leader, back.isr, back.elr) == (3, (3,), ())


def test_who_is_eligible_leads_when_the_last_member_is_gone_and_then_that_one_is_eligible():
    after = fence_replica(state(1, (1,), elr=(3,)), 1, {2, 3}, min_isr=2)
    assert (after.leader, after.isr, after.elr, after.leader_epoch) == (3, (3,), (1,), 6)


def test_a_replica_of_the_isr_is_elected_before_one_of_the_elr():
    after = elect(state(NO_LEADER, (3,), elr=(1, 2)), {1, 2, 3})
    assert (after.leader, after.isr, after.elr) == (3, (3,), (1, 2))


def test_who_is_eligible_and_may_have_lost_something_is_so_no_more():
    after = unfence_replica(state(1, (1,), elr=(2,)), 2, {1, 2}, keeps_all=False, same_directory=True)
    assert (after.leader, after.isr, after.elr) == (1, (1,), ())


def test_the_last_one_with_everything_leads_with_what_it_has_though_it_was_only_eligible():
    after = unfence_replica(state(NO_LEADER, (), elr=(2,)), 2, {1, 2}, keeps_all=False, same_directory=True)
    assert (after.leader, after.isr, after.elr) == (2, (2,), ())
    empty = unfence_replica(state(NO_LEADER, (), elr=(2,)), 2, {1, 2}, keeps_all=False, same_directory=False)
    assert (empty.leader, empty.isr, empty.elr) == (NO_LEADER, (), ())


def test_an_unclean_election_empties_the_elr():
    after = elect(state(NO_LEADER, (1,), elr=(2,)), {3}, unclean=True)
    assert (after.leader, after.isr, after.elr) == (3, (3,), ())
    clean = elect(state(NO_LEADER, (1,), elr=(2,)), {2, 3}, unclean=True)
    assert (clean.leader, clean.elr) == (2, (1,))


def test_a_lower_min_isr_that_the_isr_satisfies_empties_the_elr():
    small = state(1, (1,), elr=(2,))
    assert clear_needless_elr(small, min_isr=2) is small
    after = clear_needless_elr(small, min_isr=1)
    assert (after.elr, after.partition_epoch, after.leader_epoch) == ((), 8, 5)


def test_a_replica_that_goes_is_eligible_no_more():
    begun = begin_reassignment(state(1, (1,), (1, 2, 3), elr=(2, 3)), (1, 2), {1, 2, 3})
    done = complete_reassignment(begun, {1})
    assert (done.replicas, done.isr, done.elr) == ((1, 2), (1,), (2,))


def test_a_new_partition_whose_replicas_are_all_away_is_led_by_the_first_to_come():
    made = new_partition((1, 2, 3), frozenset({4}))
    assert (made.leader, made.isr, made.elr) == (NO_LEADER, (), (1, 2, 3))
    led = unfence_replica(made, 2, {2, 4}, keeps_all=True, same_directory=True)
    assert (led.leader, led.isr) == (2, (2,))


EVENTS = some.lists(
    some.tuples(
        some.sampled_from(["fence", "crash", "power cut", "restart", "join", "lag"]),
        some.sampled_from([1, 2, 3]),
    ),
    max_size=40,
)


@given(EVENTS, some.sampled_from([1, 2, 3]))
def test_no_sequence_of_events_elects_a_replica_that_lacks_acknowledged_records(events, min_isr):
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
            now = fence_replica(now, broker, alive, min_isr=min_isr)
        elif event == "crash" and broker in running and is_kept_by_others(now, complete - {broker}):
            complete.discard(broker)
            now = unfence_replica(now, broker, alive, keeps_all=False, same_directory=True)
        elif event == "power cut" and broker in running and len(unclean) + 1 < min_isr:
            if is_kept_by_others(now, complete - {broker}):
                complete.discard(broker)
                unclean.add(broker)
        elif event == "restart" and (broker not in alive or broker in unclean):
            alive.add(broker)
            now = unfence_replica(now, broker, alive, keeps_all=broker not in unclean, same_directory=True)
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
