"""Validates a produced batch by its topic's settings, and changes it where they say so, before it gets an offset.

By default only the batch header and the CRC are checked, and the producer's bytes are appended unchanged. The records
are opened only on topics that need it: compacted topics (every record needs a key), topics with broker-side compression
(`compression.type`), and topics with `penstock.produce.validation=records`. Large and compressed batches of such topics
are validated in the work pool. With LogAppendTime the timestamp and the CRC of the batch are rewritten.

Sequences of idempotent producers are checked later, in `core.producer_state` and `core.rejected_sequences`.
"""

from typing import NamedTuple, TypeAlias

from penstock.base.broker_settings import PENSTOCK_DECOMPRESSED_BYTES_MAX
from penstock.base.coordinator_settings import TRANSACTION_PARTITION_VERIFICATION_ENABLE
from penstock.base.errors import ErrorCode, Refusal
from penstock.base.settings import Settings
from penstock.base.topic_settings import (
    CLEANUP_POLICY,
    COMPRESSION_GZIP_LEVEL,
    COMPRESSION_LZ4_LEVEL,
    COMPRESSION_TYPE,
    COMPRESSION_ZSTD_LEVEL,
    DELETE_RETENTION_MS,
    FILE_DELETE_DELAY_MS,
    FLUSH_MESSAGES,
    FLUSH_MS,
    FOLLOWER_REPLICATION_THROTTLED_REPLICAS,
    INDEX_INTERVAL_BYTES,
    LEADER_REPLICATION_THROTTLED_REPLICAS,
    MAX_COMPACTION_LAG_MS,
    MAX_MESSAGE_BYTES,
    MESSAGE_TIMESTAMP_AFTER_MAX_MS,
    MESSAGE_TIMESTAMP_BEFORE_MAX_MS,
    MESSAGE_TIMESTAMP_TYPE,
    MIN_CLEANABLE_DIRTY_RATIO,
    MIN_COMPACTION_LAG_MS,
    MIN_INSYNC_REPLICAS,
    PENSTOCK_ACK_QUORUM,
    PENSTOCK_PRODUCE_VALIDATION,
    RETENTION_BYTES,
    RETENTION_MS,
    SEGMENT_INDEX_BYTES,
    SEGMENT_JITTER_MS,
    SEGMENT_MS,
    segment_bytes,
)
from penstock.core.request_checks import TimestampRule, timestamp_refusal
from penstock.records.batch import (
    CODEC_MASK,
    LOG_APPEND_TIME,
    NO_PRODUCER,
    TRANSACTIONAL,
    BatchHeader,
    check_produced,
    is_one_batch,
    read_header,
    restamp,
)
from penstock.records.builder import recompress
from penstock.records.compression import Codec
from penstock.records.record import RecordRules, bad_records, validate_records
from penstock.storage.log_config import LogConfig

_REASONS = {
    ErrorCode.INVALID_RECORD: "the batch is malformed",
    ErrorCode.CORRUPT_MESSAGE: "the batch's checksum or framing is wrong",
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: "the batch is compressed with a codec that does not exist",
}

# Uncompressed records up to this size are validated within a millisecond, so on the loop. A compressed batch may hold
# any number of records: it is validated off the loop, whatever its size.
LOOP_VALIDATION_BYTES_MAX = 16 * 1024

_UNCOMPRESSED = "uncompressed"
_PRODUCER = "producer"


# A batch as it will be appended.
CheckedBatch: TypeAlias = tuple[BatchHeader, memoryview]


class AppendError(NamedTuple):
    """Why a batch was not appended, or, if `log_append_time_ms` is set, was appended but not replicated in time."""

    code: ErrorCode
    message: str | None = None
    # Whether the log rejected it; then, as in Kafka, the response has the log start offset.
    reached_log: bool = True
    # The indexes of the invalid records, if single records are invalid.
    bad_records: tuple[int, ...] = ()
    log_start_offset: int = -1
    log_append_time_ms: int = -1


