"""Fetch (key 1), v4-v18: read from partitions, waiting until enough is there.

What is in the page cache is read on the loop; the rest through the work pool. Answers are bytes as they lie on disk.
A reader of committed records gets no further than the last stable offset, and is told of the aborted transactions in
what it gets. Leaves out: followers and the closest replica (with the cluster).
"""

from collections.abc import Coroutine
from typing import Any

from penstock.base.broker_settings import FETCH_MAX_BYTES, PENSTOCK_FETCH_ANSWER_BYTES
from penstock.base.buffers import Buffer
from penstock.base.errors import ErrorCode, StorageError
from penstock.core.fetch_sessions import Fetch, Outcome, PartitionKey, Wanted
from penstock.core.partition import NO_EPOCH, fetch_offset_error
from penstock.records.batch import headers
from penstock.records.errors import CorruptBatchError
from penstock.services.context import Call
from penstock.services.partition import Partition
from penstock.services.waiting import WaitingFetch
from penstock.storage.errors import CorruptionError
from penstock.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

REQUEST = FetchRequest
VERSIONS = (4, 18)
WAITS = True

TOPIC_IDS_SINCE = 13
READ_COMMITTED = 1


class _Read:
    """What came of one partition: records, an error, or a diverging epoch; `records` is None while not read."""

    __slots__ = (
        "comes_first",
        "committed",
        "diverging",
        "error",
        "key",
        "max_bytes",
        "partition",
        "records",
        "upto_offset",
        "wanted",
    )

    def __init__(self, key: PartitionKey, wanted: Wanted, *, committed: bool) -> None:
        self.key = key
        self.committed = committed  # whether only committed records are wanted
        self.wanted = wanted
        self.partition: Partition | None = None
        self.error = ErrorCode.NONE
        self.records: Buffer | None = b""
        self.diverging: EpochEndOffset | None = None
        self.max_bytes = 0
        self.comes_first = False  # of all that have records: its first batch comes whole, whatever the limits
        self.upto_offset = 0  # how far it could be read then

    @property
    def must_be_told(self) -> bool:
        """Whether the client has to hear of it at once, however little there is to read."""
        return self.error is not ErrorCode.NONE or self.diverging is not None

    @property
    def is_outdated(self) -> bool:
        """Whether something happened to the partition since it was read."""
        partition = self.partition
        assert partition is not None  # else there was an error to tell, and no waiting
        limit = partition.readable_offset(committed=self.committed)
        return partition.log.failed is not None or limit != self.upto_offset

    def outcome(self) -> Outcome:
        partition = self.partition
        if partition is None or self.error is not ErrorCode.NONE:
            return Outcome(-1, -1, 0, self.error)
        return Outcome(
            partition.high_watermark,
            partition.log.start_offset,
            len(self.records or b""),
            notice=self.diverging is not None,
        )


def handle(call: Call, request: FetchRequest) -> FetchResponse | Coroutine[Any, Any, FetchResponse]:
    fetch = _begin(call, request)
    if isinstance(fetch, ErrorCode):
        return FetchResponse(error_code=fetch)
    reads = _read_cached(call, request, fetch)
    if all(read.records is not None for read in reads) and _is_enough(request, reads):
        return _respond(fetch, reads)
    return _read_until_enough(call, request, fetch, reads)


def _begin(call: Call, request: FetchRequest) -> Fetch | ErrorCode:
    by_id = call.version >= TOPIC_IDS_SINCE
    wanted: dict[PartitionKey, Wanted] = {}
    for topic in request.topics:
        name: bytes | str = topic.topic_id if by_id else topic.topic
        for asked in topic.partitions:
            wanted[name, asked.partition] = Wanted(
                asked.fetch_offset,
                asked.partition_max_bytes,
                asked.current_leader_epoch,
                asked.last_fetched_epoch,
                asked.log_start_offset,
            )
    return call.services.fetch_sessions.begin(
        session_id=request.session_id,
        epoch=request.session_epoch,
        wanted=wanted,
        forgotten=[
            (topic.topic_id if by_id else topic.topic, index)
            for topic in request.forgotten_topics_data
            for index in topic.partitions
        ],
        uses_topic_ids=by_id,
        now_ms=call.services.world.loop.now_ms(),
    )


def _read_cached(call: Call, request: FetchRequest, fetch: Fetch) -> list[_Read]:
    """Read every partition as far as no device has to be waited for."""
    room = _room(call, request)
    reads = []
    found_any = False
    for key, wanted in fetch.partitions():
        read = _Read(key, wanted, committed=request.isolation_level == READ_COMMITTED)
        reads.append(read)
        if not _prepare(call, read):
            continue
        assert read.partition is not None
        read.max_bytes = max(0, min(wanted.max_bytes, room))
        read.comes_first = not found_any
        read.upto_offset = read.partition.readable_offset(committed=read.committed)
        if found_any and not read.max_bytes:
            continue  # its turn comes with a later fetch
        try:
            read.records = read.partition.read_cached(
                wanted.fetch_offset,
                read.max_bytes,
                upto_offset=read.upto_offset,
                whole_first_batch=read.comes_first,
            )
        except StorageError as error:
            _fail(read, error)
        if read.records is None:
            room -= read.max_bytes  # as much may come
            found_any = True
        elif read.records:
            room -= len(read.records)
            found_any = True
    return reads


def _room(call: Call, request: FetchRequest) -> int:
    """How many record bytes the answer may have, but for a first batch that is larger."""
    broker = call.services.configs.broker
    enough = max(broker[PENSTOCK_FETCH_ANSWER_BYTES], request.min_bytes)
    return min(request.max_bytes, broker[FETCH_MAX_BYTES], enough)


