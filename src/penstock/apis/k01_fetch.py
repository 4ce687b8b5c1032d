"""Fetch (key 1), v4-v18: read from partitions, waiting until enough is there.

What is in the page cache is read on the loop; the rest through the work pool. Answers are bytes as they lie on disk.
A reader of committed records gets no further than the last stable offset, and is told of the aborted transactions in
what it gets. A follower gets all that the log has: where it fetches says how far it is, and it is told within
milliseconds when the high watermark moves. Its next request releases a delayed fetch (`Reply.release`): it sends one
when it has something new to ask. Idle partitions of its session are skipped (`services.idle_partitions`).
Consumers read from followers, too; one that says its rack may be sent to a replica there (KIP-392).
"""

from typing import NamedTuple

from penstock.apis.context import Call
from penstock.apis.leader_hints import Hint, endpoints, hint
from penstock.apis.reply import Reply
from penstock.base.broker_settings import FETCH_MAX_BYTES, PENSTOCK_FETCH_ANSWER_BYTES
from penstock.base.buffers import Buffer
from penstock.base.cluster_settings import REPLICA_SELECTOR_CLASS
from penstock.base.errors import ErrorCode, StorageError
from penstock.core.fetch_sessions import Fetch, FetchTarget, IncrementalFetch, PartitionKey, PartitionOutcome
from penstock.core.partition import NO_EPOCH, fetch_offset_error
from penstock.records.batch import headers
from penstock.records.errors import CorruptBatchError
from penstock.services.idle_partitions import IdlePartitions
from penstock.services.replicas.replica import Replica
from penstock.services.waiting import WaitingFetch
from penstock.storage.errors import CorruptionError
from penstock.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

REQUEST = FetchRequest
VERSIONS = (4, 18)
CANCEL_ON_DISCONNECT = True

TOPIC_IDS_SINCE = 13
READ_COMMITTED = 1
REPLICA_STATE_SINCE = 15
HINTS_SINCE = 16  # of who leads
FOLLOWERS_SERVE_SINCE = 11  # consumers that know of other replicas than the leader

NO_REPLICA = -1
NO_BROKER_EPOCH = -1
_NO_FOLLOWER = NO_REPLICA, NO_BROKER_EPOCH
_UNTOLD_HIGH_WATERMARK = (1 << 63) - 1
_RACK_AWARE = "RackAwareReplicaSelector"


class _Reader(NamedTuple):
    """Who fetches."""

    committed: bool  # whether only committed records are wanted
    is_follower: bool = False
    node_id: int = NO_REPLICA  # of a follower
    broker_epoch: int = NO_BROKER_EPOCH
    current_epoch: int = NO_BROKER_EPOCH  # the one the follower is registered with
    rack: str = ""  # of a consumer that may be sent elsewhere


# Most who fetch are one of these.
_CONSUMERS = {READ_COMMITTED: _Reader(committed=True)}
_ANY_CONSUMER = _Reader(committed=False)


class _Patience:
    """Whether a fetch goes on waiting; a follower's next request ends that."""

    __slots__ = ("over", "waiting")

    def __init__(self) -> None:
        self.over = False
        self.waiting: WaitingFetch | None = None

    def end(self) -> None:
        self.over = True
        if self.waiting is not None:
            self.waiting.end()


class _Read:
    """What came of one partition: records, an error, or a diverging epoch; `records` is None while not read."""

    __slots__ = (
        "comes_first",
        "diverging",
        "error",
        "is_throttled",
        "key",
        "known_high_watermark",
        "max_bytes",
        "partition",
        "preferred_replica",
        "reader",
        "records",
        "upto_offset",
        "wanted",
    )

    def __init__(self, key: PartitionKey, wanted: FetchTarget, reader: _Reader) -> None:
        self.key = key
        self.reader = reader
        self.wanted = wanted
        self.partition: Replica | None = None
        self.error = ErrorCode.NONE
        self.records: Buffer | None = b""
        self.diverging: EpochEndOffset | None = None
        self.max_bytes = 0
        self.is_throttled = False
        self.comes_first = False  # of all that have records: its first batch comes whole, whatever the limits
        self.upto_offset = 0  # how far it could be read then
        self.preferred_replica = NO_REPLICA
        self.known_high_watermark: int | None = None  # by a follower

    @property
    def must_be_told(self) -> bool:
        """Whether the client has to hear of it at once, however little there is to read."""
        return self.error is not ErrorCode.NONE or self.diverging is not None or self.preferred_replica >= 0

    @property
    def has_notice(self) -> bool:
        return self.diverging is not None or self.preferred_replica >= 0

    @property
    def limit_offset(self) -> int:
        """How far it can be read now."""
        partition = self.partition
        assert partition is not None
        if self.reader.is_follower:
            return partition.log.end_offset
        return partition.readable_offset(committed=self.reader.committed)

    @property
    def has_new_high_watermark(self) -> bool:
        """Whether a follower knows an older high watermark than this broker."""
        known = self.known_high_watermark  # None of a consumer
        return known is not None and self.partition is not None and known != self.partition.high_watermark

    @property
    def is_outdated(self) -> bool:
        """Whether something happened to the partition since it was read."""
        partition = self.partition
        assert partition is not None  # else there was an error to tell, and no waiting
        return partition.log.failed is not None or self.limit_offset != self.upto_offset

    def outcome(self) -> PartitionOutcome:
        partition = self.partition
        if partition is None or self.error is not ErrorCode.NONE:
            return PartitionOutcome(-1, -1, 0, self.error)
        return PartitionOutcome(
            partition.high_watermark,
            partition.log.start_offset,
            len(self.records or b""),
            notice=self.has_notice,
        )


