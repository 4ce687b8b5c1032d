"""Locks of a table: one process refreshes it at a time, and one writes to it; others wait, or fail."""

from contextlib import AbstractContextManager
from typing import Final

from penstock.spark.tables.declaration import Table
from penstock.spark.tables.manifest import locked
from penstock.spark.tables.settings import WRITER_WAIT_MS

LOCK: Final = ".writer"
REFRESH_LOCK: Final = ".refresh"


def writing(table: Table) -> AbstractContextManager[None]:
    """Hold the lock for writing; UserError if another process holds it for longer than the table's settings allow."""
    wait_ms = table.settings[WRITER_WAIT_MS]
    told = f"table {table.name} is being written by another process, and was for {wait_ms / 1000:.0f} s"
    return locked(table.folder / LOCK, wait_ms=wait_ms, told=told)


def refreshing(table: Table) -> AbstractContextManager[None]:
    """Hold the lock for refreshing from a topic; UserError if another process holds it."""
    told = f"table {table.name} is being refreshed by another process"
    return locked(table.folder / REFRESH_LOCK, wait_ms=0, told=told)
