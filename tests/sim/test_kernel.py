"""What happens next: order within a process, choice between processes, time, and the history's hash."""

from collections.abc import Callable

from penstock.sim.clock import Clock
from penstock.sim.kernel import CALLBACK_S_MAX, CLEANED_FROM, Kernel, StepKind
from penstock.sim.process import SimProcess
from penstock.sim.trace import Trace


def process(kernel: Kernel, name: str) -> SimProcess:
    return SimProcess(name, host=name, clock=Clock(kernel.time))


def soon(kernel: Kernel, where: SimProcess, callback: Callable[..., object], *args: object) -> None:
    kernel.call_soon(where, where.context, callback, *args)


def never() -> bool:
    return False


def interleaving(seed: int) -> list[str]:
    kernel = Kernel(seed)
    said: list[str] = []
    for name in ("a", "b", "c"):
        speaker = process(kernel, name)
        for number in range(5):
            soon(kernel, speaker, said.append, f"{name}{number}")
    kernel.run_until(never)
    return said


def test_each_process_keeps_its_own_order() -> None:
    for seed in range(20):
        said = interleaving(seed)
        for name in ("a", "b", "c"):
            assert [word for word in said if word[0] == name] == [f"{name}{number}" for number in range(5)]


def test_the_seed_chooses_between_processes() -> None:
    assert interleaving(1) == interleaving(1)
    assert len({tuple(interleaving(seed)) for seed in range(20)}) > 10


def test_time_moves_to_the_next_timer_when_no_process_can_run() -> None:
    kernel = Kernel(0)
    one = process(kernel, "one")
    times: list[float] = []
    for time in (5.0, 1.0, 3.0):
        kernel.call_at(time, one, one.context, lambda: times.append(kernel.now))
    kernel.run_until(never)
    assert [int(time) for time in times] == [1, 3, 5]
    assert all(time % 1 <= CALLBACK_S_MAX for time in times)


def test_timers_of_one_moment_fire_in_the_order_they_were_set() -> None:
    kernel = Kernel(0)
    one = process(kernel, "one")
    fired: list[int] = []
    for number in range(10):
        kernel.call_at(1.0, one, one.context, fired.append, number)
    kernel.run_until(never)
    assert fired == list(range(10))


def test_time_does_not_move_to_a_timer_that_was_called_off() -> None:
    kernel = Kernel(0)
    one = process(kernel, "one")
    kernel.call_at(1000.0, one, one.context, print).cancel()
    assert not kernel.run_until(never)
    assert kernel.now == 0.0


def test_timers_that_were_called_off_do_not_pile_up() -> None:
    kernel = Kernel(0)
    one = process(kernel, "one")
    kept = kernel.call_at(1.0, one, one.context, lambda: None)
    for _ in range(100 * CLEANED_FROM):
        kernel.call_at(1000.0, one, one.context, print).cancel()
    assert len(kernel._timers) <= CLEANED_FROM + 1
    assert kept in [call for _, _, call in kernel._timers]


def test_time_stops_short_of_what_it_may_not_pass() -> None:
    kernel = Kernel(0)
    one = process(kernel, "one")
    fired: list[int] = []
    kernel.call_at(2.0, one, one.context, fired.append, 2)
    kernel.call_at(10.0, one, one.context, fired.append, 10)
    assert not kernel.run_until(never, time_max=5.0)
    assert fired == [2]
    assert kernel.now < 5.0


def test_nothing_of_a_killed_process_runs() -> None:
    kernel = Kernel(0)
    one, other = process(kernel, "one"), process(kernel, "other")
    ran: list[str] = []
    soon(kernel, one, ran.append, "one soon")
    kernel.call_at(1.0, one, one.context, ran.append, "one later")
    soon(kernel, other, ran.append, "other")
    one.kill()
    soon(kernel, one, ran.append, "one too late")
    kernel.run_until(never)
    assert ran == ["other"]


