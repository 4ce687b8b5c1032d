"""Damaged ranges of a log, and what readers find wrong with a log."""

from typing import NamedTuple, TypeAlias


class Damage(NamedTuple):
    """Offsets whose batches are lost, and the bytes of the file in their place; there may be none."""

    first_offset: int
    next_offset: int
    position: int
    end: int
    # Whether it was found by reading what had been synced: the next start trusts that part, and reading finds it again.
    was_trusted: bool = False


class IndexRebuilt(NamedTuple):
    """An index was damaged, and was rebuilt from the batches of its segment."""

    why: str


class BatchesDamaged(NamedTuple):
    """Batches that were synced are not what was written. Reads of their offsets fail with CORRUPT_MESSAGE."""

    path: str
    damage: Damage


Finding: TypeAlias = IndexRebuilt | BatchesDamaged
