"""A transactional producer: records and committed offsets in one transaction. AddOffsetsToTxn v0-v4, TxnOffsetCommit
v0-v5, and the requests of `transaction_steps`.

If the cluster has finalised `transaction.version` 2, every transaction has its own epoch and produce requests add
their partitions to it; below that, partitions are added first.

    producer = TransactionalProducer(client, "billing-1")
    await producer.start()
    producer.begin()
    await producer.send("invoices", records)
    await producer.send_offsets("billing", offsets, membership)
    await producer.commit()
"""

from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from typing import Final

from penstock.base.errors import ErrorCode, PenstockError, Refusal
from penstock.base.ids import TopicPartition
from penstock.client.client import Client
from penstock.client.cluster import CoordinatorKind
from penstock.client.coordinators import ask_coordinator
from penstock.client.errors import AnsweredError, error_code
from penstock.client.group_offsets import GroupOffset, Membership
from penstock.client.producer import NewRecord, Producer, Tally, TransactionContext
from penstock.client.topics import by_topic
from penstock.client.transaction_steps import (
    OLD_PRODUCE,
    ProducerIdentity,
    add_partitions,
    end,
    has_own_epochs,
    take_over,
)
from penstock.records.compression import Codec
from penstock.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from penstock.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

# The newest version for clusters below `transaction.version` 2; newer ones imply it.
_OLD_OFFSET_COMMIT: Final = 4

_FENCED = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING)


class _State(Enum):
    NEW = "not started"
    READY = "between transactions"
    OPEN = "in a transaction"
    BROKEN = "in a transaction that can only be aborted"
    FENCED = "fenced"


class FencedError(PenstockError):
    """Another producer with the same transactional id has fenced this one; it cannot write any more."""


