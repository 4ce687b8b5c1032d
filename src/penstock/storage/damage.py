"""Damaged ranges of a log, and the damage that reads report as findings."""

from typing import NamedTuple, TypeAlias


class Damage(NamedTuple):
    """Offsets whose batches are lost, and the bytes of the file in their place; there may be none."""

    first_offset: int
    next_offset: int
    position: int
    end: int
    # Whether it lies below the recovery point: the next start does not scan that part, and a read finds it again.
    was_trusted: bool = False


class IndexRebuilt(NamedTuple):
    """An index was damaged, and was rebuilt from the batches of its segment."""

    why: str


class BatchesDamaged(NamedTuple):
    """Batches that were synced are not what was written. Reads of their offsets fail with CORRUPT_MESSAGE."""

    path: str
    damage: Damage


Finding: TypeAlias = IndexRebuilt | BatchesDamaged
