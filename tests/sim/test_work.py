"""Work off the loop, as the simulation does it: in line, a while later, and never by a dead process."""

import asyncio
from collections.abc import Iterator

import pytest

from penstock.sim import Simulation
from penstock.sim.loop import SimLoop
from penstock.sim.work import SimWork


@pytest.fixture
def simulation() -> Iterator[Simulation]:
    with Simulation(1) as simulation:
        yield simulation


def work_in(simulation: Simulation, slow_s: float = 0.0) -> SimWork:
    loop = SimLoop(simulation.loop, simulation.loop.home)
    return SimWork(loop, simulation.kernel.random("work"), slowness_s=lambda: slow_s)


def test_work_takes_time_and_gives_its_result(simulation: Simulation) -> None:
    async def story() -> None:
        work = work_in(simulation)
        began = simulation.kernel.now
        assert await work.run(lambda: 6 * 7) == 42
        assert simulation.kernel.now > began
        assert not work.is_pending

    simulation.run(story())


def test_work_that_fails_says_how(simulation: Simulation) -> None:
    async def story() -> None:
        with pytest.raises(ZeroDivisionError):
            await work_in(simulation).run(lambda: 1 // 0)

    simulation.run(story())


def test_a_slow_device_delays_the_result_but_not_the_work_and_no_other_task(simulation: Simulation) -> None:
    async def story() -> None:
        done_at: list[float] = []
        future = work_in(simulation, slow_s=30.0).run(lambda: done_at.append(simulation.kernel.now))
        await asyncio.sleep(1)
        assert done_at
        assert not future.done()
        await future
        assert simulation.kernel.now > 30

    simulation.run(story())


def test_work_whose_caller_gave_up_before_it_began_is_not_done(simulation: Simulation) -> None:
    async def story() -> None:
        done: list[int] = []
        work = work_in(simulation)
        work.run(lambda: done.append(1)).cancel()
        await asyncio.sleep(1)
        assert done == []
        assert not work.is_pending

    simulation.run(story())


def test_a_closed_pool_returns_finished_work_and_cancels_work_not_begun(simulation: Simulation) -> None:
    async def story() -> None:
        work = work_in(simulation, slow_s=30.0)
        done = work.run(lambda: "done")
        await asyncio.sleep(1)
        not_begun = work.run(lambda: "never")
        work.close()
        work.close()
        assert await done == "done"
        assert not_begun.cancelled()
        with pytest.raises(RuntimeError, match="closed"):
            work.run(lambda: None)

    simulation.run(story())


def test_a_process_that_is_killed_may_have_done_its_work_without_hearing_of_it(
    simulation: Simulation,
) -> None:
    process = simulation.new_process("victim")
    done: list[str] = []

    async def live() -> None:
        work = SimWork(
            SimLoop(simulation.loop, process), simulation.kernel.random("work"), slowness_s=lambda: 30.0
        )
        await work.run(lambda: done.append("work"))
        done.append("heard")

    async def story() -> None:
        simulation.loop.spawn(process, live())
        await asyncio.sleep(1)
        simulation.loop.kill(process)
        await asyncio.sleep(100)

    simulation.run(story())
    assert done == ["work"]
