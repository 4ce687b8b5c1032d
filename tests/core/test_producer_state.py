"""Idempotent producers: what is taken, what is recognised, what is refused, and what is forgotten."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.base.errors import ErrorCode
from penstock.core.producer_state import BATCHES_REMEMBERED, Duplicate, ProducerStates
from penstock.records.batch import CONTROL, TRANSACTIONAL, BatchHeader
from penstock.records.control import Marker, MarkerType
from penstock.records.producer import EarlierBatch, ProducerEntry

NONE = ErrorCode.NONE
OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
OLD_EPOCH = ErrorCode.INVALID_PRODUCER_EPOCH
LAST = 2**31 - 1


def batch(sequence, *, count=1, producer=7, epoch=0, offset=0, timestamp=1000, attributes=0):
    return BatchHeader(
        base_offset=offset,
        batch_length=100,
        leader_epoch=0,
        magic=2,
        crc=0,
        attributes=attributes,
        last_offset_delta=count - 1,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
        record_count=count,
    )


def abort(*, producer=7, epoch=0, coordinator=0):
    return Marker(MarkerType.ABORT, producer, epoch, coordinator)


def having(*headers, **options):
    states = ProducerStates(**options)
    for header in headers:
        states.replay(header)
    return states


def test_sequences_follow_each_other():
    states = having(batch(0, count=3))
    assert states.check(batch(3), now_ms=0) is NONE
    assert states.check(batch(4), now_ms=0) is OUT_OF_ORDER
    assert states.check(batch(2), now_ms=0) is OUT_OF_ORDER


def test_checking_remembers_nothing():
    states = ProducerStates()
    states.check(batch(0), now_ms=0)
    assert len(states) == 0


def test_an_unknown_producer_may_begin_anywhere():
    assert ProducerStates().check(batch(41), now_ms=0) is NONE
    states = having(batch(41))
    assert states.check(batch(42), now_ms=0) is NONE
    assert states.check(batch(44), now_ms=0) is OUT_OF_ORDER


def test_each_of_the_last_five_batches_is_recognised_and_the_sixth_is_not():
    states = having(*(batch(2 * n, count=2, offset=100 + 2 * n, timestamp=n) for n in range(7)))
    assert states.check(batch(2, count=2), now_ms=0) is OUT_OF_ORDER
    for n in range(2, 7):
        place = Duplicate(base_offset=100 + 2 * n, last_offset=101 + 2 * n, timestamp=n)
        assert states.check(batch(2 * n, count=2), now_ms=0) == place


def test_part_of_a_remembered_batch_is_not_a_repetition():
    states = having(batch(0, count=4))
    assert states.check(batch(0, count=3), now_ms=0) is OUT_OF_ORDER
    assert states.check(batch(1, count=3), now_ms=0) is OUT_OF_ORDER


def test_sequences_start_again_after_the_largest():
    states = having(batch(LAST))
    assert states.check(batch(0), now_ms=0) is NONE
    around = having(batch(LAST - 1, count=3, offset=17))
    assert around.check(batch(1), now_ms=0) is NONE
    assert around.check(batch(0), now_ms=0) is OUT_OF_ORDER
    assert around.check(batch(LAST - 1, count=3), now_ms=0) == Duplicate(17, 19, 1000)


def test_a_newer_epoch_begins_at_zero_and_fences_the_older():
    states = having(batch(0), batch(1))
    assert states.check(batch(2, epoch=1), now_ms=0) is OUT_OF_ORDER
    assert states.check(batch(0, epoch=1), now_ms=0) is NONE
    states.replay(batch(0, epoch=1))
    assert states.check(batch(1, epoch=1), now_ms=0) is NONE
    assert states.check(batch(2, epoch=0), now_ms=0) is OLD_EPOCH
    assert states.check(batch(1, epoch=0), now_ms=0) is OLD_EPOCH, "even what is in the log already"


def test_the_batches_of_an_older_epoch_are_no_longer_recognised():
    states = having(batch(0), batch(1), batch(2), batch(0, epoch=1))
    assert states.check(batch(2, epoch=1), now_ms=0) is OUT_OF_ORDER


def test_producers_do_not_disturb_each_other():
    states = having(batch(0, producer=1), batch(10, producer=2))
    assert states.check(batch(1, producer=1), now_ms=0) is NONE
    assert states.check(batch(11, producer=2), now_ms=0) is NONE


def test_a_marker_raises_the_epoch_and_the_next_batch_begins_at_zero():
    states = having(batch(0))
    states.replay_marker(batch(-1, epoch=1, attributes=CONTROL), abort(epoch=1))
    assert states.check(batch(1, epoch=0), now_ms=0) is OLD_EPOCH
    assert states.check(batch(1, epoch=1), now_ms=0) is OUT_OF_ORDER
    assert states.check(batch(0, epoch=1), now_ms=0) is NONE


def test_a_marker_of_the_same_epoch_leaves_the_sequence_alone():
    states = having(batch(0))
    states.replay_marker(batch(-1, attributes=CONTROL), abort())
    assert states.check(batch(1), now_ms=0) is NONE


def test_a_snapshot_knows_the_last_batches():
    states = having(batch(0, offset=10), batch(1, count=2, offset=11, timestamp=5))
    (entry,) = states.entries()
    assert entry == ProducerEntry(
        producer_id=7,
        producer_epoch=0,
        last_sequence=2,
        last_offset=12,
        offset_delta=1,
        timestamp=5,
        coordinator_epoch=-1,
        current_txn_first_offset=-1,
        earlier=(EarlierBatch(0, 0, 10, 10, 1000),),
    )
    restored = having(batch(99, producer=99))
    restored.restore([entry])
    assert restored.entries() == [entry]
    assert restored.check(batch(1, count=2), now_ms=0) == Duplicate(11, 12, 5)
    assert restored.check(batch(0), now_ms=0) == Duplicate(10, 10, 1000)
    assert restored.check(batch(3), now_ms=0) is NONE


def test_a_snapshot_of_kafka_knows_the_last_batch_only():
    restored = ProducerStates()
    restored.restore([ProducerEntry(7, 0, 2, 12, 1, 5, -1, -1)])
    assert restored.check(batch(1, count=2), now_ms=0) == Duplicate(11, 12, 5)
    assert restored.check(batch(0), now_ms=0) is OUT_OF_ORDER
    assert restored.check(batch(3), now_ms=0) is NONE


def test_a_snapshot_of_very_many_producers_knows_the_earlier_batches_of_those_who_wrote_last():
    states = having(*(batch(n, producer=producer) for producer in range(1_002) for n in range(2)))
    earlier = [len(entry.earlier) for entry in states.entries()]
    assert earlier == [0, 0, *[1] * 1_000]


def test_a_restored_batch_that_went_around_the_largest_sequence_is_recognised():
    states = having(batch(LAST, count=3, offset=5))
    restored = ProducerStates()
    restored.restore(states.entries())
    assert restored.check(batch(LAST, count=3), now_ms=0) == Duplicate(5, 7, 1000)


def test_what_transactions_keep_in_an_entry_survives():
    entry = ProducerEntry(7, 3, -1, -1, 0, -1, 12, 40)
    states = ProducerStates()
    states.restore([entry])
    assert states.entries() == [entry]
    assert states.check(batch(1, epoch=3, attributes=TRANSACTIONAL), now_ms=0) is OUT_OF_ORDER
    assert states.check(batch(0, epoch=3, attributes=TRANSACTIONAL), now_ms=0) is NONE


def test_a_silent_producer_is_forgotten_after_the_expiration_and_may_write_on():
    states = having(batch(0), batch(0, producer=8))
    assert states.expire(1_000_000, 100) == []
    states.replay(batch(1, producer=8))
    assert states.expire(1_000_099, 100) == []
    assert states.expire(1_000_100, 100) == [7]
    assert states.check(batch(5), now_ms=0) is NONE
    assert states.check(batch(5, producer=8), now_ms=0) is OUT_OF_ORDER
    assert states.expire(1_000_199, 100) == [8]


def test_old_timestamps_do_not_make_a_busy_producer_forgotten():
    states = ProducerStates()
    for n in range(10):
        states.replay(batch(n, timestamp=1))
        assert states.expire(1_000_000 + n * 99, 100) == []


def test_after_a_restart_the_last_timestamp_counts():
    states = ProducerStates()
    states.restore([ProducerEntry(7, 0, 5, 5, 0, 1000, -1, -1), ProducerEntry(8, 0, 5, 5, 0, 1050, -1, -1)])
    assert states.expire(1100, 100) == [7]
    assert states.expire(1150, 100) == [8]


def test_a_producer_with_an_open_transaction_is_not_forgotten():
    states = ProducerStates(producers_max=1)
    states.restore([ProducerEntry(7, 0, 5, 5, 0, 0, -1, 3)])
    assert states.expire(10**12, 1) == []
    states.replay(batch(0, producer=8))
    assert [entry.producer_id for entry in states.entries()] == [7, 8]


def test_beyond_the_limit_the_longest_silent_goes():
    states = having(batch(0, producer=1), batch(0, producer=2), producers_max=2)
    states.replay(batch(1, producer=1))
    states.replay(batch(0, producer=3))
    assert [entry.producer_id for entry in states.entries()] == [1, 3]


# Against a model that keeps every batch and thinks slowly.


@dataclass
class SlowProducer:
    """All batches of a producer that were taken, oldest first: (epoch, base sequence, count, offset)."""

    batches: list[tuple[int, int, int, int]] = field(default_factory=list)

    def answer(self, epoch, sequence, count):
        if not self.batches:
            return NONE
        newest = max(taken[0] for taken in self.batches)
        if epoch != newest:
            return OLD_EPOCH if epoch < newest else NONE if sequence == 0 else OUT_OF_ORDER
        same = [taken for taken in self.batches if taken[0] == epoch]
        _, last_sequence, last_count, _ = same[-1]
        if sequence == (last_sequence + last_count) % 2**31:
            return NONE
        for _, its_sequence, its_count, offset in same[-BATCHES_REMEMBERED:]:
            if (sequence, count) == (its_sequence, its_count):
                return Duplicate(offset, offset + count - 1, offset)
        return OUT_OF_ORDER


STEPS = st.lists(
    st.tuples(
        st.integers(1, 2),  # producer
        st.sampled_from([0, 0, 0, 1, -1]),  # epoch, relative to its newest
        st.sampled_from(["next", "next", "next", "again", "jump", "zero"]),
        st.integers(1, 8),  # which batch again, counted from the newest
        st.integers(1, 3),  # records
        st.booleans(),  # the broker restarts first
    ),
    max_size=60,
)


@settings(max_examples=300, deadline=None)
@given(first_sequence=st.sampled_from([0, 5, LAST - 3]), steps=STEPS)
def test_any_sequence_of_batches_is_answered_as_by_a_model_that_keeps_everything(first_sequence, steps):
    states = ProducerStates()
    model = {1: SlowProducer(), 2: SlowProducer()}
    offset = 0
    for producer, epoch_step, choice, back, count, restart in steps:
        if restart:
            states.restore(states.entries())
        slow = model[producer]
        epoch = max((taken[0] for taken in slow.batches), default=3) + epoch_step
        sequence = first_sequence
        if slow.batches:
            _, last_sequence, last_count, _ = slow.batches[-1]
            sequence = (last_sequence + last_count) % 2**31
        if choice == "again" and slow.batches:
            _, sequence, count, _ = slow.batches[-min(back, len(slow.batches))]
        elif choice == "jump":
            sequence = (sequence + back) % 2**31
        elif choice == "zero" or epoch_step > 0:
            sequence = 0
        header = batch(sequence, count=count, producer=producer, epoch=epoch, offset=offset, timestamp=offset)
        answer = states.check(header, now_ms=0)
        assert answer == slow.answer(epoch, sequence, count)
        if answer is NONE:
            states.replay(header)
            slow.batches.append((epoch, sequence, count, offset))
            offset += count


@pytest.mark.parametrize("retries", [1, 3])
def test_a_producer_that_repeats_itself_writes_everything_once_and_in_order(retries):
    states, log = ProducerStates(), []
    for n in range(50):
        for _ in range(1 + retries):
            header = batch(n, offset=len(log))
            if states.check(header, now_ms=0) is NONE:
                states.replay(header)
                log.append(n)
    assert log == list(range(50))
