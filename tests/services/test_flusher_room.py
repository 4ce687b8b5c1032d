"""Requests that wait for room among the queued syncs continue in order, and none is forgotten."""

import asyncio
from typing import Any

from penstock.services.flusher import Flusher


class HeldWork:
    """Carries out what it is given when the test lets it."""

    def __init__(self) -> None:
        self.may_run = asyncio.Event()

    async def run(self, function: Any) -> Any:
        await self.may_run.wait()
        return function()


class TinyWorld:
    """As much of a world as the flusher touches."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.work = HeldWork()


class Written:
    """Has something to sync whenever it is asked."""

    def sync_plan(self) -> object:
        return object()

    def run_sync(self, _plan: object) -> None: ...

    def synced(self, _plan: object) -> None: ...


async def full_flusher() -> tuple[Flusher, HeldWork]:
    """A round is under way, and the next one has as many as it takes."""
    world = TinyWorld()
    flusher = Flusher(world, lanes=1, queue_max=1, whole_from=0)  # type: ignore[arg-type]
    flusher.request(Written())  # type: ignore[arg-type]
    while flusher._requested:
        await asyncio.sleep(0)
    flusher.request(Written())  # type: ignore[arg-type]
    return flusher, world.work


def test_a_later_request_does_not_overtake_an_admitted_one():
    async def story() -> list[str]:
        flusher, work = await full_flusher()
        order: list[str] = []

        async def wait_early() -> None:
            room = flusher.room()
            assert room is not None
            await room
            order.append("early")

        early = asyncio.create_task(wait_early())
        await asyncio.sleep(0)
        work.may_run.set()
        while flusher._requested:
            await asyncio.sleep(0)
        # There is room again and the waiting request has not run yet: now comes another request.
        room = flusher.room()
        if room is not None:
            await room
        order.append("late")
        await early
        return order

    assert asyncio.run(story()) == ["early", "late"]


def test_no_request_waits_for_a_round_of_syncs_that_never_begins():
    async def story() -> None:
        flusher, work = await full_flusher()
        first = flusher.room()
        assert first is not None
        work.may_run.set()
        while not first.done():
            await asyncio.sleep(0)
        second = flusher.room()
        if second is not None:
            await asyncio.wait_for(second, 5)
        await flusher.settle()
        assert flusher.room() is None

    asyncio.run(story())


def test_a_cancelled_request_leaves_the_queue():
    async def story() -> None:
        flusher, work = await full_flusher()
        room = flusher.room()
        assert room is not None
        room.cancel()
        work.may_run.set()
        await flusher.settle()
        await asyncio.sleep(0)
        assert flusher.room() is None

    asyncio.run(story())