def handle(call: Call, request: FetchRequest) -> FetchResponse | Reply:
    reader = _reader(call, request)
    fetch = _begin(call, request, reader)
    if isinstance(fetch, ErrorCode):
        return FetchResponse(error_code=fetch)
    if reader.is_follower:
        _wake_all_at_times(call, fetch, reader)
    reads = _read_cached(call, request, fetch, reader, is_first_look=True)
    if all(read.records is not None for read in reads) and _is_enough(request, fetch, reads):
        return _respond(call, fetch, reads)
    patience = _Patience()
    answer = _read_until_enough(call, request, fetch, reader, reads, patience)
    return Reply(answer, release=patience.end if reader.is_follower else None)


def _reader(call: Call, request: FetchRequest) -> _Reader:
    if call.version < REPLICA_STATE_SINCE:
        follower, broker_epoch = request.replica_id, NO_BROKER_EPOCH
    else:
        state = request.replica_state
        follower, broker_epoch = _NO_FOLLOWER if state is None else (state.replica_id, state.replica_epoch)
    if follower < 0:
        reader = _CONSUMERS.get(request.isolation_level, _ANY_CONSUMER)
        return reader._replace(rack=request.rack_id) if request.rack_id and _sends_elsewhere(call) else reader
    broker = call.services.cluster.image.brokers.get(follower)
    current_epoch = NO_BROKER_EPOCH if broker is None else broker.epoch
    return _Reader(False, True, follower, broker_epoch, current_epoch)


def _sends_elsewhere(call: Call) -> bool:
    return (call.services.node.configs.broker[REPLICA_SELECTOR_CLASS] or "").endswith(_RACK_AWARE)


def _begin(call: Call, request: FetchRequest, reader: _Reader) -> Fetch | ErrorCode:
    by_id = call.version >= TOPIC_IDS_SINCE
    wanted: dict[PartitionKey, FetchTarget] = {}
    for topic in request.topics:
        name: bytes | str = topic.topic_id if by_id else topic.topic
        for asked in topic.partitions:
            wanted[name, asked.partition] = FetchTarget(
                asked.fetch_offset,
                asked.partition_max_bytes,
                asked.current_leader_epoch,
                asked.last_fetched_epoch,
                asked.log_start_offset,
                None if asked.high_watermark == _UNTOLD_HIGH_WATERMARK else asked.high_watermark,
            )
    return call.services.logs.fetch_sessions.begin(
        session_id=request.session_id,
        epoch=request.session_epoch,
        wanted=wanted,
        forgotten=[
            (topic.topic_id if by_id else topic.topic, index)
            for topic in request.forgotten_topics_data
            for index in topic.partitions
        ],
        uses_topic_ids=by_id,
        follower=reader.is_follower,
        now_ms=call.services.node.world.loop.now_ms(),
    )


def _wake_all_at_times(call: Call, fetch: Fetch, reader: _Reader) -> None:
    """What is known of a follower's quiet partitions is known of this life of it, and looked at again after a while."""
    if isinstance(fetch, IncrementalFetch):
        resting = _resting(fetch)
        if resting is None:
            resting = fetch.watch = IdlePartitions(reader.node_id, fetch.wake)
        if not resting.asks(reader, call.services.node.world.loop.time()):
            fetch.wake_all()


def _resting(fetch: Fetch) -> IdlePartitions | None:
    """The watch over quiet partitions of a follower's session."""
    watch = fetch.watch if isinstance(fetch, IncrementalFetch) else None
    assert watch is None or isinstance(watch, IdlePartitions)
    return watch