def test_a_process_may_be_killed_by_its_own_callback() -> None:
    kernel = Kernel(0)
    one = process(kernel, "one")
    ran: list[str] = []
    soon(kernel, one, one.kill)
    soon(kernel, one, ran.append, "too late")
    kernel.run_until(never)
    assert ran == []


def test_an_uncaught_exception_is_a_problem_of_its_process() -> None:
    kernel = Kernel(0)
    one = process(kernel, "one")
    soon(kernel, one, lambda: 1 // 0)
    kernel.run_until(never)
    (problem,) = kernel.problems
    assert problem.process == "one"
    assert isinstance(problem.error, ZeroDivisionError)


def test_an_exception_of_a_killed_process_is_not_a_problem() -> None:
    kernel = Kernel(0)
    one = process(kernel, "one")

    def fall() -> None:
        one.kill()
        raise RuntimeError

    soon(kernel, one, fall)
    kernel.run_until(never)
    assert kernel.problems == []


def test_the_hash_tells_apart_what_was_noted_and_when() -> None:
    def noted(*facts: object, at: float = 0.0) -> str:
        kernel = Kernel(0)
        kernel.now = at
        kernel.note(StepKind.SEND, *facts)
        return kernel.history_hash

    assert noted("a", 1) == noted("a", 1)
    assert len({noted("a", 1), noted("a", 2), noted("b", 1), noted("a", 1, at=1.0)}) == 4


def test_a_timer_that_fires_is_part_of_the_history() -> None:
    def fired(time: float) -> str:
        kernel = Kernel(0)
        one = process(kernel, "one")
        kernel.call_at(time, one, one.context, lambda: None)
        kernel.run_until(never)
        return kernel.history_hash

    assert fired(1.0) == fired(1.0) != fired(2.0)


def test_one_part_s_draws_do_not_shift_another_s() -> None:
    one, other = Kernel(3), Kernel(3)
    one.random("disk").random()
    assert one.random("network").random() == other.random("network").random()
    assert one.random("network").random() != one.random("disk").random()


def test_a_trace_keeps_the_last_lines_of_the_kinds_it_is_asked_for() -> None:
    trace = Trace(lines_max=2, kinds=(StepKind.SEND,))
    kernel = Kernel(0, trace=trace)
    for number in range(4):
        kernel.note(StepKind.SEND, "one", number)
        kernel.note(StepKind.WRITE, "two", number)
    assert [line.split()[1:] for line in trace.lines] == [["send", "one", "2"], ["send", "one", "3"]]


def test_a_clock_that_is_skewed_runs_on_from_where_it_is() -> None:
    kernel = Kernel(0)
    clock = Clock(kernel.time)
    kernel.now = 10.0
    clock.skew(2.0)
    assert clock.time() == 10.0
    kernel.now = 15.0
    assert clock.time() == 20.0
    assert clock.true_time_at(24.0) == 17.0


def test_a_clock_that_jumps_changes_the_date_and_no_interval() -> None:
    kernel = Kernel(0)
    clock = Clock(kernel.time)
    kernel.now = 10.0
    before = clock.now_ms()
    clock.jump(-3_600_000)
    assert clock.now_ms() == before - 3_600_000
    assert clock.time() == 10.0


def test_a_process_that_stands_still_does_everything_when_it_goes_on_again() -> None:
    kernel = Kernel(0)
    still, other = process(kernel, "still"), process(kernel, "other")
    said: list[tuple[str, int]] = []

    def say(word: str) -> None:
        said.append((word, int(kernel.now)))

    kernel.pause(still)
    soon(kernel, still, say, "soon")
    kernel.call_at(1.0, still, still.context, say, "timer")
    kernel.call_at(2.0, other, other.context, say, "other")
    kernel.call_at(3.0, other, other.context, kernel.resume, still)
    kernel.run_until(never)
    assert said == [("other", 2), ("soon", 3), ("timer", 3)]
