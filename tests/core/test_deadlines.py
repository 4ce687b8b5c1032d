"""One queue of timers."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.deadlines import Deadlines


def due(deadlines, now_ms):
    return ["".join(key) for key in deadlines.due(now_ms)]


def test_keys_are_due_in_the_order_of_their_times_and_then_in_the_order_they_were_set():
    deadlines = Deadlines()
    for key, at_ms in ("a", 30), ("b", 10), ("c", 20), ("d", 10):
        deadlines.set((key,), at_ms)
    assert deadlines.next_ms() == 10
    assert due(deadlines, 9) == []
    assert due(deadlines, 20) == ["b", "d", "c"]
    assert deadlines.next_ms() == 30


def test_setting_again_moves_and_cancelling_removes():
    deadlines = Deadlines()
    deadlines.set(("a",), 10)
    deadlines.set(("b",), 10)
    deadlines.set(("a",), 50)
    deadlines.cancel(("b",))
    deadlines.cancel(("never set",))
    assert deadlines.next_ms() == 50
    assert (("a",) in deadlines, ("b",) in deadlines, len(deadlines)) == (True, False, 1)
    assert (deadlines.at_ms(("a",)), deadlines.at_ms(("b",))) == (50, None)


def test_what_is_set_or_cancelled_while_others_are_served_counts():
    deadlines = Deadlines()
    for key in "abc":
        deadlines.set((key,), 10)
    served = []
    for (key,) in deadlines.due(10):
        served.append(key)
        if key == "a":
            deadlines.cancel(("b",))
            deadlines.set(("d",), 10)
    assert served == ["a", "c", "d"]


def test_a_timer_that_is_moved_for_ever_takes_no_more_room_each_time():
    deadlines = Deadlines()
    for at_ms in range(100_000):
        deadlines.set(("a",), at_ms)
    assert len(deadlines._heap) < 2_000
    assert deadlines.next_ms() == 99_999


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 9) | st.none())))
def test_it_does_what_a_dictionary_would_do(steps):
    deadlines, model = Deadlines(), {}
    for key, at_ms in steps:
        if at_ms is None:
            deadlines.cancel((key,))
            model.pop(key, None)
        else:
            deadlines.set((key,), at_ms)
            model[key] = at_ms
        assert deadlines.next_ms() == min(model.values(), default=None)
    assert sorted(due(deadlines, 5)) == sorted(key for key, at_ms in model.items() if at_ms <= 5)
