"""OffsetCommit, TxnOffsetCommit, OffsetFetch, OffsetDelete and DeleteGroups, for groups of all kinds.

The caller checks that the topics exist: a shard knows no topics.
"""

from collections.abc import Mapping
from operator import itemgetter

from penstock.base.errors import ErrorCode
from penstock.core.coordinator_shard import BatchProducer, Decision
from penstock.core.groups.group import Group
from penstock.core.groups.offsets import CommittedRecord, Offsets, Position, tombstones
from penstock.core.groups.requests import (
    NO_TOPIC_ID,
    RETENTION_OF_BROKER,
    CommittedOffset,
    DeleteOffsets,
    FetchOffsets,
    OffsetCommit,
    OffsetToCommit,
)
from penstock.core.groups.settings import GroupSettings
from penstock.records.internal.group_shapes import OffsetCommitKey, OffsetCommitValue
from penstock.records.internal.record import InternalRecord

# The first version of OffsetCommit that knows GROUP_ID_NOT_FOUND.
_KNOWS_MISSING_GROUPS = 9
_NO_EXPIRY = -1
_NEVER_MS = 2**63 - 1


class OffsetRequests:
    """Decides about offsets; the records come back through `Offsets.replay`."""

    def __init__(self, groups: Mapping[str, Group], offsets: Offsets, settings: GroupSettings) -> None:
        self._groups = groups
        self._offsets = offsets
        self._settings = settings

    def commit(
        self, request: OffsetCommit, now_ms: int, producer: BatchProducer | None = None
    ) -> Decision[tuple[ErrorCode, ...]]:
        """One error per offset, in order; with a producer, as a part of its transaction."""
        error = self._check_commit(request, transactional=producer is not None)
        if error is not ErrorCode.NONE:
            return Decision.refused(error)
        group = self._groups.get(request.group_id)
        if group is not None and producer is None:
            group.committed(member_id=request.member_id, now_ms=now_ms)
        errors, records = [], []
        for offset in request.offsets:
            error = self._check_metadata(offset)
            errors.append(error)
            if error is ErrorCode.NONE:
                records.append(_record(request, offset, now_ms))
        return Decision(tuple(errors), tuple(records), producer=producer)

    def _check_commit(self, request: OffsetCommit, *, transactional: bool) -> ErrorCode:
        group = self._groups.get(request.group_id)
        if group is not None:
            return group.check_commit(
                member_id=request.member_id,
                instance_id=request.instance_id,
                generation=request.generation,
                transactional=transactional,
                version=request.version,
                partitions=[(offset.topic_id, offset.partition) for offset in request.offsets],
            )
        if request.generation < 0:
            return ErrorCode.NONE  # a simple group: its first commit creates it
        if request.version >= _KNOWS_MISSING_GROUPS and not transactional:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return ErrorCode.ILLEGAL_GENERATION

    def _check_metadata(self, offset: OffsetToCommit) -> ErrorCode:
        if len(offset.metadata or "") > self._settings.offset_metadata_bytes_max:
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        return ErrorCode.NONE

    def fetch(self, request: FetchOffsets) -> Decision[tuple[CommittedOffset, ...]]:
        """The committed offset of each partition of the request, in order; or of all, sorted by topic and partition."""
        group = self._groups.get(request.group_id)
        if group is not None:
            error = group.check_fetch(member_id=request.member_id, member_epoch=request.member_epoch)
            if error is not ErrorCode.NONE:
                return Decision.refused(error)
        committed = self._offsets.of(request.group_id)
        positions = request.partitions
        if positions is None:
            ids = request.topic_ids
            positions = [
                position
                for position, found in sorted(committed.items(), key=itemgetter(0))
                if not _is_for_another_topic(found, ids.get(position[0], NO_TOPIC_ID))
            ]
        return Decision(tuple(self._fetch(request, position, committed) for position in positions))

    def _fetch(
        self, request: FetchOffsets, position: Position, committed: Mapping[Position, CommittedRecord]
    ) -> CommittedOffset:
        if request.require_stable and self._offsets.is_open(request.group_id, position):
            return CommittedOffset(*position, error=ErrorCode.UNSTABLE_OFFSET_COMMIT)
        found = committed.get(position)
        if found is None or _is_for_another_topic(found, request.topic_ids.get(position[0], NO_TOPIC_ID)):
            return CommittedOffset(*position)
        value = found.value
        return CommittedOffset(*position, value.offset, value.leader_epoch, value.metadata)

    def delete(self, request: DeleteOffsets) -> Decision[tuple[ErrorCode, ...]]:
        """One error per partition, in order. A partition without a committed offset is no error."""
        group = self._groups.get(request.group_id)
        if group is None:
            return Decision.refused(ErrorCode.GROUP_ID_NOT_FOUND)
        error = group.check_offset_delete()
        if error is not ErrorCode.NONE:
            return Decision.refused(error)
        subscribed = {topic: group.is_subscribed_to(topic) for topic, _ in request.partitions}
        errors = tuple(
            ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed[topic] else ErrorCode.NONE
            for topic, _ in request.partitions
        )
        there = set(self._offsets.positions(request.group_id))
        deleted = dict.fromkeys(
            position
            for position, error in zip(request.partitions, errors, strict=True)
            if error is ErrorCode.NONE and position in there
        )
        return Decision(errors, tuple(tombstones(request.group_id, deleted)))

    def delete_group(self, group_id: str) -> Decision[None]:
        """Delete the group and all its offsets, if it has no members."""
        group = self._groups.get(group_id)
        if group is None:
            return Decision.refused(ErrorCode.GROUP_ID_NOT_FOUND)
        if not group.is_empty:
            return Decision.refused(ErrorCode.NON_EMPTY_GROUP)
        offsets = tombstones(group_id, list(self._offsets.positions(group_id)))
        return Decision(None, (*offsets, *group.tombstones()))


def _record(request: OffsetCommit, offset: OffsetToCommit, now_ms: int) -> InternalRecord:
    retention_ms = request.retention_ms
    value = OffsetCommitValue(
        offset=offset.offset,
        leader_epoch=offset.leader_epoch,
        metadata=offset.metadata or "",
        commit_timestamp=now_ms,
        expire_timestamp=_NO_EXPIRY
        if retention_ms == RETENTION_OF_BROKER
        else min(now_ms + retention_ms, _NEVER_MS),
        topic_id=offset.topic_id,
    )
    key = OffsetCommitKey(group=request.group_id, topic=offset.topic, partition=offset.partition)
    return InternalRecord(key, value)


def _is_for_another_topic(committed: CommittedRecord, topic_id: bytes) -> bool:
    committed_id = committed.value.topic_id
    return NO_TOPIC_ID not in (committed_id, topic_id) and committed_id != topic_id
