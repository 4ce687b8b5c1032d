"""The partition directories in a data directory, and their state at the broker's last start."""

import json
from pathlib import Path
from typing import NamedTuple

from penstock.base.ids import ZERO_ID, format_id
from penstock.storage import file_names
from penstock.storage.data_directory import UNKNOWN_PARTITIONS
from penstock.storage.partition_directories import DELETE, parse_removed_name, partition_of, topic_id_in


class FoundDirectory(NamedTuple):
    """A directory with segments. `state` is None for a directory of a known partition."""

    directory: str
    topic_id: str | None
    segments: int
    size: int
    state: str | None  # "unknown" to the metadata, "stray" or "deleted"


def directories_in(path: Path) -> list[FoundDirectory]:
    """The partition directories of a data directory; empty if `path` is not a data directory."""
    if not path.is_dir():
        return []
    unknown = _unknown_in(path)
    found = (_look_at(each, unknown) for each in sorted(path.iterdir()) if each.is_dir())
    return [each for each in found if each is not None]


def is_unknown(path: Path) -> bool:
    """Whether the partition was not in the metadata at the broker's last start."""
    return path.resolve().name in _unknown_in(path.resolve().parent)


def _look_at(path: Path, unknown: frozenset[str]) -> FoundDirectory | None:
    removed = parse_removed_name(path.name)
    if removed is None and partition_of(path.name) is None:
        return None
    segments = [
        each for each in path.iterdir() if file_names.offset_in(each.name, file_names.LOG) is not None
    ]
    if not segments:
        return None
    state = "unknown" if path.name in unknown else None
    if removed is not None:
        state = "deleted" if removed.suffix == DELETE else "stray"
    size = sum(each.stat().st_size for each in path.iterdir() if each.is_file())
    return FoundDirectory(path.name, _topic_id_of(path), len(segments), size, state)


def _topic_id_of(path: Path) -> str | None:
    try:
        topic_id = topic_id_in((path / file_names.PARTITION_METADATA).read_bytes())
    except OSError:
        return None
    return None if topic_id == ZERO_ID else format_id(topic_id)


def _unknown_in(path: Path) -> frozenset[str]:
    try:
        return frozenset(json.loads((path / UNKNOWN_PARTITIONS).read_bytes()))
    except (OSError, ValueError, TypeError):
        return frozenset()