class TransactionalProducer:
    """One transactional id's producer. One transaction at a time."""

    def __init__(
        self,
        client: Client,
        transactional_id: str,
        *,
        timeout_ms: int = 60_000,
        codec: Codec = Codec.NONE,
        two_phase: bool = False,
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = -1
        self.producer_epoch = -1
        self._client = client
        self._timeout_ms = timeout_ms
        self._two_phase = two_phase
        self._producer = Producer(client, codec=codec)
        self._own_epochs = False
        self._state = _State.NEW
        self._announced: set[TopicPartition] = set()
        self._groups: set[str] = set()
        self._touched = False  # whether the coordinator may have this transaction

    @property
    def tallies(self) -> Mapping[TopicPartition, Tally]:
        """What was appended to each partition, in all transactions."""
        return self._producer.tallies

    async def start(self) -> None:
        """Initialize the transactional id: its previous producer is fenced, and its open transaction aborted."""
        self._own_epochs = await has_own_epochs(self._client)
        self.producer_id, self.producer_epoch = await take_over(
            self._client, self.transactional_id, timeout_ms=self._timeout_ms, two_phase=self._two_phase
        )
        self._state = _State.READY

    def begin(self) -> None:
        self._require(_State.READY)
        self._announced.clear()
        self._groups.clear()
        self._touched = False
        self._state = _State.OPEN
        self._producer.begin(
            TransactionContext(
                self.transactional_id,
                self.producer_id,
                self.producer_epoch,
                self._announce,
                None if self._own_epochs else OLD_PRODUCE,
            )
        )

    async def send(self, topic: str, records: Iterable[NewRecord]) -> None:
        """Send records as part of the transaction; after an error it can only be aborted."""
        self._require(_State.OPEN)
        try:
            await self._producer.send(topic, records)
        except BaseException as error:
            self._broke(error)
            raise

    async def send_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, GroupOffset],
        membership: Membership | None = None,
    ) -> None:
        """Commit a group's offsets as part of the transaction."""
        self._require(_State.OPEN)
        try:
            await self._add_group(group_id)
            await self._commit_offsets(group_id, offsets, membership or Membership())
        except BaseException as error:
            self._broke(error)
            raise

    async def commit(self) -> None:
        self._require(_State.OPEN)
        try:
            await self._end(committed=True)
        except BaseException as error:
            self._broke(error)
            raise

    async def abort(self) -> None:
        self._require(_State.OPEN, _State.BROKEN)
        try:
            if self._state is _State.BROKEN and not self._own_epochs:
                # A failed batch may have been appended: its sequence numbers are used up, which needs a new epoch too.
                await self.start()
            else:
                await self._end(committed=False)
        except BaseException as error:
            self._broke(error)
            raise

    async def _end(self, *, committed: bool) -> None:
        if self._touched:
            self.producer_id, self.producer_epoch = await end(
                self._client,
                self.transactional_id,
                self._identity,
                committed=committed,
                own_epochs=self._own_epochs,
            )
        self._state = _State.READY

    async def _announce(self, partitions: Collection[TopicPartition]) -> None:
        self._touched = True
        new = sorted(set(partitions) - self._announced)
        if self._own_epochs or not new:
            return

        await add_partitions(self._client, self.transactional_id, self._identity, new)
        self._announced.update(new)

    async def _add_group(self, group_id: str) -> None:
        self._touched = True
        if self._own_epochs or group_id in self._groups:
            return
        await ask_coordinator(
            self._client,
            CoordinatorKind.TRANSACTION,
            self.transactional_id,
            AddOffsetsToTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self.producer_id,
                producer_epoch=self.producer_epoch,
                group_id=group_id,
            ),
            AddOffsetsToTxnResponse,
            code_of=lambda answer: answer.error_code,
            about=f"add group {group_id!r} to the transaction of {self.transactional_id!r}",
        )
        self._groups.add(group_id)

    async def _commit_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, GroupOffset], membership: Membership
    ) -> None:
        def code_of(answer: TxnOffsetCommitResponse) -> int:
            codes = (each.error_code for topic in answer.topics for each in topic.partitions)
            return next((code for code in codes if code), 0)

        await ask_coordinator(
            self._client,
            CoordinatorKind.GROUP,
            group_id,
            TxnOffsetCommitRequest(
                transactional_id=self.transactional_id,
                group_id=group_id,
                producer_id=self.producer_id,
                producer_epoch=self.producer_epoch,
                generation_id=membership.generation,
                member_id=membership.member_id,
                group_instance_id=membership.instance_id,
                topics=[
                    TxnOffsetCommitRequestTopic(
                        name=topic,
                        partitions=[
                            _offset(index, offsets[TopicPartition(topic, index)]) for index in indexes
                        ],
                    )
                    for topic, indexes in by_topic(list(offsets)).items()
                ],
            ),
            TxnOffsetCommitResponse,
            code_of=code_of,
            about=f"commit offsets of group {group_id!r} in the transaction of {self.transactional_id!r}",
            version_max=None if self._own_epochs else _OLD_OFFSET_COMMIT,
        )

    @property
    def _identity(self) -> ProducerIdentity:
        return ProducerIdentity(self.producer_id, self.producer_epoch)

    def _require(self, *states: _State) -> None:
        if self._state is _State.FENCED:
            raise FencedError(
                f"transactional id {self.transactional_id!r} was taken over by another producer"
            )
        assert self._state in states, f"the producer is {self._state.value}"

    def _broke(self, error: BaseException) -> None:
        fenced = isinstance(error, AnsweredError) and error.refusal.code in _FENCED
        self._state = _State.FENCED if fenced else _State.BROKEN


async def end_transaction(
    client: Client, transactional_id: str, *, producer_id: int, producer_epoch: int, committed: bool
) -> Refusal | None:
    """End another producer's transaction by its producer id and epoch; None if that succeeded."""
    identity = ProducerIdentity(producer_id, producer_epoch)
    try:
        own_epochs = await has_own_epochs(client)
        await end(client, transactional_id, identity, committed=committed, own_epochs=own_epochs)
    except AnsweredError as error:
        return Refusal(error_code(error.refusal.code), error.refusal.message)
    return None


def _offset(index: int, committed: GroupOffset) -> TxnOffsetCommitRequestPartition:
    return TxnOffsetCommitRequestPartition(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        committed_metadata=committed.metadata,
    )