def _prepare(call: Call, read: _Read) -> bool:
    """Find the partition and check offset and epochs; False where there is nothing to read."""
    name, index = read.key
    partitions = call.services.partitions
    found = partitions.find_by_id(name, index) if isinstance(name, bytes) else partitions.find(name, index)
    if isinstance(found, ErrorCode):
        read.error = found
        return False
    read.partition = found
    read.error = found.fetch_error(read.wanted.current_leader_epoch)
    if read.error is ErrorCode.NONE and read.wanted.last_fetched_epoch != NO_EPOCH:
        read.error, read.diverging = _divergence(found, read.wanted)
    if read.error is ErrorCode.NONE and read.diverging is None:
        read.error = fetch_offset_error(
            read.wanted.fetch_offset, start_offset=found.log.start_offset, end_offset=found.log.end_offset
        )
    return not read.must_be_told


def _divergence(partition: Partition, wanted: Wanted) -> tuple[ErrorCode, EpochEndOffset | None]:
    """Whether the reader's last record was of an epoch that ended, in our log, before its offset."""
    epoch, end_offset = partition.end_of_epoch(wanted.last_fetched_epoch)
    if epoch == NO_EPOCH:
        return ErrorCode.OFFSET_OUT_OF_RANGE, None
    if epoch < wanted.last_fetched_epoch or end_offset < wanted.fetch_offset:
        return ErrorCode.NONE, EpochEndOffset(epoch=epoch, end_offset=end_offset)
    return ErrorCode.NONE, None


def _fail(read: _Read, error: StorageError) -> None:
    corrupt = isinstance(error, CorruptionError)
    read.error = ErrorCode.CORRUPT_MESSAGE if corrupt else ErrorCode.KAFKA_STORAGE_ERROR
    read.records = b""


def _is_enough(request: FetchRequest, reads: list[_Read]) -> bool:
    if request.max_wait_ms <= 0 or not reads:
        return True
    size = 0
    for read in reads:
        if read.must_be_told:
            return True
        size += len(read.records or b"")
    return size >= min(request.min_bytes, request.max_bytes)


async def _read_until_enough(
    call: Call, request: FetchRequest, fetch: Fetch, reads: list[_Read]
) -> FetchResponse:
    loop = call.services.world.loop
    deadline = loop.time() + request.max_wait_ms / 1000
    is_last_look = False
    while True:
        for read in reads:
            if read.records is None:
                await _read_cold(read)
        left_ms = int((deadline - loop.time()) * 1000)
        if is_last_look or left_ms <= 0 or _is_enough(request, reads):
            return _respond(fetch, reads)
        is_last_look = await _wait_for_more(call, request, reads, left_ms)
        reads = _read_cached(call, request, fetch)


async def _read_cold(read: _Read) -> None:
    assert read.partition is not None
    try:
        read.records = await read.partition.read(
            read.wanted.fetch_offset,
            read.max_bytes,
            upto_offset=read.upto_offset,
            whole_first_batch=read.comes_first,
        )
    except StorageError as error:
        _fail(read, error)


async def _wait_for_more(call: Call, request: FetchRequest, reads: list[_Read], left_ms: int) -> bool:
    """True if there is nothing more to wait for."""
    if any(read.is_outdated for read in reads):
        return False  # it came between reading and now, when nobody waited for it yet
    present = sum(len(read.records or b"") for read in reads)
    waiting = WaitingFetch(
        call.services.world.loop, missing_bytes=request.min_bytes - present, max_wait_ms=left_ms
    )
    try:
        for read in reads:
            assert read.partition is not None
            waiting.wait_at(read.partition.fetches)
        return await waiting.future
    finally:
        waiting.leave()


def _respond(fetch: Fetch, reads: list[_Read]) -> FetchResponse:
    by_key = {read.key: read for read in reads}
    answer = fetch.finish({read.key: read.outcome() for read in reads})
    if answer.error is not ErrorCode.NONE:
        return FetchResponse(error_code=answer.error, session_id=answer.session_id)
    topics: dict[bytes | str, FetchableTopicResponse] = {}
    for key in answer.included:
        name = key[0]
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = (
                FetchableTopicResponse(topic_id=name)
                if isinstance(name, bytes)
                else FetchableTopicResponse(topic=name)
            )
        topic.partitions.append(_partition_data(by_key[key]))
    return FetchResponse(session_id=answer.session_id, responses=list(topics.values()))


def _partition_data(read: _Read) -> PartitionData:
    partition = read.partition
    if partition is None or read.error is not ErrorCode.NONE:
        return PartitionData(
            partition_index=read.key[1],
            error_code=read.error,
            high_watermark=-1,
            last_stable_offset=-1,
            log_start_offset=-1,
            aborted_transactions=[] if partition is None or read.committed else None,
            records=b"",
        )
    return PartitionData(
        partition_index=read.key[1],
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.last_stable_offset,
        log_start_offset=partition.log.start_offset,
        diverging_epoch=read.diverging,
        aborted_transactions=_aborted(partition, read) if read.committed else None,
        records=read.records,
    )


def _aborted(partition: Partition, read: _Read) -> list[AbortedTransaction]:
    """The aborted transactions that overlap with what was read."""
    records, start = read.records, read.wanted.fetch_offset
    if not records or not partition.has_aborted_from(start):
        return []
    end = start
    try:
        for _, header in headers(records):
            end = header.next_offset
    except CorruptBatchError:
        end = (
            read.upto_offset
        )  # the reader will find out; until then it must not take aborted records for good
    return [
        AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
        for aborted in partition.aborted_transactions(from_offset=start, upto_offset=end)
    ]
