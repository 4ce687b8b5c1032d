"""Memory of large requests: freed a slice per turn of the loop, once nothing refers to it."""

import asyncio
import threading
from pathlib import Path

from penstock.world.large_buffers import FREED_PER_TURN_BYTES, LARGE_BYTES_MIN, LargeBuffers
from penstock.world.real_loop import RealLoop

SLICES = 8
SIZE = SLICES * FREED_PER_TURN_BYTES


def resident_bytes() -> int:
    """Of anonymous memory, which is what buffers are made of."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


def fill(buffer: bytearray | memoryview) -> None:
    for position in range(0, len(buffer), 4096):
        buffer[position] = 1


def test_a_large_buffer_is_zero_and_has_its_size() -> None:
    async def story() -> None:
        buffers = LargeBuffers(RealLoop())
        for size in (1, LARGE_BYTES_MIN - 1, LARGE_BYTES_MIN, LARGE_BYTES_MIN + 1):
            buffer = buffers.allocate(size)
            assert len(buffer) == size
            assert not any(buffer[position] for position in range(0, size, 4096))

    asyncio.run(story())


def test_a_large_buffer_is_freed_in_slices_when_its_last_view_is_gone() -> None:
    async def story() -> None:
        buffers = LargeBuffers(RealLoop())
        whole = buffers.allocate(SIZE)
        fill(whole)
        part = memoryview(whole)[10:20]
        full = resident_bytes()
        del whole
        await asyncio.sleep(0)
        assert buffers.dropped_count == 0, "a view of it is in use"
        del part
        seen = []
        for _ in range(3):
            await asyncio.sleep(0)
            seen.append(full - resident_bytes())
        assert buffers.dropped_count == 1
        assert all(freed < SIZE - FREED_PER_TURN_BYTES for freed in seen)
        while buffers.dropped_count:
            await asyncio.sleep(0)
        assert full - resident_bytes() > SIZE - FREED_PER_TURN_BYTES

    asyncio.run(story())


def test_buffers_that_other_threads_drop_are_freed_as_well() -> None:
    async def story() -> None:
        buffers = LargeBuffers(RealLoop())
        held = [buffers.allocate(SIZE), buffers.allocate(SIZE)]
        for buffer in held:
            fill(buffer)
        del buffer
        full = resident_bytes()
        thread = threading.Thread(target=held.clear)
        thread.start()
        thread.join()
        await asyncio.sleep(0)
        while buffers.dropped_count:
            await asyncio.sleep(0)
        assert full - resident_bytes() > 2 * SIZE - FREED_PER_TURN_BYTES

    asyncio.run(story())


def test_a_buffer_that_outlives_the_loop_is_freed_at_once() -> None:
    async def story() -> bytearray | memoryview:
        return LargeBuffers(RealLoop()).allocate(SIZE)

    buffer = asyncio.run(story())
    fill(buffer)
    full = resident_bytes()
    del buffer
    assert full - resident_bytes() > SIZE - FREED_PER_TURN_BYTES
