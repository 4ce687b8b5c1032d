"""What an acknowledgement promises: which crashes the records survive (the same table as in ARCHITECTURE.md).

    acks=0                                nothing
    acks=1, all                           the page cache has them: survive a crash of the process
    the same with flush.messages=1        the device has them: survive a power cut
    penstock.storage=memory               lost with the process, whatever the acks

Records that a consumer has read lie below the high watermark, so they are as safe as acknowledged ones.
"""

from bisect import bisect_right
from collections.abc import Sequence

from penstock.sim.checkers.history import Crash, CrashKind, DamagedLog, Keeping, LogName

ACKS_NONE = 0


def promises_anything(acks: int) -> bool:
    """Whether an acknowledgement means that the message is in the log at all."""
    return acks != ACKS_NONE


def survives(keeping: Keeping, crash: CrashKind) -> bool:
    """Whether records that were acknowledged or read are there after such a crash."""
    if keeping.in_memory:
        return False
    return crash is not CrashKind.MACHINE or keeping.flushes_every_batch


class Eras:
    """The eras of a log: a new one begins with each crash that may lose acknowledged records.

    Within an era a log grows only at its end, and shrinks only by retention, compaction and DeleteRecords.
    """

    def __init__(
        self, log: LogName, keeping: Keeping, crashes: Sequence[Crash], damages: Sequence[DamagedLog]
    ) -> None:
        damaged_at = min((damage.at for damage in damages if damage.log == log), default=None)
        self.damaged = damaged_at is not None
        self.breaks = [
            crash.at
            for crash in crashes
            if crash.concerns(log)
            and (not survives(keeping, crash.kind) or (damaged_at is not None and crash.at > damaged_at))
        ]

    def of(self, began: int, ended: int) -> int | None:
        """The era in which something happened; None if it began in one era and ended in another."""
        first, last = bisect_right(self.breaks, began), bisect_right(self.breaks, ended)
        return first if first == last else None

    def start(self, era: int) -> int:
        return self.breaks[era - 1] if era else 0
