"""Who leads and who is in sync as brokers come and go: the rules one by one, then any story of comings and goings."""

import hypothesis.strategies as some
from hypothesis import given

from penstock.cluster.leadership import (
    cancel_exchange,
    elect,
    elect_preferred,
    exchange,
    fence,
    finish_exchange,
    hand_over,
    welcome,
)
from penstock.cluster.metadata import NO_LEADER, PartitionState


def state(leader: int, in_sync: tuple[int, ...], replicas: tuple[int, ...] = (1, 2, 3)) -> PartitionState:
    return PartitionState(leader, 5, replicas, in_sync, 7)


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
    assert (led.leader, led.in_sync) == (3, (3,))


def test_who_is_gone_leaves_the_in_sync_set_and_another_leads():
    after = fence(state(1, (1, 2, 3)), 1, {2, 3})
    assert (after.leader, after.in_sync, after.leader_epoch) == (2, (2, 3), 6)


def test_a_follower_that_is_gone_costs_no_leader_epoch():
    after = fence(state(1, (1, 2, 3)), 3, {1, 2})
    assert (after.leader, after.in_sync, after.leader_epoch, after.partition_epoch) == (1, (1, 2), 5, 8)


def test_the_last_in_sync_replica_stays_in_the_set_when_it_is_gone():
    after = fence(state(1, (1,)), 1, {2, 3})
    assert (after.leader, after.in_sync) == (NO_LEADER, (1,))


def test_who_may_have_lost_something_leaves_the_in_sync_set():
    after = welcome(state(1, (1, 2)), 1, {1, 2}, keeps_all=False, same_directory=True)
    assert (after.leader, after.in_sync) == (2, (2,))


def test_who_may_have_lost_something_does_not_lead_though_the_others_are_away():
    after = welcome(state(1, (1, 2)), 1, {1}, keeps_all=False, same_directory=True)
    assert (after.leader, after.in_sync) == (NO_LEADER, (2,))


def test_the_last_member_leads_with_what_it_has():
    after = welcome(state(NO_LEADER, (1,)), 1, {1, 2}, keeps_all=False, same_directory=True)
    assert (after.leader, after.in_sync) == (1, (1,))


def test_the_last_member_does_not_lead_with_an_empty_directory():
    after = welcome(state(1, (1,)), 1, {1, 2}, keeps_all=False, same_directory=False)
    assert (after.leader, after.in_sync) == (NO_LEADER, ())
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
    assert (after.leader, after.in_sync) == (2, (1, 2))
    alone = state(1, (1,))
    assert hand_over(alone, 1, {1, 2, 3}) is alone


def test_the_preferred_leader_takes_over_only_in_sync():
    assert elect_preferred(state(2, (1, 2)), {1, 2}).leader == 1
    behind = state(2, (2,))
    assert elect_preferred(behind, {1, 2}) is behind


EVENTS = some.lists(
    some.tuples(some.sampled_from(["fence", "crash", "restart", "join"]), some.sampled_from([1, 2, 3])),
    max_size=40,
)


@given(EVENTS)
def test_no_story_makes_a_leader_of_somebody_without_everything(events):
    """`complete` are the replicas that have all that was acknowledged; each leader has to be one of them."""
    now = state(1, (1, 2, 3))
    alive, complete = {1, 2, 3}, {1, 2, 3}
    for event, broker in events:
        before = now
        if event == "fence" and broker in alive:
            alive.discard(broker)
            now = fence(now, broker, alive)
        elif event == "crash" and broker in alive and len(complete) > 1:
            complete.discard(broker)  # its machine lost power: what it acknowledged may be gone
            now = welcome(now, broker, alive, keeps_all=False, same_directory=True)
        elif event == "restart" and broker not in alive:
            alive.add(broker)
            now = welcome(now, broker, alive, keeps_all=broker in complete, same_directory=True)
        elif event == "join" and now.leader != NO_LEADER and broker in alive:
            complete.add(broker)  # it has caught up with the leader
            in_sync = tuple(each for each in now.replicas if each in {*now.in_sync, broker})
            now = now._replace(in_sync=in_sync, partition_epoch=now.partition_epoch + 1)
        if now.leader != NO_LEADER:
            assert now.leader in now.in_sync
            assert now.leader in alive
            assert now.leader in complete
            # What is written from now on, only members of the set have for sure.
            complete &= {*now.in_sync}
        assert (now.leader == before.leader) or now.leader_epoch > before.leader_epoch
        assert now == before or now.partition_epoch > before.partition_epoch


def test_new_replicas_are_added_before_old_ones_go():
    begun = exchange(state(1, (1, 2), (1, 2)), (2, 3))
    assert (begun.replicas, begun.adding, begun.removing) == ((2, 3, 1), (3,), (1,))
    assert (begun.leader, begun.in_sync) == (1, (1, 2))
    assert finish_exchange(begun, {1, 2, 3}) is begun, "3 has not caught up"
    done = finish_exchange(begun._replace(in_sync=(1, 2, 3)), {1, 2, 3})
    assert (done.replicas, done.in_sync, done.adding, done.removing) == ((2, 3), (2, 3), (), ())
    assert (done.leader, done.leader_epoch) == (2, 6)


def test_an_exchange_can_be_given_up():
    begun = exchange(state(1, (1, 2), (1, 2)), (2, 3))
    back = cancel_exchange(begun._replace(in_sync=(1, 2, 3)), {1, 2, 3})
    assert (sorted(back.replicas), back.in_sync, back.adding, back.removing) == ([1, 2], (1, 2), (), ())


def test_replicas_only_change_their_order():
    begun = exchange(state(1, (1, 2), (1, 2)), (2, 1))
    done = finish_exchange(begun, {1, 2})
    assert (done.replicas, done.leader) == ((2, 1), 1)


def test_an_exchange_waits_while_only_those_that_go_have_everything():
    begun = exchange(state(1, (1,), (1, 2)), (2,))
    assert finish_exchange(begun, {1, 2}) is begun
