"""What an answer promises (DESIGN 6): which crash what was written, or read, outlives.

    acks=0                                nothing
    acks=1, all                           the page cache has it: outlives the process
    the same with flush.messages=1        the device has it: outlives the machine
    penstock.storage=memory               gone with the process, whatever the acks

What a reader was shown lies below the high watermark, and so is as safe as what was acknowledged.
"""

from bisect import bisect_right
from collections.abc import Sequence

from penstock.sim.checkers.history import Crash, CrashKind, DamagedLog, Keeping, LogName

ACKS_NONE = 0


def promises_anything(acks: int) -> bool:
    """Whether an acknowledgement means that the message is in the log at all."""
    return acks != ACKS_NONE


def outlives(keeping: Keeping, crash: CrashKind) -> bool:
    """Whether what was acknowledged or shown is there after such a crash."""
    if keeping.in_memory:
        return False
    return crash is not CrashKind.MACHINE or keeping.flushes_every_batch


class Eras:
    """A log's time, cut wherever it was allowed to lose what it had shown.

    Within an era a log only grows at its end, and shrinks only by its own rules.
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
            and (not outlives(keeping, crash.kind) or (damaged_at is not None and crash.at > damaged_at))
        ]

    def of(self, began: int, ended: int) -> int | None:
        """The era in which something happened; None if a break lies within, so that nobody can say."""
        first, last = bisect_right(self.breaks, began), bisect_right(self.breaks, ended)
        return first if first == last else None

    def start(self, era: int) -> int:
        return self.breaks[era - 1] if era else 0
