"""The directory in which `penstock produce --spool` stores records until a broker has acknowledged them.

Every chunk of input is two files, named by its number:

    00000001.records   the records as JSON lines, after a first line that names the topic; written first, and synced
    00000001.batches   the same as batches with producer id and sequence numbers; written and synced before sending

Both are removed once the broker has acknowledged the batches. The next command first sends what a killed one left: the
batches if there are any, so that the broker recognises duplicates, else the records. A chunk has no more batches per
partition than a broker remembers of a producer.
"""

import fcntl
import json
import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from penstock.base.errors import UserError
from penstock.base.ids import TopicPartition
from penstock.cli.output import format_bytes, json_bytes, json_line
from penstock.cli.produce_input import JsonLines
from penstock.client.producer import NewRecord

BYTES_MAX: Final = 1 << 30
_NUMBERED: Final = "[0-9]" * 8  # the directory may have other files
_SIZES: Final = struct.Struct(">III")  # of the topic's name, the partition, the size of the batch

Batches = Sequence[tuple[TopicPartition, bytes]]


class Chunk(NamedTuple):
    """Spooled records; with `batches` once they are encoded for sending."""

    number: int
    topic: str
    records: list[NewRecord]
    batches: Batches | None


class Spool:
    """One spool directory, locked by one command at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise UserError(
                f"another command uses the spool {path}; wait for it, or name another one"
            ) from None
        for leftover in path.glob(f"{_NUMBERED}.*.tmp"):
            leftover.unlink()
        for batches in path.glob(f"{_NUMBERED}.batches"):
            if not batches.with_suffix(".records").exists():
                batches.unlink()  # they were acknowledged

    def close(self) -> None:
        os.close(self._lock)

    def keep(self, topic: str, records: Sequence[NewRecord]) -> None:
        """Write records to a new chunk, and fsync it."""
        lines = [json_line({"topic": topic}), *(json_line(_as_json(record)) for record in records)]
        content = "\n".join(lines).encode() + b"\n"
        if self._size() + len(content) > BYTES_MAX:
            raise UserError(
                f"the spool {self.path} is full ({format_bytes(BYTES_MAX)}); "
                "no record in it is lost, but new ones are rejected until a broker is reachable"
            )
        number = max(self._numbers(), default=0) + 1
        self._write(f"{number:08}.records", content)

    def chunks(self) -> Iterator[Chunk]:
        """The chunks, oldest first."""
        for number in self._numbers():
            head, *lines = (self.path / f"{number:08}.records").read_bytes().splitlines()
            read = JsonLines()
            batches = self.path / f"{number:08}.batches"
            yield Chunk(
                number,
                json.loads(head)["topic"],
                [read.record(line) for line in lines],
                list(_read_batches(batches.read_bytes())) if batches.exists() else None,
            )

    def ready(self, chunk: Chunk, batches: Batches) -> Chunk:
        """Write a chunk's batches, and fsync them, before they are sent."""
        parts: list[bytes] = []
        for (topic, partition), batch in batches:
            name = topic.encode()
            parts += (_SIZES.pack(len(name), partition, len(batch)), name, batch)
        self._write(f"{chunk.number:08}.batches", b"".join(parts))
        return chunk._replace(batches=batches)

    def drop(self, chunk: Chunk) -> None:
        """Remove a chunk that was acknowledged."""
        # Records first: batches alone are ignored, records alone would be sent with new sequence numbers.
        (self.path / f"{chunk.number:08}.records").unlink()
        self._sync()
        (self.path / f"{chunk.number:08}.batches").unlink(missing_ok=True)

    def record_count(self) -> int:
        return sum(
            (self.path / f"{number:08}.records").read_bytes().count(b"\n") - 1 for number in self._numbers()
        )

    def _numbers(self) -> list[int]:
        return sorted(int(path.stem) for path in self.path.glob(f"{_NUMBERED}.records"))

    def _size(self) -> int:
        return sum(path.stat().st_size for path in self.path.iterdir())

    def _write(self, name: str, content: bytes) -> None:
        temporary = self.path / f"{name}.tmp"
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(self.path / name)
        self._sync()

    def _sync(self) -> None:
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _read_batches(content: bytes) -> Iterator[tuple[TopicPartition, bytes]]:
    position = 0
    while position < len(content):
        name_size, partition, batch_size = _SIZES.unpack_from(content, position)
        position += _SIZES.size
        name = content[position : position + name_size].decode()
        position += name_size
        yield TopicPartition(name, partition), content[position : position + batch_size]
        position += batch_size


def _as_json(record: NewRecord) -> dict[str, object]:
    return {
        "key": json_bytes(record.key),
        "value": json_bytes(record.value),
        "headers": [[name, json_bytes(value)] for name, value in record.headers],
        "timestamp": record.timestamp,
        "partition": record.partition,
    }