class TopicRules:
    """The rules of one topic, shared by its partitions."""

    __slots__ = (
        "_appends_unchanged",
        "_codec",
        "_decompressed_max",
        "_key_required",
        "_level",
        "_opens_records",
        "_timestamps",
        "counts_majority",
        "flush_messages",
        "flush_ms",
        "may_delete_records",
        "min_insync_replicas",
        "size_max",
        "throttled_followers",
        "throttled_leaders",
        "verifies_transactions",
    )

    def __init__(self, settings: Settings, broker: Settings) -> None:
        policy = settings[CLEANUP_POLICY]
        self._key_required = "compact" in policy
        self._codec = _codec(settings[COMPRESSION_TYPE])
        self._level = _level(settings, self._codec)
        self._opens_records = self._key_required or settings[PENSTOCK_PRODUCE_VALIDATION] == "records"
        self._decompressed_max = broker[PENSTOCK_DECOMPRESSED_BYTES_MAX]
        self.size_max = settings[MAX_MESSAGE_BYTES]
        self.throttled_leaders = frozenset(settings[LEADER_REPLICATION_THROTTLED_REPLICAS])
        self.throttled_followers = frozenset(settings[FOLLOWER_REPLICATION_THROTTLED_REPLICAS])
        self._timestamps = TimestampRule(
            log_append_time=settings[MESSAGE_TIMESTAMP_TYPE] == "LogAppendTime",
            before_max_ms=settings[MESSAGE_TIMESTAMP_BEFORE_MAX_MS],
            after_max_ms=settings[MESSAGE_TIMESTAMP_AFTER_MAX_MS],
        )
        # No batch of this topic is ever changed: the log gets the producer's bytes.
        self._appends_unchanged = self._codec is None and not self._timestamps.log_append_time
        self.flush_messages = settings[FLUSH_MESSAGES]
        self.flush_ms = settings[FLUSH_MS]
        self.min_insync_replicas = settings[MIN_INSYNC_REPLICAS]
        self.counts_majority = settings[PENSTOCK_ACK_QUORUM] == "majority"
        self.may_delete_records = "delete" in policy
        self.verifies_transactions = broker[TRANSACTION_PARTITION_VERIFICATION_ENABLE]

    def check(
        self, records: memoryview | None, *, now_ms: int, off_loop: bool = False
    ) -> CheckedBatch | AppendError | None:
        """The batch as it will be appended, or the error that rejects it.

        None if validation would block the loop for too long: the caller then calls again with `off_loop`, in the work
        pool.
        """
        header = check_produced(records, size_max=self.size_max)
        if isinstance(header, ErrorCode):
            return self._refuse_outside(header, records)
        assert records is not None
        if header.attributes & TRANSACTIONAL and header.producer_id == NO_PRODUCER:
            return AppendError(ErrorCode.INVALID_RECORD, "a transactional batch has no producer id")
        refusal = None
        window = self._timestamps
        earliest, latest = now_ms - window.before_max_ms, now_ms + window.after_max_ms
        if (
            header.attributes & LOG_APPEND_TIME
            or not earliest <= header.base_timestamp <= latest
            or not earliest <= header.max_timestamp <= latest
        ):
            refusal = timestamp_refusal(header, window, now_ms=now_ms)
        if refusal is not None or self._opens_records or self._recompresses(header):
            if not off_loop and _needs_work_pool(header):
                return None
            rules = self._record_rules(now_ms)
            refusal = refusal or self._look_inside(header, records, rules)
            if refusal is not None:
                return AppendError(*refusal, bad_records=tuple(bad_records(records, header, rules)))
        if self._appends_unchanged:
            return header, records
        return self._changed(header, records, now_ms)

    def _recompresses(self, header: BatchHeader) -> bool:
        return self._codec is not None and header.codec is not self._codec

    def _look_inside(self, header: BatchHeader, records: memoryview, rules: RecordRules) -> Refusal | None:
        code = validate_records(records, header, rules)
        if code is ErrorCode.MESSAGE_TOO_LARGE:
            return Refusal(
                code, f"the records take more than penstock.decompressed.bytes.max={rules.limit} uncompressed"
            )
        if code is ErrorCode.INVALID_RECORD and self._key_required:
            return Refusal(code, "a record is malformed, or has no key, which a compacted topic needs")
        return None if code is None else Refusal(code, _REASONS.get(code))

    def _record_rules(self, now_ms: int) -> RecordRules:
        window = self._timestamps
        if window.log_append_time:
            return RecordRules(self._decompressed_max, self._key_required)
        return RecordRules(
            self._decompressed_max,
            self._key_required,
            earliest_ms=now_ms - window.before_max_ms,
            latest_ms=now_ms + window.after_max_ms,
        )

    def _refuse_outside(self, code: ErrorCode, records: memoryview | None) -> AppendError:
        before_the_log = code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.MESSAGE_TOO_LARGE)
        reached_log = not before_the_log and is_one_batch(records)
        if code is ErrorCode.MESSAGE_TOO_LARGE:
            return AppendError(
                code, f"the batch is larger than max.message.bytes={self.size_max}", reached_log
            )
        return AppendError(code, _REASONS.get(code), reached_log)

    def _changed(self, header: BatchHeader, batch: memoryview, now_ms: int) -> CheckedBatch | AppendError:
        if self._recompresses(header):
            assert self._codec is not None
            batch = memoryview(recompress(batch, self._codec, self._level, limit=self._decompressed_max))
            if len(batch) > self.size_max:
                return self._refuse_outside(ErrorCode.MESSAGE_TOO_LARGE, batch)
            header = read_header(batch)
        if self._timestamps.log_append_time:
            batch = memoryview(restamp(batch, max_timestamp=now_ms))
            header = read_header(batch)
        return header, batch


