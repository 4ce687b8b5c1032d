"""A group as it will be once the records of this decision have been replayed.

A heartbeat may change a member, then the group's epoch, then the target, then what the member has; each step
looks at what the steps before it came to. So records are replayed on a copy at once, by the code that will
replay them for good. Most heartbeats change nothing, and nothing is copied for them.
"""

from collections.abc import Iterable
from typing import TypeVar

from penstock.base.errors import Refusal
from penstock.core.coordination import Completion, Decision, Work
from penstock.core.groups import consumer_records as records
from penstock.core.groups.consumer_group import FIRST_EPOCH, ConsumerGroup
from penstock.records.internal.record import InternalRecord

R = TypeVar("R")


class Draft:
    """The group with all that was written so far; the group itself until something is."""

    def __init__(self, group: ConsumerGroup) -> None:
        self.group = group
        self.records: list[InternalRecord] = []
        self.completions: list[Completion] = []
        self.work: Work | None = None
        self._original: ConsumerGroup | None = group
        self._bumped = False

    @classmethod
    def of_new_group(cls, group_id: str) -> "Draft":
        """A new group, whose first epoch has an empty target assignment."""
        draft = cls(ConsumerGroup(group_id))
        draft._original = None
        draft.write(records.group_epoch(group_id, epoch=FIRST_EPOCH, metadata_hash=0))
        draft.write(records.target_epoch(group_id, epoch=FIRST_EPOCH, timestamp_ms=0))
        return draft

    def write(self, *written: InternalRecord) -> None:
        if written and self.group is self._original:
            self.group = self.group.copy()
        for record in written:
            self.group.replay(record)
        self.records.extend(written)

    def bump_epoch(self, metadata_hash: int | None = None) -> None:
        """The group has changed: a new assignment is due. Once per decision is enough."""
        group = self.group
        epoch = group.epoch if self._bumped else group.epoch + 1
        if metadata_hash is None:
            metadata_hash = group.metadata_hash
        if epoch != group.epoch or metadata_hash != group.metadata_hash:
            self.write(records.group_epoch(group.group_id, epoch=epoch, metadata_hash=metadata_hash))
        self._bumped = True

    def become(self, written: Iterable[InternalRecord]) -> None:
        """End as something else: these records stand for all that was written so far."""
        self.records = list(written)

    def decision(self, response: R | Refusal) -> Decision[R]:
        return Decision(response, tuple(self.records), tuple(self.completions), self.work)
