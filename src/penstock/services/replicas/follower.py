"""The follower's role of a replica: it copies the leader's log, batch by batch, and adopts its high watermark.

There is one `FollowerRole` per leader epoch; it also stands for a replica of a partition that has no leader. Truncating
a diverging log is up to `truncation`, since checkpoints have to be written first.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.core.throttling import names_replica
from penstock.storage.errors import NoRoomError
from penstock.storage.log import PlacedBatch

if TYPE_CHECKING:
    from penstock.services.replicas.replica import Replica


class FollowerRole:
    """Follows the leader of one leader epoch."""

    __slots__ = ("leader_epoch", "replica")

    def __init__(self, replica: "Replica") -> None:
        self.replica = replica
        self.leader_epoch = replica.state.leader_epoch

    def __str__(self) -> str:
        return str(self.replica)

    @property
    def is_current(self) -> bool:
        """Whether the replica still follows in this leader epoch, and its log has not failed."""
        return self.replica.follower is self and self.replica.log.failed is None

    def copy(self, batches: Sequence[PlacedBatch], *, now_ms: int) -> None:
        """Append batches of the leader's log that follow the end of this one.

        NoRoomError: the disk is full, which may pass; any other StorageError: the log has failed.
        """
        replica = self.replica
        assert replica.leader is None
        log = replica.log
        size_before = log.size
        try:
            log.append(batches, now_ms=now_ms)
            if not log.epochs.changed:  # else writing the leader epochs may still fail for lack of room
                replica.disk_space.note_room(replica)
        except NoRoomError as error:
            replica.found_no_room(str(error), size=sum(header.size for header, _ in batches))
            raise
        finally:
            # Some batches may have been written before the disk was full.
            replica.unread_bytes += log.size - size_before
        if replica.unflushed_since_ms is None:
            replica.unflushed_since_ms = now_ms
        if log.end_offset - log.recovery_point >= replica.topic_rules.flush_messages:
            replica.request_flush()

    def follow(self, *, high_watermark: int, start_offset: int) -> None:
        """Adopt the leader's high watermark and log start offset, as far as this log goes."""
        replica = self.replica
        end_offset = replica.log.end_offset
        if start_offset > replica.log.start_offset:
            replica.log.advance_start_offset(min(start_offset, end_offset))
        reached = min(high_watermark, end_offset)
        if reached > replica.high_watermark:
            replica.advance_high_watermark(reached)

    @property
    def is_in_sync(self) -> bool:
        """Whether this replica is in the ISR."""
        return self.replica.node_id in self.replica.state.isr

    @property
    def is_being_added(self) -> bool:
        """Whether a reassignment is adding this replica."""
        return self.replica.node_id in self.replica.state.adding

    @property
    def is_throttled(self) -> bool:
        """Whether `follower.replication.throttled.replicas` of the topic names this replica."""
        replica = self.replica
        return names_replica(
            replica.topic_rules.throttled_followers, partition=replica.index, node_id=replica.node_id
        )
