"""Transactional producers of a partition: what begins a transaction, what ends it, and what it hides meanwhile."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.errors import ErrorCode
from penstock.core.producer_state import Duplicate, ProducerStates
from penstock.records.batch import CONTROL, TRANSACTIONAL, BatchHeader
from penstock.records.control import Marker, MarkerType
from penstock.records.producer import AbortedTransaction

NONE = ErrorCode.NONE
OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
ABORT, COMMIT = MarkerType.ABORT, MarkerType.COMMIT


def header(
    offset: int, *, producer: int = 7, epoch: int = 0, sequence: int = 0, attributes: int = TRANSACTIONAL
) -> BatchHeader:
    return BatchHeader(offset, 100, 0, 2, 0, attributes, 0, 1000, 1000, producer, epoch, sequence, 1)


class Partition:
    """The producers of a partition, with a log that is just its end."""

    def __init__(self) -> None:
        self.states = ProducerStates()
        self.end = 0

    def write(self, producer: int, *, epoch: int = 0, sequence: int = 0) -> int:
        self.states.replay(header(self.end, producer=producer, epoch=epoch, sequence=sequence))
        self.end += 1
        return self.end - 1

    def mark(
        self, kind: MarkerType, producer: int, *, epoch: int = 0, coordinator: int = 0
    ) -> AbortedTransaction | None:
        at = header(self.end, producer=producer, epoch=epoch, sequence=-1, attributes=CONTROL | TRANSACTIONAL)
        self.end += 1
        return self.states.replay_marker(at, Marker(kind, producer, epoch, coordinator))

    @property
    def first_unstable(self) -> int | None:
        return self.states.transactions.first_unstable_offset


@pytest.fixture
def partition() -> Partition:
    return Partition()


def test_the_oldest_open_transaction_is_where_stability_ends(partition: Partition):
    assert partition.first_unstable is None
    partition.write(1)
    partition.write(2)
    partition.write(1, sequence=1)
    assert partition.first_unstable == 0
    partition.mark(COMMIT, 1)
    partition.states.transactions.settle(partition.end)
    assert partition.first_unstable == 1
    partition.mark(ABORT, 2)
    partition.states.transactions.settle(partition.end)
    assert partition.first_unstable is None


def test_a_transaction_stays_unstable_until_its_marker_is_below_the_high_watermark(partition: Partition):
    partition.write(1)
    partition.mark(COMMIT, 1)
    assert not partition.states.transactions.settle(1)
    assert partition.first_unstable == 0
    assert partition.states.transactions.settle(2)
    assert partition.first_unstable is None


def test_only_an_abort_of_something_written_goes_to_the_index(partition: Partition):
    partition.write(1)
    assert partition.mark(COMMIT, 1) is None
    assert partition.mark(ABORT, 1) is None
    first = partition.write(1, sequence=1)
    assert partition.mark(ABORT, 1) == AbortedTransaction(1, first, first + 1, first + 2)


def test_an_entry_of_the_index_knows_the_last_stable_offset_after_it(partition: Partition):
    partition.write(1)
    partition.write(2)
    assert partition.mark(ABORT, 2) == AbortedTransaction(2, 1, 2, 0)


def test_a_transaction_must_be_verified_before_it_begins(partition: Partition):
    states = partition.states
    assert states.check(header(0), verified=False, now_ms=0) is ErrorCode.INVALID_TXN_STATE
    assert states.check(header(0), verified=True, now_ms=0) is NONE
    partition.write(7)
    assert states.check(header(0, sequence=1), verified=False, now_ms=0) is NONE
    assert states.check(header(0, sequence=0), verified=False, now_ms=0) == Duplicate(0, 0, 1000)


def test_a_repetition_of_the_last_batch_is_recognised_after_the_end_of_its_transaction(partition: Partition):
    partition.write(7)
    partition.mark(COMMIT, 7)
    assert partition.states.check(header(5), verified=False, now_ms=0) == Duplicate(0, 0, 1000)


def test_a_marker_between_question_and_batch_takes_the_verification_away(partition: Partition):
    verifications = partition.states.verifications
    asked = verifications.begin(7, epoch=0, sequence=0, bumps_epochs=False)
    assert verifications.holds(7, asked)
    partition.mark(ABORT, 7)
    assert not verifications.holds(7, asked)
    assert not verifications.holds(7, None)


def test_the_first_batch_of_a_transaction_uses_the_verification_up(partition: Partition):
    verifications = partition.states.verifications
    asked = verifications.begin(7, epoch=0, sequence=0, bumps_epochs=False)
    assert verifications.begin(7, epoch=0, sequence=1, bumps_epochs=False) is asked
    partition.write(7)
    assert len(verifications) == 0


def test_a_new_producer_epoch_is_verified_again(partition: Partition):
    verifications = partition.states.verifications
    asked = verifications.begin(7, epoch=0, sequence=0, bumps_epochs=False)
    newer = verifications.begin(7, epoch=1, sequence=0, bumps_epochs=False)
    assert newer is not asked
    assert verifications.begin(7, epoch=0, sequence=0, bumps_epochs=False) is newer
    assert not verifications.holds(7, asked)


def test_a_batch_does_not_overtake_an_earlier_one_that_is_still_being_verified(partition: Partition):
    states = partition.states
    states.verifications.begin(7, epoch=0, sequence=3, bumps_epochs=False)
    states.verifications.begin(7, epoch=0, sequence=2, bumps_epochs=False)
    assert states.check(header(0, sequence=3), now_ms=0) is OUT_OF_ORDER
    assert states.check(header(0, sequence=2), now_ms=0) is NONE


def test_an_unknown_producer_of_transaction_version_2_begins_with_sequence_0(partition: Partition):
    states = partition.states
    states.verifications.begin(7, epoch=0, sequence=5, bumps_epochs=True)
    assert states.check(header(0, sequence=5), now_ms=0) is OUT_OF_ORDER
    states.verifications.begin(8, epoch=0, sequence=5, bumps_epochs=False)
    assert states.check(header(0, producer=8, sequence=5), now_ms=0) is NONE


def test_a_record_outside_of_the_transaction_cannot_come_within_it(partition: Partition):
    partition.write(7)
    assert (
        partition.states.check(header(1, sequence=1, attributes=0), now_ms=0) is ErrorCode.INVALID_TXN_STATE
    )
    partition.mark(COMMIT, 7)
    assert partition.states.check(header(1, sequence=1, attributes=0), now_ms=0) is NONE


def test_a_marker_of_an_older_epoch_or_coordinator_is_refused(partition: Partition):
    partition.write(7, epoch=2)
    states = partition.states
    assert states.check_marker(Marker(ABORT, 7, 1, 0)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert states.check_marker(Marker(ABORT, 7, 2, 0)) is NONE
    partition.mark(ABORT, 7, epoch=2, coordinator=5)
    assert states.check_marker(Marker(ABORT, 7, 2, 4)) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert states.check_marker(Marker(ABORT, 7, 2, 5)) is NONE
    assert states.check_marker(Marker(ABORT, 99, 0, 0)) is NONE


def test_in_version_2_a_marker_has_a_newer_epoch_than_the_records(partition: Partition):
    partition.write(7, epoch=2)
    states = partition.states
    assert states.check_marker(Marker(COMMIT, 7, 2, 0), version=2) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert states.check_marker(Marker(COMMIT, 7, 3, 0), version=2) is NONE
    partition.mark(COMMIT, 7, epoch=3)
    # What comes late under the old epoch opens no transaction, and the next one counts from 0.
    assert states.check(header(9, epoch=2, sequence=1), now_ms=0) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert states.check(header(9, epoch=3, sequence=1), now_ms=0) is OUT_OF_ORDER
    assert states.check(header(9, epoch=3, sequence=0), now_ms=0) is NONE


def test_a_snapshot_knows_open_transactions_and_who_ended_the_last_one(partition: Partition):
    partition.write(1)
    partition.mark(COMMIT, 1, coordinator=4)
    partition.write(2)
    restored = ProducerStates()
    restored.restore(partition.states.entries())
    assert restored.entries() == partition.states.entries()
    assert restored.transactions.first_unstable_offset == 2
    assert restored.is_in_transaction(2, 0)
    assert restored.check_marker(Marker(ABORT, 1, 0, 3)) is ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_a_producer_with_an_open_transaction_is_not_forgotten():
    states = ProducerStates(producers_max=1)
    states.replay(header(0, producer=1))
    states.replay(header(1, producer=2))
    states.expire(0, expiration_ms=1)
    assert states.expire(10, expiration_ms=1) == []
    assert states.is_in_transaction(1, 0)


def test_a_forgotten_producer_takes_its_verification_along(partition: Partition):
    partition.states.replay(header(0, attributes=0))
    partition.states.verifications.begin(7, epoch=0, sequence=0, bumps_epochs=False)
    partition.states.expire(0, expiration_ms=1)
    assert partition.states.expire(10, expiration_ms=1) == [7]
    assert len(partition.states.verifications) == 0


@given(
    steps=st.lists(st.tuples(st.integers(1, 3), st.sampled_from(["write", "commit", "abort"])), max_size=40),
    snapshot_at=st.integers(0, 40),
)
def test_any_history_replayed_from_a_snapshot_gives_the_same_state(
    steps: list[tuple[int, str]], snapshot_at: int
):
    """Against a model: first offsets by producer, and aborted ranges; a snapshot on the way loses nothing."""
    partition = Partition()
    open_since: dict[int, int] = {}
    sequences: dict[int, int] = {}
    for number, (producer, what) in enumerate(steps):
        if number == snapshot_at:
            restored = ProducerStates()
            restored.restore(partition.states.entries())
            partition.states = restored
        if what == "write":
            sequence = sequences.get(producer, 0)
            sequences[producer] = sequence + 1
            offset = partition.write(producer, sequence=sequence)
            open_since.setdefault(producer, offset)
        else:
            aborted = partition.mark(COMMIT if what == "commit" else ABORT, producer)
            first = open_since.pop(producer, None)
            if what == "abort" and first is not None:
                stable = min(open_since.values(), default=partition.end)
                assert aborted == AbortedTransaction(producer, first, partition.end - 1, stable)
            else:
                assert aborted is None
        partition.states.transactions.settle(partition.end)
        assert partition.first_unstable == min(open_since.values(), default=None)
        assert len(partition.states.transactions) == len(open_since)
