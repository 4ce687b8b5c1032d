"""Asks the transaction coordinator before the first batch of a transaction is appended to a partition.

Clients of transaction version 2 do not send AddPartitionsToTxn: the partition's leader adds the partition for them. For
older clients the leader verifies that they have added it (KIP-890): a batch that arrives late, after its transaction
has ended, would otherwise open a transaction that is never ended. The coordinator's errors are mapped to errors of
Produce that make the producer retry, or abort the transaction.

The coordinator may be on another broker (`remote_coordinators`). If it cannot be reached, the error is that of a
coordinator that is not available yet.

A marker that is written to the partition during the request may be of the previous transaction, or of the one that is
being verified: then the coordinator is asked again.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from penstock.base.errors import ErrorCode, Refusal
from penstock.base.ids import TopicPartition
from penstock.cluster.peer_requests.coordinators import Codes, Question
from penstock.core.transaction_verification import Verification
from penstock.core.transactions.requests import AddPartitions
from penstock.core.transactions.shard import TransactionShard
from penstock.core.transactions.transaction import VERSION_2, ProducerIdAndEpoch
from penstock.services.coordinators.coordinator import Coordinator
from penstock.services.replicas.replica import Replica
from penstock.services.transactions.marker_writer import MarkerWriter
from penstock.services.transactions.remote_coordinators import RemoteCoordinators
from penstock.world import World

# How long a client's next transaction waits for the markers of its last one, before CONCURRENT_TRANSACTIONS.
_ENDING_TIMEOUT_S: Final = 1.0

# The same if the coordinator is on another broker: this one is not notified of the markers, so it polls.
_ENDING_DELAYS_S: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32)

_RETRIABLE: Final = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)

_ATTEMPTS: Final = 5

# By partition: the verification with which a batch may begin a transaction there, or the error why it may not.
Verified: TypeAlias = dict[Replica, Verification | ErrorCode]


class FirstBatch(NamedTuple):
    """A batch that would be the first of its transaction in a partition."""

    partition: Replica
    sequence: int

    @property
    def where(self) -> TopicPartition:
        return TopicPartition(self.partition.topic, self.partition.index)


class ProduceVerifier:
    """Adds and verifies partitions of transactions, for partition leaders and for the group coordinator."""

    def __init__(
        self,
        world: World,
        coordinator: Coordinator[TransactionShard],
        marker_writer: MarkerWriter,
        remote: RemoteCoordinators,
        *,
        node_id: int,
    ) -> None:
        self._loop = world.loop
        self._coordinator = coordinator
        self._marker_writer = marker_writer
        self._remote = remote
        self._node_id = node_id

    async def ask(
        self,
        transactional_id: str,
        identity: ProducerIdAndEpoch,
        beginning: Sequence[FirstBatch],
        *,
        adds: bool,
    ) -> Verified:
        """Add the partitions (`adds`: the client has transaction version 2), or verify that the client did."""
        for _ in range(_ATTEMPTS):
            taken = {batch.partition: _take(batch, identity, bumps_epochs=adds) for batch in beginning}
            where = frozenset(batch.where for batch in beginning)
            if adds:
                codes = dict.fromkeys(sorted(where), await self.add(transactional_id, identity, where))
            else:
                codes = await self.verify(transactional_id, identity, where)
            verified: Verified = {}
            for batch in beginning:
                code, verification = codes[batch.where], taken[batch.partition]
                verified[batch.partition] = verification if code is ErrorCode.NONE else code
                if code is not ErrorCode.NONE and code not in _RETRIABLE:
                    batch.partition.producers.verifications.release(identity.producer_id, verification)
            if all(_is_current(batch, identity, verified[batch.partition]) for batch in beginning):
                break
        return verified

    async def add(
        self, transactional_id: str, identity: ProducerIdAndEpoch, partitions: frozenset[TopicPartition]
    ) -> ErrorCode:
        """Add partitions to the transaction of a client with transaction version 2; NONE if they are added."""
        request = AddPartitions(transactional_id, identity, partitions, VERSION_2)
        code = await self._add_here(request)
        if code is ErrorCode.CONCURRENT_TRANSACTIONS:
            # The client has the response to its last EndTxn; the markers are still being written.
            await self._marker_writer.ended(transactional_id, timeout_s=_ENDING_TIMEOUT_S)
            return await self._add_here(request)
        if code is ErrorCode.NOT_COORDINATOR:
            return await self._add_elsewhere(
                Question(transactional_id, identity, partitions, verify_only=False)
            )
        return code

    async def _add_here(self, request: AddPartitions) -> ErrorCode:
        answer = await self._coordinator.ask(
            request.transactional_id, lambda shard, now_ms: shard.add_partitions(request, now_ms)
        )
        return answer.code if isinstance(answer, Refusal) else ErrorCode.NONE

    async def _add_elsewhere(self, question: Question) -> ErrorCode:
        for delay_s in (*_ENDING_DELAYS_S, None):
            codes = (await self._ask_elsewhere(question)).values()
            code = next((code for code in codes if code is not ErrorCode.NONE), ErrorCode.NONE)
            if code is not ErrorCode.CONCURRENT_TRANSACTIONS or delay_s is None:
                break
            await self._loop.sleep(delay_s)
        return code

    async def _ask_elsewhere(self, question: Question) -> Codes:
        leader = self._coordinator.leader_for(question.transactional_id)
        # If the metadata names this broker, its coordinator is just taking the partition over, or giving it up.
        if leader is None or leader == self._node_id:
            return question.all(ErrorCode.NOT_COORDINATOR)
        return await self._remote.ask(leader, question)

    async def verify(
        self, transactional_id: str, identity: ProducerIdAndEpoch, partitions: frozenset[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """By partition: NONE if the client has added it, TRANSACTION_ABORTABLE if not, or the coordinator's error."""
        answer = await self._coordinator.ask(
            transactional_id, lambda shard, _: shard.verify(transactional_id, identity, partitions)
        )
        if not isinstance(answer, Refusal):
            return answer
        question = Question(transactional_id, identity, partitions, verify_only=True)
        if answer.code is ErrorCode.NOT_COORDINATOR:
            return await self._ask_elsewhere(question)
        return question.all(answer.code)


