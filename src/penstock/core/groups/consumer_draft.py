"""A group as it will be once the records of this decision have been replayed.

A heartbeat may change a member, then the group epoch, then the target assignment, then the member's current assignment,
and each step depends on the results of the steps before it. So their records are replayed at once on a copy of the
group, by the same code that replays them after the append. Most heartbeats change nothing, and copy nothing.
"""

from collections.abc import Iterable
from typing import TypeVar

from penstock.base.errors import Refusal
from penstock.core.coordinator_shard import Completion, Decision, Work
from penstock.core.groups import consumer_records as records
from penstock.core.groups.consumer_group import FIRST_EPOCH, ConsumerGroup
from penstock.records.internal.record import InternalRecord

R = TypeVar("R")


class Draft:
    """The group with all records so far replayed on a copy; the group itself while there are none."""

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
        """Replace all records so far by these, which turn the group into one of another kind."""
        self.records = list(written)

    def decision(self, response: R | Refusal) -> Decision[R]:
        return Decision(response, tuple(self.records), tuple(self.completions), self.work)
