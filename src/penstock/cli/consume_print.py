"""Prints records as they arrive, up to a maximum, and their number on stderr.

A pipe or a file gets the records' bytes. A terminal gets text: bytes that are not UTF-8 become U+FFFD.
"""

import sys

from penstock.base.ids import TopicPartition
from penstock.cli.consume_format import Format
from penstock.cli.progress import Progress
from penstock.client.fetch import read_fetched
from penstock.records.batch import BatchHeader


class Printer:
    """Prints records; `is_full` once the maximum is reached."""

    def __init__(self, as_line: Format, *, is_text: bool, count_max: int | None) -> None:
        self._as_line = as_line
        self._is_text = is_text or sys.stdout.isatty()
        self._count_left = count_max
        self._record_count = 0
        self._bytes_count = 0
        # On a terminal the records themselves show the progress.
        self._progress = Progress(watched=sys.stderr.isatty() and not sys.stdout.isatty())

    @property
    def is_full(self) -> bool:
        return self._count_left == 0

    def print_batch(
        self,
        partition: TopicPartition,
        header: BatchHeader,
        batch: memoryview,
        *,
        from_offset: int,
        stop: int | None = None,
    ) -> int:
        """Print a batch's records from an offset up to a stop offset; returns the next offset to read."""
        lines = []
        next_offset = header.next_offset
        for record in read_fetched(batch, header, from_offset=from_offset):
            if self._count_left == 0 or (stop is not None and record.offset >= stop):
                next_offset = record.offset
                break
            lines.append(self._as_line(partition, record))
            if self._count_left is not None:
                self._count_left -= 1
        if lines:
            self._write(b"\n".join(lines) + b"\n")
        self._record_count += len(lines)
        self._bytes_count += header.size
        return next_offset

    def _write(self, data: bytes) -> None:
        if self._is_text:
            sys.stdout.write(data.decode("utf-8", "replace"))
        else:
            sys.stdout.buffer.write(data)

    def show(self) -> None:
        """Flush stdout."""
        sys.stdout.flush()
        self._progress.show_counts(record_count=self._record_count, bytes_count=self._bytes_count)

    def close(self) -> None:
        self._progress.clear()
