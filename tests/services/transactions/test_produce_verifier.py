"""Transaction verification: a leader asks the coordinator before a transaction begins in a partition."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.base.errors import ErrorCode, Refusal
from penstock.core.producer_state import ProducerStates
from penstock.core.transaction_verification import Verification
from penstock.core.transactions.transaction import ProducerIdAndEpoch
from penstock.records.batch import CONTROL, TRANSACTIONAL, BatchHeader
from penstock.records.control import Marker, MarkerType
from penstock.services.transactions.produce_verifier import FirstBatch, ProduceVerifier, produce_refusal

ME = ProducerIdAndEpoch(7, 1)


class Partition:
    """As much of a partition as a verifier looks at."""

    topic = "t"
    index = 0

    def __init__(self) -> None:
        self.producers = ProducerStates()

    def take_marker(self) -> None:
        attributes = CONTROL | TRANSACTIONAL
        header = BatchHeader(0, 100, 0, 2, 0, attributes, 0, 1000, 1000, *ME, -1, 1)
        self.producers.replay_marker(header, Marker(MarkerType.COMMIT, *ME, 0))


class ScriptedCoordinator:
    """Gives prepared answers; each may have something happen first."""

    def __init__(self, *answers: Any, before: Callable[[int], None] = lambda number: None) -> None:
        self._answers = list(answers)
        self._before = before
        self.asked = 0

    def leader_for(self, key: str) -> int:
        return 1

    async def ask(self, key: str, request: Any) -> Any:
        self._before(self.asked)
        self.asked += 1
        return self._answers.pop(0)


class NoMarkers:
    """A marker writer that has nothing to do."""

    def __init__(self) -> None:
        self.waited_for: list[str] = []

    async def ended(self, transactional_id: str, *, timeout_s: float) -> None:
        self.waited_for.append(transactional_id)


@pytest.fixture
def partition() -> Partition:
    return Partition()


def verifier_of(coordinator: ScriptedCoordinator, markers: NoMarkers) -> ProduceVerifier:
    """On the broker that is the coordinator."""
    world = SimpleNamespace(loop=None)
    return ProduceVerifier(world, coordinator, markers, None, node_id=1)  # type: ignore[arg-type]


def ask(coordinator: ScriptedCoordinator, partition: Partition, *, adds: bool) -> Verification | ErrorCode:
    verifier = verifier_of(coordinator, NoMarkers())
    beginning = [FirstBatch(partition, 0)]  # type: ignore[arg-type]
    answers = asyncio.run(verifier.ask("me", ME, beginning, adds=adds))
    return next(iter(answers.values()))


def test_a_successful_verification_is_held_for_the_producer(partition: Partition):
    verification = ask(ScriptedCoordinator(None), partition, adds=True)
    assert isinstance(verification, Verification)
    assert partition.producers.verifications.holds(ME.producer_id, verification)


def test_a_marker_during_verification_repeats_it(partition: Partition):
    """It may have been the one of the transaction before, or of the very one that was asked about."""
    coordinator = ScriptedCoordinator(
        None, None, before=lambda number: None if number else partition.take_marker()
    )
    verification = ask(coordinator, partition, adds=True)
    assert coordinator.asked == 2
    assert isinstance(verification, Verification)
    assert partition.producers.verifications.holds(ME.producer_id, verification)


def test_a_repeated_verification_may_be_refused(partition: Partition):
    where = FirstBatch(partition, 0).where  # type: ignore[arg-type]
    coordinator = ScriptedCoordinator(
        {where: ErrorCode.NONE},
        Refusal(ErrorCode.PRODUCER_FENCED),
        before=lambda number: None if number else partition.take_marker(),
    )
    assert ask(coordinator, partition, adds=False) is ErrorCode.PRODUCER_FENCED


def test_a_refused_verification_leaves_no_state(partition: Partition):
    coordinator = ScriptedCoordinator(Refusal(ErrorCode.INVALID_PRODUCER_ID_MAPPING))
    assert ask(coordinator, partition, adds=True) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert len(partition.producers.verifications) == 0


def test_a_verification_that_will_be_retried_keeps_its_state(partition: Partition):
    coordinator = ScriptedCoordinator(Refusal(ErrorCode.NOT_COORDINATOR))
    assert ask(coordinator, partition, adds=True) is ErrorCode.NOT_COORDINATOR
    assert len(partition.producers.verifications) == 1


def test_verification_is_not_repeated_without_end(partition: Partition):
    coordinator = ScriptedCoordinator(*[None] * 100, before=lambda _: partition.take_marker())
    verification = ask(coordinator, partition, adds=True)
    assert coordinator.asked < 10
    assert isinstance(verification, Verification)
    assert not partition.producers.verifications.holds(ME.producer_id, verification)


def test_the_next_transaction_waits_for_the_end_of_the_last(partition: Partition):
    markers = NoMarkers()
    coordinator = ScriptedCoordinator(Refusal(ErrorCode.CONCURRENT_TRANSACTIONS), None)
    verifier = verifier_of(coordinator, markers)
    assert asyncio.run(verifier.add("me", ME, frozenset())) is ErrorCode.NONE
    assert markers.waited_for == ["me"]


@pytest.mark.parametrize(
    ("code", "knows_abortable", "told"),
    [
        (ErrorCode.CONCURRENT_TRANSACTIONS, True, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.NOT_COORDINATOR, True, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.PRODUCER_FENCED, True, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.TRANSACTION_ABORTABLE, True, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.TRANSACTION_ABORTABLE, False, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, True, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ],
)
def test_producers_get_error_codes_of_their_version(code: ErrorCode, knows_abortable: bool, told: ErrorCode):
    assert produce_refusal(code, knows_abortable=knows_abortable).code is told
