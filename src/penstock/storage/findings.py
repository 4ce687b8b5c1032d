"""What may be found wrong with a log while it is read."""

from typing import NamedTuple, TypeAlias

from penstock.storage.segment import Damage


class IndexRebuilt(NamedTuple):
    """An index was damaged, and was made again from the batches of its segment."""

    why: str


class BatchesDamaged(NamedTuple):
    """Batches that were synced are not what was written. Whoever reads there hears of it."""

    path: str
    damage: Damage


Finding: TypeAlias = IndexRebuilt | BatchesDamaged