def _take(batch: FirstBatch, identity: ProducerIdAndEpoch, *, bumps_epochs: bool) -> Verification:
    verifications = batch.partition.producers.verifications
    producer_id, epoch = identity
    return verifications.begin(producer_id, epoch=epoch, sequence=batch.sequence, bumps_epochs=bumps_epochs)


def _is_current(batch: FirstBatch, identity: ProducerIdAndEpoch, answer: Verification | ErrorCode) -> bool:
    """Whether the coordinator's answer still holds: no marker has ended the verification meanwhile."""
    producers = batch.partition.producers
    if isinstance(answer, ErrorCode) or producers.is_in_transaction(*identity):
        return True
    return producers.verifications.holds(identity.producer_id, answer)


def produce_refusal(code: ErrorCode, *, knows_abortable: bool) -> Refusal:
    """The coordinator's error as an error of Produce."""
    if code in _RETRIABLE:
        # Older producers do not expect a coordinator's errors. This one they retry without a metadata refresh.
        reason = f"the transaction could not be verified yet: {code.name}"
        return Refusal(ErrorCode.NOT_ENOUGH_REPLICAS, reason)
    if code is ErrorCode.PRODUCER_FENCED:
        return Refusal(ErrorCode.INVALID_PRODUCER_EPOCH)
    if code is ErrorCode.TRANSACTION_ABORTABLE and not knows_abortable:
        return Refusal(ErrorCode.INVALID_TXN_STATE, "the partition was not added to the transaction")
    return Refusal(code)
