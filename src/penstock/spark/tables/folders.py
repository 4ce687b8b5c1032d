"""The folders that writers create below a table's `data`, one per batch or merge. Needs no Spark.

Only folders with these names are ever removed; a file or folder that a user put there stays.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from uuid import uuid4

from penstock.spark.tables.manifest import DATA

_OURS: Final = re.compile(r"(batch-\d+|merged)-[0-9a-f]{32}(-.*)?")


def batch_folder(batch_id: int) -> str:
    """A new folder for an attempt to write a batch, relative to the table's."""
    return f"{DATA}/batch-{batch_id}-{uuid4().hex}"


def merged_folder() -> str:
    """A new folder for merged files, relative to the table's."""
    return f"{DATA}/merged-{uuid4().hex}"


def writers_folders(table: Path) -> Iterator[Path]:
    """The folders that writers created below a table's folder."""
    data = table / DATA
    if data.is_dir():
        for path in data.iterdir():
            if path.is_dir() and not path.is_symlink() and _OURS.fullmatch(path.name):
                yield path
