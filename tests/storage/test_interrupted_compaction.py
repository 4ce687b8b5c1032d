"""Compaction that is broken off, or whose device fails, after the swap: the swapped-in segment is the data."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

import pytest

from penstock.storage.log import Log, LogConfig
from penstock.world.memory_disk import MemoryDisk
from tests.storage.compacting import InlineWork, put, run_compaction, table_of
from tests.storage.helpers import NOW_MS, create_log, open_log

T = TypeVar("T")

COMPACTED = LogConfig(compact=True, delete=False)
TABLE = {b"a": b"3", b"b": b"1"}


class WorkThatFailsAfterTheSwap(InlineWork):
    """Raises when the first segment has been swapped in and the names are to be synced."""

    def __init__(self, log: Log, error: BaseException) -> None:
        super().__init__()
        self._old = log.segments[0]
        self._error = error

    async def run(self, function: Callable[[], T]) -> T:
        if self._old.deleted:
            raise self._error
        return function()


@pytest.fixture
def disk() -> MemoryDisk:
    return MemoryDisk()


@pytest.fixture
def log(disk: MemoryDisk) -> Log:
    log = create_log(disk, COMPACTED)
    put(log, ("a", "1"), ("b", "1"))
    put(log, ("a", "2"))
    log.roll(now_ms=NOW_MS)
    put(log, ("a", "3"))
    return log


def test_a_stop_in_the_middle_of_the_swap_loses_nothing(disk: MemoryDisk, log: Log):
    with pytest.raises(asyncio.CancelledError):
        run_compaction(log, disk, work=WorkThatFailsAfterTheSwap(log, asyncio.CancelledError()))
    assert table_of(log) == TABLE
    again, _ = open_log(disk, COMPACTED, clean=False, recovery_point=log.recovery_point)
    assert table_of(again) == TABLE


def test_names_that_cannot_be_synced_take_the_log_offline_and_lose_nothing(disk: MemoryDisk, log: Log):
    assert run_compaction(log, disk, work=WorkThatFailsAfterTheSwap(log, OSError(5, "broken"))) is None
    assert log.failed is not None
    again, _ = open_log(disk, COMPACTED, clean=False, recovery_point=log.recovery_point)
    assert table_of(again) == TABLE
