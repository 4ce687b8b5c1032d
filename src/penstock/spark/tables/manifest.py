"""The manifest: the files that a table consists of, and the batches that were written to it.

`manifest.json` is replaced by one rename, so readers see whole batches or nothing of them. It also has the last batch
of each query, so that a repeated batch is recognised. Files that a newer manifest leaves out are kept for a while under
`retired`: queries that began before still read them.
"""

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from penstock.base.errors import UserError

MANIFEST: Final = "manifest.json"
DATA: Final = "data"
CHECKPOINT: Final = "checkpoint"  # the name of the query that feeds a table from a topic
_FORMAT: Final = 1
_QUERIES_MAX: Final = 100  # queries whose last batch is kept
_LOCK_PAUSE_S: Final = 0.02


class DataFile(NamedTuple):
    """One Parquet file; its path is relative to the table's folder."""

    path: str
    rows: int
    bytes_count: int
    bucket: int | None = None


class Retired(NamedTuple):
    """A file that is not part of the table any more."""

    path: str
    since_ms: int


@dataclass(frozen=True)
class Manifest:
    """A table at one moment."""

    version: int = 0
    columns: Mapping[str, Any] | None = None  # the schema in Spark's JSON; none before the first batch
    files: tuple[DataFile, ...] = ()
    rejected: tuple[DataFile, ...] = ()
    retired: tuple[Retired, ...] = ()
    applied: Mapping[str, int] = field(default_factory=dict)  # by query, its last batch
    offsets: Mapping[str, Mapping[str, int]] = field(
        default_factory=dict
    )  # by topic and partition, the next offset to read

    @property
    def row_count(self) -> int:
        return sum(each.rows for each in self.files)

    @property
    def rejected_count(self) -> int:
        return sum(each.rows for each in self.rejected)

    @property
    def bytes_count(self) -> int:
        return sum(each.bytes_count for each in self.files)

    def has(self, query_id: str, batch_id: int) -> bool:
        """Whether a batch was written. A query's batches come in order."""
        return self.applied.get(query_id, -1) >= batch_id

    def with_applied(self, query_id: str, batch_id: int) -> dict[str, int]:
        """The last batch of each query, with this one; the least recent query is dropped beyond the limit."""
        later = {each: batch for each, batch in self.applied.items() if each != query_id}
        later[query_id] = batch_id
        return dict(list(later.items())[-_QUERIES_MAX:])


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a table; an empty one if nothing was written yet."""
    path = folder / MANIFEST
    try:
        content = json.loads(path.read_text())
    except FileNotFoundError:
        return Manifest()
    except ValueError as error:
        raise UserError(f"{path} is no manifest of a table: {error}") from None
    try:
        if content["penstock-manifest"] > _FORMAT:
            raise UserError(f"{path} was written by a newer Penstock")
        return Manifest(
            content["version"],
            content["columns"],
            tuple(DataFile(*each) for each in content["files"]),
            tuple(DataFile(*each) for each in content["rejected"]),
            tuple(Retired(*each) for each in content["retired"]),
            content["applied"],
            content["offsets"],
        )
    except (KeyError, TypeError) as error:
        raise UserError(f"{path} is no manifest of a table: {error!r}") from None


def replace_manifest(folder: Path, manifest: Manifest) -> None:
    """Replace the manifest atomically. The files that it names must be synced before."""
    for each in (*manifest.files, *manifest.rejected):
        if not each.path:
            raise AssertionError("a file without a path")
    content = {
        "penstock-manifest": _FORMAT,
        "version": manifest.version,
        "columns": manifest.columns,
        "files": [list(each) for each in manifest.files],
        "rejected": [list(each) for each in manifest.rejected],
        "retired": [list(each) for each in manifest.retired],
        "applied": dict(manifest.applied),
        "offsets": {topic: dict(ends) for topic, ends in manifest.offsets.items()},
    }
    replace_file(folder / MANIFEST, json.dumps(content, separators=(",", ":")))


def replace_file(path: Path, content: str) -> None:
    """Replace a small file atomically: after a crash it has the old content or the new."""
    temporary = path.with_name(f"{path.name}.tmp")
    with temporary.open("w") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(path)
    sync(path.parent)


def sync(path: Path) -> None:
    """Fsync a file, or a folder's entries."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def locked(path: Path, *, wait_ms: int, told: str) -> Iterator[None]:
    """Hold a lock file, which the kernel releases when the process ends; UserError with `told` after waiting."""
    deadline = time.monotonic() + wait_ms / 1000
    with path.open("a") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise UserError(told) from None
                time.sleep(_LOCK_PAUSE_S)
        yield  # closing the file releases the lock
