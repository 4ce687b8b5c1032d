import asyncio

from penstock.base.errors import ErrorCode
from penstock.services.purgatory import (
    HIGH_WATERMARK_WAITS_MS,
    FetchWait,
    FetchWaiters,
    HighWatermarkWaiters,
)
from penstock.world.real_loop import RealLoop

LONG_MS = 60_000


def test_a_fetch_wakes_when_the_bytes_of_several_partitions_add_up():
    async def story():
        fetch = FetchWait(RealLoop(), missing_bytes=100, max_wait_ms=LONG_MS)
        first, second = FetchWaiters(), FetchWaiters()
        fetch.wait_at(first)
        fetch.wait_at(second)
        first.bytes_appended(60)
        assert not fetch.future.done()
        second.bytes_appended(40)
        assert fetch.future.done()
        fetch.leave()

    asyncio.run(story())


def test_a_cancelled_fetch_is_no_longer_notified():
    async def story():
        fetch = FetchWait(RealLoop(), missing_bytes=1, max_wait_ms=LONG_MS)
        place = FetchWaiters()
        fetch.wait_at(place)
        fetch.leave()
        place.bytes_appended(10)
        assert not fetch.future.done()

    asyncio.run(story())


def test_a_fetch_wakes_by_itself_when_its_time_is_over():
    async def story():
        fetch = FetchWait(RealLoop(), missing_bytes=1, max_wait_ms=1)
        await fetch.future
        fetch.leave()

    asyncio.run(story())


def test_a_high_watermark_that_has_moved_waits_a_little_for_bytes():
    async def story():
        fetch = FetchWait(RealLoop(), missing_bytes=1, max_wait_ms=LONG_MS)
        place = FetchWaiters()
        fetch.wait_at(place)
        place.high_watermark_advanced()
        assert not fetch.future.done()
        place.bytes_appended(1)
        assert fetch.future.result() is False  # there may be more to wait for
        fetch.leave()

    asyncio.run(story())


def test_an_advancing_high_watermark_is_reported_soon():
    async def story():
        loop = RealLoop()
        fetch = FetchWait(loop, missing_bytes=1, max_wait_ms=LONG_MS)
        while not fetch.future.done():
            fetch.high_watermark_advanced()
            await loop.sleep(0)
        assert fetch.future.result() is True
        fetch.leave()

    asyncio.run(story())


def test_a_high_watermark_that_has_moved_makes_no_fetch_wait_longer_than_it_asked_to():
    async def story():
        loop = RealLoop()
        fetch = FetchWait(loop, missing_bytes=1, max_wait_ms=1)
        later = loop.create_future()
        loop.call_later(HIGH_WATERMARK_WAITS_MS / 1000, later.set_result, None)
        fetch.high_watermark_advanced()
        await asyncio.wait([fetch.future, later], return_when=asyncio.FIRST_COMPLETED)
        assert fetch.future.done()
        fetch.leave()

    asyncio.run(story())


def test_producers_are_answered_in_order_as_the_high_watermark_passes_them():
    async def story():
        waiters, loop = HighWatermarkWaiters(), RealLoop()
        first = waiters.wait_for(10, loop=loop, timeout_ms=LONG_MS)
        second = waiters.wait_for(20, loop=loop, timeout_ms=LONG_MS)
        waiters.reached(9)
        assert not first.done()
        waiters.reached(10)
        assert first.result() is ErrorCode.NONE
        assert not second.done()
        waiters.give_up(ErrorCode.KAFKA_STORAGE_ERROR)
        assert second.result() is ErrorCode.KAFKA_STORAGE_ERROR

    asyncio.run(story())


def test_a_delayed_produce_times_out():
    async def story():
        waiters = HighWatermarkWaiters()
        future = waiters.wait_for(10, loop=RealLoop(), timeout_ms=1)
        assert await future is ErrorCode.REQUEST_TIMED_OUT
        waiters.reached(10)

    asyncio.run(story())