def _read_cached(
    call: Call, request: FetchRequest, fetch: Fetch, reader: _Reader, *, is_first_look: bool = False
) -> list[_Read]:
    """Read every partition as far as no device has to be waited for."""
    room = _room(call, request)
    reads = []
    found_any = False
    is_follower = reader.is_follower
    for key, wanted in fetch.partitions():
        read = _Read(key, wanted, reader)
        reads.append(read)
        if not _prepare(call, read):
            continue
        assert read.partition is not None
        if is_follower:
            if is_first_look:
                _note(read, read.partition)
            read.known_high_watermark = fetch.known_high_watermark(key)
        read.max_bytes = max(0, min(wanted.max_bytes, room))
        read.comes_first = not found_any
        read.upto_offset = (
            read.limit_offset if is_follower else read.partition.readable_offset(committed=reader.committed)
        )
        if found_any and not read.max_bytes:
            continue  # its turn comes with a later fetch
        if is_follower and read.partition.throttles(reader.node_id):
            read.is_throttled = True
            if call.services.logs.leader_throttle.wait_s():
                continue  # nothing for now; it asks again
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
    broker = call.services.node.configs.broker
    enough = max(broker[PENSTOCK_FETCH_ANSWER_BYTES], request.min_bytes)
    return min(request.max_bytes, broker[FETCH_MAX_BYTES], enough)


def _prepare(call: Call, read: _Read) -> bool:
    """Find the partition and check offset and epochs; False where there is nothing to read."""
    name, index = read.key
    wanted, reader = read.wanted, read.reader
    partitions = call.services.logs.replicas
    if reader.is_follower or call.version < FOLLOWERS_SERVE_SINCE:
        found = (
            partitions.find_by_id(name, index) if isinstance(name, bytes) else partitions.find(name, index)
        )
    elif isinstance(name, bytes):
        found = partitions.find_replica_by_id(name, index)
    else:
        found = partitions.find_replica(name, index)
    if isinstance(found, ErrorCode):
        read.error = found
        return False
    read.partition = found
    read.error = found.fetch_error(wanted.current_leader_epoch)
    if reader.is_follower and read.error is ErrorCode.NONE:
        read.error = found.follower_refusal(
            reader.node_id, broker_epoch=reader.broker_epoch, current_epoch=reader.current_epoch
        )
    if wanted.last_fetched_epoch != NO_EPOCH and read.error is ErrorCode.NONE:
        read.error, read.diverging = _divergence(found, wanted)
    if read.error is ErrorCode.NONE and read.diverging is None:
        read.error = fetch_offset_error(
            wanted.fetch_offset, start_offset=found.log.start_offset, end_offset=found.log.end_offset
        )
    if not found.is_leader and (read.error is ErrorCode.OFFSET_OUT_OF_RANGE or read.diverging is not None):
        # The log of a replica that does not lead may end before that of its leader. Who takes it for the leader would
        # begin somewhere else; it is to look for the leader, and hear what that one says.
        read.error, read.diverging = ErrorCode.NOT_LEADER_OR_FOLLOWER, None
    if reader.rack and read.error is ErrorCode.NONE:
        read.preferred_replica = _closest(call, found, read)
    return not read.must_be_told


def _note(read: _Read, partition: Replica) -> None:
    """What a follower asks for says what it has. Before reading: the answer tells what follows from that."""
    wanted, reader = read.wanted, read.reader
    partition.note_follower(
        reader.node_id,
        offset=wanted.fetch_offset,
        start_offset=wanted.log_start_offset,
        broker_epoch=reader.broker_epoch,
    )


def _closest(call: Call, partition: Replica, read: _Read) -> int:
    """The replica in the consumer's rack that has come furthest, if there is one and it is not this one."""
    leadership, brokers, offset = (
        partition.leadership,
        call.services.cluster.image.brokers,
        read.wanted.fetch_offset,
    )
    own = brokers.get(call.services.node.node_id)
    if leadership is None or (own is not None and own.rack == read.reader.rack):
        return NO_REPLICA
    best = (-1, NO_REPLICA)
    for node_id in partition.state.isr:
        broker, follower = brokers.get(node_id), leadership.follower(node_id)
        if broker is None or broker.fenced or broker.rack != read.reader.rack or follower is None:
            continue
        if follower.start_offset <= offset <= follower.end_offset:
            best = max(best, (follower.end_offset, node_id))
    return best[1]


def _divergence(partition: Replica, wanted: FetchTarget) -> tuple[ErrorCode, EpochEndOffset | None]:
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


def _is_enough(request: FetchRequest, fetch: Fetch, reads: list[_Read]) -> bool:
    if request.max_wait_ms <= 0 or not (reads or fetch.rests):
        return True
    size = 0
    for read in reads:
        if read.must_be_told:
            return True
        size += len(read.records or b"")
    return size >= min(request.min_bytes, request.max_bytes)


