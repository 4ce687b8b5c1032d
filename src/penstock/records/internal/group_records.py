"""The records of __consumer_offsets (types 0-8 and 16): `encode` and `decode`.

Values are written in the versions that Kafka 4.3.1 writes, and read in all of them. Type 0 is the oldest form of
a committed offset: it is read and never written. Share and streams groups (types 9-15, 17-19) are not known here.
"""

from typing import Final

from penstock.records.internal.fast_encoders import encode_offset
from penstock.records.internal.group_shapes import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from penstock.records.internal.record import RecordFormat, RecordType, RecordValue

_EXPIRING_OFFSET_VERSION: Final = 1  # the one version that carries an expiry of its own
_NEVER: Final = -1


class _GroupRecordFormat(RecordFormat):
    def version_of(self, value: RecordValue, type_: RecordType) -> int:
        if isinstance(value, OffsetCommitValue) and value.expire_timestamp != _NEVER:
            return _EXPIRING_OFFSET_VERSION
        return super().version_of(value, type_)


GROUP_RECORDS: Final = _GroupRecordFormat(
    RecordType(LegacyOffsetCommitKey, LegacyOffsetCommitValue, 0),
    RecordType(OffsetCommitKey, OffsetCommitValue, 4, encode_offset),
    RecordType(GroupMetadataKey, GroupMetadataValue, 3),
    RecordType(ConsumerGroupMetadataKey, ConsumerGroupMetadataValue, 0),
    RecordType(ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue, 0),
    RecordType(ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue, 0),
    RecordType(ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue, 0),
    RecordType(ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue, 0),
    RecordType(ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue, 0),
    RecordType(ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue, 0),
)

encode = GROUP_RECORDS.encode
decode = GROUP_RECORDS.decode
