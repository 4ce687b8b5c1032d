"""Which replicas are copied slowly, and how slowly."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.throttling import Throttle, names_replica


def test_a_list_names_replicas_by_partition_and_broker_and_a_star_names_all():
    assert names_replica({"0:1", "2:3"}, partition=2, node_id=3)
    assert not names_replica({"0:1", "2:3"}, partition=1, node_id=3)
    assert names_replica({"*"}, partition=1, node_id=3)
    assert not names_replica(frozenset(), partition=0, node_id=0)


def test_what_went_over_the_limit_is_waited_for():
    throttle = Throttle()
    assert throttle.wait_s(rate=100, now=50.0) == 0
    throttle.count(310, rate=100, now=50.0)  # the first ten were free: nothing had gone for a while
    assert throttle.wait_s(rate=100, now=50.0) == 3.0
    assert throttle.wait_s(rate=100, now=52.0) == 1.0
    assert throttle.wait_s(rate=100, now=53.0) == 0


def test_another_rate_holds_at_once():
    throttle = Throttle()
    throttle.count(10_000, rate=1, now=50.0)
    assert throttle.wait_s(rate=1, now=50.0) > 9_000
    assert throttle.wait_s(rate=1_000_000, now=50.0) < 0.1


@given(
    rate=st.integers(1, 10_000),
    sizes=st.lists(st.integers(0, 5_000), min_size=1, max_size=30),
    data=st.data(),
)
def test_on_average_no_more_goes_than_may(rate, sizes, data):
    throttle, now, gone = Throttle(), 100.0, 0
    for size in sizes:
        now += data.draw(st.floats(0, 3)) + throttle.wait_s(rate=rate, now=now) + 1e-9
        assert throttle.wait_s(rate=rate, now=now) < 1e-6
        # Before the last one, never more than the time allows and a tenth of a second's worth at once.
        assert gone <= rate * (now - 100.0 + 0.1) + 1
        throttle.count(size, rate=rate, now=now)
        gone += size
