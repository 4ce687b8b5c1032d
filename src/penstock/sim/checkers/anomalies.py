"""The kinds of broken promises that the checkers find, and their texts."""

from enum import StrEnum
from typing import NamedTuple

from penstock.sim.checkers.history import LogName


class AnomalyKind(StrEnum):
    """What went wrong; the words are those people read."""

    LOST_WRITE = "lost write"  # acknowledged or read before, and missing later
    UNSEEN_WRITE = "unseen write"  # acknowledged, and the log ends below it at the end of the run
    LOW_WATERMARK = (
        "low watermark"  # an answer has a high watermark below a record that was read or acknowledged before
    )
    DUPLICATE = "duplicate"  # one message at two offsets, though it was sent once or idempotently
    INCONSISTENT_OFFSET = "inconsistent offset"  # two messages at one offset
    NONMONOTONIC_POLL = "non-monotonic poll"  # a reader gets lower offsets without a seek
    SKIPPING_POLL = "skipping poll"  # a reader passes over what others read there
    NONMONOTONIC_SEND = "non-monotonic send"  # sent after another was acknowledged, placed before it
    SKIPPING_SEND = "skipping send"  # the messages of one batch do not lie one after the other
    ABORTED_READ = "aborted read"  # a message that was refused, or whose transaction was aborted, is read
    UNCOMMITTED_READ = "uncommitted read"  # read too early: above the high watermark, or before the commit
    OWN_UNCOMMITTED_READ = "read of one's own uncommitted write"
    TORN_TRANSACTION = "torn transaction"  # a part of a transaction is visible, another never
    UNWRITTEN_READ = "unwritten read"  # a record was read that was not sent to this log, or not like this
    LOST_COMMIT = "lost commit"  # a group's offset is not the last one that was acknowledged
    BACKWARD_COMMIT = "backward commit"  # a group takes an offset below one that it took before
    SHARED_PARTITION = "shared partition"  # two members have one partition in one generation
    COPIED_TWICE = "copied twice"  # a message has two copies that readers of committed data see
    NOT_COPIED = "not copied"  # the group has passed a message, and no copy of it is committed


OF_COORDINATORS = frozenset(
    {
        AnomalyKind.LOST_COMMIT,
        AnomalyKind.BACKWARD_COMMIT,
        AnomalyKind.SHARED_PARTITION,
        AnomalyKind.COPIED_TWICE,
        AnomalyKind.NOT_COPIED,
    }
)


class Anomaly(NamedTuple):
    """One broken promise."""

    kind: AnomalyKind
    log: LogName
    what: str  # one line for people

    def __str__(self) -> str:
        return f"{self.kind} in {self.log}: {self.what}"
