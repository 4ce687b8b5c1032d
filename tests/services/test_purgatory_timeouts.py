"""Waits that time out while a disk hangs do not accumulate in memory."""

import asyncio

from penstock.base.errors import ErrorCode
from penstock.services.purgatory import HighWatermarkWaiters
from penstock.world.real_loop import RealLoop


def test_timed_out_waits_are_removed():
    async def story() -> int:
        waiters = HighWatermarkWaiters()
        for offset in range(100):
            code = await waiters.wait_for(offset, loop=RealLoop(), timeout_ms=0)
            assert code is ErrorCode.REQUEST_TIMED_OUT
        return len(waiters.waiting)

    assert asyncio.run(story()) <= 1
