"""One partition of a fetch: where it is read from, whether it can be, and what came of it."""

from typing import Final, NamedTuple

from penstock.base.buffers import Buffer
from penstock.base.errors import ErrorCode, StorageError
from penstock.core.fetch_sessions import FetchTarget, PartitionKey, PartitionOutcome
from penstock.core.replication import EpochEnd
from penstock.core.request_checks import NO_EPOCH, fetch_offset_error
from penstock.records.producer import AbortedTransaction
from penstock.services.replicas.replica import Replica
from penstock.storage.errors import CorruptionError

NO_REPLICA: Final = -1


class FetchBounds(NamedTuple):
    """How much a fetch returns, and how long it waits for that."""

    max_wait_ms: int = 0
    min_bytes: int = 1
    max_bytes: int = (1 << 31) - 1  # a first batch that is larger is returned all the same


class PartitionRead:
    """What came of one partition. `records` is None while only the device has them."""

    __slots__ = (
        "aborted",
        "comes_first",
        "diverging",
        "error",
        "high_watermark",
        "is_throttled",
        "key",
        "known_high_watermark",
        "last_stable_offset",
        "log_start_offset",
        "max_bytes",
        "partition",
        "preferred_replica",
        "records",
        "target",
        "upto_offset",
    )

    def __init__(self, key: PartitionKey, target: FetchTarget) -> None:
        self.key = key
        self.target = target
        self.error = ErrorCode.NONE
        self.records: Buffer | None = b""
        # As they are when the fetch is complete; -1 with an error.
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1
        self.diverging: EpochEnd | None = None  # where the reader's log is another than this one
        self.preferred_replica = NO_REPLICA
        self.aborted: list[AbortedTransaction] | None = []  # None of a reader of uncommitted records
        # While it is read.
        self.partition: Replica | None = None
        self.max_bytes = 0
        self.upto_offset = 0  # how far it could be read then
        self.comes_first = False  # of all that have records: its first batch is returned whole
        self.is_throttled = False
        self.known_high_watermark: int | None = None  # by a follower

    @property
    def completes_fetch(self) -> bool:
        """Whether the fetch completes at once, however little there is to read."""
        return self.error is not ErrorCode.NONE or self.diverging is not None or self.preferred_replica >= 0

    @property
    def has_new_high_watermark(self) -> bool:
        """Whether a follower knows another high watermark than this broker."""
        known = self.known_high_watermark  # None of a consumer
        return known is not None and self.partition is not None and known != self.partition.high_watermark

    def outcome(self) -> PartitionOutcome:
        """The outcome for the fetch session, which decides whether the response has the partition."""
        notice = self.diverging is not None or self.preferred_replica >= 0
        return PartitionOutcome(
            self.high_watermark, self.log_start_offset, len(self.records or b""), self.error, notice
        )

    def check_position(self) -> None:
        """Whether the log has the offset, and under the epoch that the reader's last record was of."""
        partition, target = self.partition, self.target
        assert partition is not None
        if target.last_fetched_epoch != NO_EPOCH:
            epoch, end_offset = partition.end_of_epoch(target.last_fetched_epoch)
            if epoch == NO_EPOCH:
                self.error = ErrorCode.OFFSET_OUT_OF_RANGE
                return
            if epoch < target.last_fetched_epoch or end_offset < target.fetch_offset:
                self.diverging = EpochEnd(epoch, end_offset)
                return
        self.error = fetch_offset_error(
            target.fetch_offset,
            start_offset=partition.log.start_offset,
            end_offset=partition.log.end_offset,
        )

    def read_cached(self) -> None:
        """Read what the page cache has."""
        assert self.partition is not None
        try:
            self.records = self.partition.read_cached(
                self.target.fetch_offset,
                self.max_bytes,
                upto_offset=self.upto_offset,
                whole_first_batch=self.comes_first,
            )
        except StorageError as error:
            self._fail(error)

    async def read_cold(self) -> None:
        """Read what the page cache does not have, through the work pool."""
        assert self.partition is not None
        try:
            self.records = await self.partition.read(
                self.target.fetch_offset,
                self.max_bytes,
                upto_offset=self.upto_offset,
                whole_first_batch=self.comes_first,
            )
        except StorageError as error:
            self._fail(error)

    def _fail(self, error: StorageError) -> None:
        corrupt = isinstance(error, CorruptionError)
        self.error = ErrorCode.CORRUPT_MESSAGE if corrupt else ErrorCode.KAFKA_STORAGE_ERROR
        self.records = b""

    def complete(self) -> None:
        """Take the offsets that go with the records."""
        partition = self.partition
        if partition is not None and self.error is ErrorCode.NONE:
            self.high_watermark = partition.high_watermark
            self.last_stable_offset = partition.last_stable_offset
            self.log_start_offset = partition.log.start_offset
