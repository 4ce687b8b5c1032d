"""Removes a table: the files in its manifest, its checkpoint, its declaration. Needs no Spark.

Any other file in the folder stays, and with it the folder. The declaration is renamed first: from then on there is no
table, and the next drop finishes one that was interrupted.
"""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from penstock.base.errors import UserError
from penstock.spark.tables.declaration import DECLARATION, Table, open_table
from penstock.spark.tables.folders import writers_folders
from penstock.spark.tables.locking import LOCK, REFRESH_LOCK, refreshing, writing
from penstock.spark.tables.manifest import CHECKPOINT, DATA, MANIFEST, Manifest, read_manifest, sync

_DROPPING: Final = f"{DECLARATION}.dropped"
_BOOKKEEPING: Final = re.compile(r"_SUCCESS|\..*\.crc")  # the bookkeeping files that Spark writes


class Dropped(NamedTuple):
    """How many of a table's files were removed, and which others are left in its folder."""

    files: int
    left: list[Path]


def open_for_dropping(warehouse: Path, name: str) -> Table:
    """Open a table, also one whose drop was interrupted."""
    folder = warehouse.resolve() / name
    if (folder / _DROPPING).exists() and not (folder / DECLARATION).exists():
        (folder / _DROPPING).rename(folder / DECLARATION)
    return open_table(warehouse, name)


def drop(table: Table) -> Dropped:
    """Remove a table; UserError, with nothing removed, if its manifest names files outside of its folder."""
    folder = table.folder
    with refreshing(table), writing(table):
        named = list(_named(folder, read_manifest(folder)))
        (folder / DECLARATION).rename(folder / _DROPPING)
        sync(folder)
        count = sum(_remove(path) for path in named)
        for each in list(writers_folders(folder)):
            _remove_bookkeeping(each)
        if (folder / CHECKPOINT).is_dir() and not (folder / CHECKPOINT).is_symlink():
            shutil.rmtree(folder / CHECKPOINT)
        for name in (MANIFEST, f"{MANIFEST}.tmp", _DROPPING, REFRESH_LOCK, LOCK):
            _remove(folder / name)
    for each in (folder / DATA, folder):
        _remove_if_empty(each)
    return Dropped(count, sorted(_left(folder)))


def _named(folder: Path, manifest: Manifest) -> Iterator[Path]:
    files = [each.path for each in (*manifest.files, *manifest.rejected)]
    for name in (*files, *(each.path for each in manifest.retired)):
        path = folder / name
        if not path.resolve().is_relative_to(folder.resolve() / DATA):
            raise UserError(f"the manifest of table {folder.name} names {name}, which is not below {DATA}/")
        yield path


def _remove_bookkeeping(folder: Path) -> None:
    """Remove Spark's bookkeeping files of a folder, unless it has files that are not the table's."""
    if all(_BOOKKEEPING.fullmatch(path.name) for path in folder.iterdir()):
        for path in list(folder.iterdir()):
            _remove(path)
        folder.rmdir()


def _remove(path: Path) -> bool:
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    return True


def _remove_if_empty(folder: Path) -> None:
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def _left(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*") if folder.is_dir() else ():
        if not path.is_dir() or path.is_symlink():
            yield path