async def _read_until_enough(
    call: Call,
    request: FetchRequest,
    fetch: Fetch,
    reader: _Reader,
    reads: list[_Read],
    patience: _Patience,
) -> FetchResponse:
    loop = call.services.node.world.loop
    deadline = loop.time() + request.max_wait_ms / 1000
    is_last_look = False
    while True:
        for read in reads:
            if read.records is None:
                await _read_cold(read)
        left_ms = (deadline - loop.time()) * 1000
        if is_last_look or patience.over or left_ms <= 0 or _is_enough(request, fetch, reads):
            return _respond(call, fetch, reads)
        is_last_look = await _wait_for_more(call, request, fetch, reads, left_ms, patience)
        reads = _read_cached(call, request, fetch, reader)


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


async def _wait_for_more(
    call: Call, request: FetchRequest, fetch: Fetch, reads: list[_Read], left_ms: float, patience: _Patience
) -> bool:
    """True if there is nothing more to wait for."""
    if len(fetch) != len(reads) or any(read.is_outdated for read in reads):
        return False  # it came between reading and now, when nobody waited for it yet
    present = sum(len(read.records or b"") for read in reads)
    waiting = WaitingFetch(
        call.services.node.world.loop, missing_bytes=request.min_bytes - present, max_wait_ms=left_ms
    )
    patience.waiting = waiting
    resting = _resting(fetch)
    if resting is not None:
        resting.waiting = waiting
    try:
        for read in reads:
            partition = read.partition
            assert partition is not None
            waiting.wait_at(partition.follower_fetches if read.reader.is_follower else partition.fetches)
            if read.has_new_high_watermark:
                waiting.high_watermark_moved()
        return await waiting.future
    finally:
        patience.waiting = None
        if resting is not None and resting.waiting is waiting:
            resting.waiting = None
        waiting.leave()


def _respond(call: Call, fetch: Fetch, reads: list[_Read]) -> FetchResponse:
    by_key = {read.key: read for read in reads}
    answer = fetch.finish({read.key: read.outcome() for read in reads})
    if answer.error is not ErrorCode.NONE:
        return FetchResponse(error_code=answer.error, session_id=answer.session_id)
    topics: dict[bytes | str, FetchableTopicResponse] = {}
    hints: list[Hint] = []
    knows_hints = call.version >= HINTS_SINCE
    for key in answer.included:
        name = key[0]
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = (
                FetchableTopicResponse(topic_id=name)
                if isinstance(name, bytes)
                else FetchableTopicResponse(topic=name)
            )
        read = by_key[key]
        if read.records:
            if read.is_throttled:
                call.services.logs.leader_throttle.count(len(read.records))
            elif read.partition is not None and not read.reader.is_follower:
                read.partition.sent_bytes += len(read.records)
        data = _partition_data(read)
        hinted = hint(call, data.error_code, *key) if data.error_code and knows_hints else None
        if hinted is not None:
            data.current_leader = LeaderIdAndEpoch(
                leader_id=hinted.leader.node_id, leader_epoch=hinted.leader_epoch
            )
            hints.append(hinted)
        topic.partitions.append(data)
    _let_rest(fetch, reads, answer.included)
    response = FetchResponse(session_id=answer.session_id, responses=list(topics.values()))
    if hints:
        response.node_endpoints = [
            NodeEndpoint(node_id=node_id, host=host, port=port, rack=rack)
            for node_id, host, port, rack in endpoints(hints)
        ]
    return response


def _let_rest(fetch: Fetch, reads: list[_Read], included: list[PartitionKey]) -> None:
    """Partitions of which there was nothing to tell a follower, and which it has all of, are left alone from now on."""
    resting = _resting(fetch)
    if resting is None:
        return
    assert isinstance(fetch, IncrementalFetch)
    told = frozenset(included)
    for read in reads:
        partition = read.partition
        if partition is None or read.key in told:
            continue
        if partition.has_everything(read.reader.node_id, offset=read.wanted.fetch_offset):
            fetch.rest(read.key)
            resting.add(read.key, partition)


def _partition_data(read: _Read) -> PartitionData:
    partition = read.partition
    if partition is None or read.error is not ErrorCode.NONE:
        return PartitionData(
            partition_index=read.key[1],
            error_code=read.error,
            high_watermark=-1,
            last_stable_offset=-1,
            log_start_offset=-1,
            aborted_transactions=[] if partition is None or read.reader.committed else None,
            records=b"",
        )
    return PartitionData(
        partition_index=read.key[1],
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.last_stable_offset,
        log_start_offset=partition.log.start_offset,
        diverging_epoch=read.diverging,
        preferred_read_replica=read.preferred_replica,
        aborted_transactions=_aborted(partition, read) if read.reader.committed else None,
        records=read.records,
    )


def _aborted(partition: Replica, read: _Read) -> list[AbortedTransaction]:
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