def _needs_work_pool(header: BatchHeader) -> bool:
    """Whether validating the records of a batch would block the loop for too long."""
    return header.size > LOOP_VALIDATION_BYTES_MAX or bool(header.attributes & CODEC_MASK)


def _codec(compression_type: str) -> Codec | None:
    """The codec the broker compresses with; None keeps the producer's."""
    if compression_type == _PRODUCER:
        return None
    return Codec.NONE if compression_type == _UNCOMPRESSED else Codec[compression_type.upper()]


def _level(settings: Settings, codec: Codec | None) -> int | None:
    levels = {
        Codec.GZIP: COMPRESSION_GZIP_LEVEL,
        Codec.LZ4: COMPRESSION_LZ4_LEVEL,
        Codec.ZSTD: COMPRESSION_ZSTD_LEVEL,
    }
    return settings[levels[codec]] if codec in levels else None


def log_config(settings: Settings, broker: Settings) -> LogConfig:
    """The log configuration of a topic's partitions."""
    policy = settings[CLEANUP_POLICY]
    return LogConfig(
        segment_bytes=segment_bytes(settings),
        segment_ms=settings[SEGMENT_MS],
        segment_jitter_ms=settings[SEGMENT_JITTER_MS],
        segment_index_bytes=settings[SEGMENT_INDEX_BYTES],
        index_interval_bytes=settings[INDEX_INTERVAL_BYTES],
        retention_ms=settings[RETENTION_MS],
        retention_bytes=settings[RETENTION_BYTES],
        file_delete_delay_ms=settings[FILE_DELETE_DELAY_MS],
        compact="compact" in policy,
        delete="delete" in policy,
        min_cleanable_dirty_ratio=settings[MIN_CLEANABLE_DIRTY_RATIO],
        min_compaction_lag_ms=settings[MIN_COMPACTION_LAG_MS],
        max_compaction_lag_ms=settings[MAX_COMPACTION_LAG_MS],
        delete_retention_ms=settings[DELETE_RETENTION_MS],
        decompressed_size_max=broker[PENSTOCK_DECOMPRESSED_BYTES_MAX],
    )
