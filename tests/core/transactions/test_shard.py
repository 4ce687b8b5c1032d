"""Adding, verifying, describing, listing, forgetting; and any history against a simple model."""

from collections.abc import Generator

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from penstock.base.errors import ErrorCode, PeerError
from penstock.core.coordinator_shard import Decision
from penstock.core.groups.regex import compile_expression
from penstock.core.transactions.requests import Listed, ListFilter
from penstock.core.transactions.settings import TransactionSettings
from penstock.core.transactions.states import TransactionState
from penstock.core.transactions.transaction import ProducerIdAndEpoch
from penstock.records.internal.record import InternalRecord
from penstock.records.internal.transaction_shapes import TransactionLogKey, TransactionLogValue
from tests.core.transactions.coordinator import MINUTE_MS, T0, T1, Coordinator

NONE = ErrorCode.NONE
DAY_MS = 24 * 60 * MINUTE_MS


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


def verify(coordinator: Coordinator, identity: ProducerIdAndEpoch, *partitions, name: str = "me"):
    return coordinator.carry_out(coordinator.shard.verify(name, identity, frozenset(partitions)))


def test_a_record_with_a_state_that_does_not_exist_is_refused_and_changes_nothing(coordinator: Coordinator):
    me = coordinator.initialize()
    key = TransactionLogKey(transactional_id="me")
    forged = InternalRecord(key, TransactionLogValue(producer_id=9, transaction_status=99))
    with pytest.raises(PeerError, match=r"no transaction state 99.*'me'"):
        coordinator.shard.replay(forged, offset=0)
    assert coordinator.describe().identity == me


def test_adding_a_partition_again_writes_nothing(coordinator: Coordinator):
    me = coordinator.initialize()
    coordinator.add(me, T0)
    length = len(coordinator.log)
    assert coordinator.add(me, T0) is NONE
    assert len(coordinator.log) == length
    assert coordinator.add(me, T0, T1) is NONE
    assert coordinator.describe().partitions == {T0, T1}


def test_nothing_is_added_while_markers_are_written(coordinator: Coordinator):
    me = coordinator.initialize()
    coordinator.add(me)
    coordinator.end(me)
    assert coordinator.add(me) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert verify(coordinator, me, T0) is ErrorCode.CONCURRENT_TRANSACTIONS


def test_an_unknown_id_has_no_producer(coordinator: Coordinator):
    assert coordinator.add(ProducerIdAndEpoch(1, 0)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert verify(coordinator, ProducerIdAndEpoch(1, 0), T0) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_verifying_tells_which_partitions_were_added(coordinator: Coordinator):
    me = coordinator.initialize()
    coordinator.add(me, T0)
    assert verify(coordinator, me, T0, T1) == {T0: NONE, T1: ErrorCode.TRANSACTION_ABORTABLE}
    assert verify(coordinator, ProducerIdAndEpoch(me.producer_id, 9), T0) is ErrorCode.PRODUCER_FENCED
    coordinator.end(me)
    coordinator.finish()
    assert verify(coordinator, me, T0) == {T0: ErrorCode.TRANSACTION_ABORTABLE}


def test_an_unused_id_is_forgotten_after_its_expiration(coordinator: Coordinator):
    coordinator.initialize()
    coordinator.expire(later_ms=7 * DAY_MS - 1)
    assert len(coordinator.shard) == 1
    coordinator.expire(later_ms=1)
    assert coordinator.describe() is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert coordinator.log[-1][1] is None
    assert coordinator.shard.deadline() is None
    coordinator.fail_over()
    assert len(coordinator.shard) == 0


def test_use_postpones_the_expiration():
    coordinator = Coordinator(TransactionSettings(expiration_ms=1000))
    me = coordinator.initialize()
    coordinator.expire(later_ms=900)
    coordinator.add(me)
    coordinator.expire(later_ms=50_000)
    assert coordinator.state() is TransactionState.ONGOING
    coordinator.end(me)
    coordinator.finish()
    coordinator.expire(later_ms=999)
    assert coordinator.state() is TransactionState.COMPLETE_COMMIT
    coordinator.expire(later_ms=1)
    assert coordinator.describe() is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def test_what_could_not_be_written_is_tried_again(coordinator: Coordinator):
    coordinator.initialize()
    coordinator.now_ms += 7 * DAY_MS
    (refused,) = coordinator.shard.expire(coordinator.now_ms)  # the records are never written
    assert refused.records
    deadline = coordinator.shard.deadline()
    assert deadline is not None
    coordinator.expire(later_ms=deadline - coordinator.now_ms)
    assert coordinator.describe() is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


# Listing.


def listed(coordinator: Coordinator, **filters) -> list[str]:
    return [known.transactional_id for known in list_all(coordinator, **filters)[0]]


def list_all(coordinator: Coordinator, **filters):
    return coordinator.carry_out(driven(coordinator.shard.list(ListFilter(**filters), coordinator.now_ms)))


def driven(work: Generator[None, None, Decision[Listed]]) -> Decision[Listed]:
    """What a generator returns in the end."""

    def keep() -> Generator[None, None, None]:
        decisions.append((yield from work))

    decisions: list[Decision[Listed]] = []
    for _ in keep():
        pass
    return decisions[0]


def test_listing_by_state_producer_duration_and_name(coordinator: Coordinator):
    one, two, three = (coordinator.initialize(name) for name in ("one", "two", "three"))
    coordinator.add(one, name="one")
    coordinator.now_ms += 100
    coordinator.add(two, name="two")
    assert listed(coordinator) == ["one", "two", "three"]
    assert listed(coordinator, states=("Ongoing",)) == ["one", "two"]
    assert listed(coordinator, states=("Ongoing", "Empty"), producer_ids=(three.producer_id,)) == ["three"]
    assert listed(coordinator, states=("Ongoing",), longer_than_ms=50) == ["one"]
    assert listed(coordinator, states=("Ongoing",), longer_than_ms=100) == []
    assert listed(coordinator, expression=compile_expression("t.*")) == ["two", "three"]
    assert listed(coordinator, expression=compile_expression("t")) == [], "the whole of an id has to match"


def test_unknown_states_in_a_filter_are_returned(coordinator: Coordinator):
    coordinator.initialize()
    found = list_all(coordinator, states=("Nonsense", "Ongoing"))
    assert found == ([], ["Nonsense"])


def test_a_long_list_is_made_in_slices(coordinator: Coordinator):
    for number in range(1000):
        coordinator.initialize(f"id-{number}")
    work = coordinator.shard.list(ListFilter(), coordinator.now_ms)
    next(work)
    coordinator.now_ms += 8 * DAY_MS
    coordinator.expire()  # meanwhile all of them go
    found = list(work)
    assert len(found) >= 3


# Any history.


class AnyHistory(RuleBasedStateMachine):
    """Two transactional ids, clients that repeat and delay requests, fail-overs, timeouts, slow markers.

    The model is who may write and what each transaction's outcome is. In version 2 a transaction that a client was
    told of as committed must be committed, and no two outcomes exist for one transaction.
    """

    def __init__(self) -> None:
        super().__init__()
        self.coordinator = Coordinator(TransactionSettings(two_phase_commit=True))
        self.known: dict[str, list[ProducerIdAndEpoch]] = {"a": [], "b": []}
        self.outcomes: dict[ProducerIdAndEpoch, TransactionState] = {}

    names = st.sampled_from(["a", "b"])

    def pick(self, name: str, back: int) -> ProducerIdAndEpoch | None:
        identities = self.known[name]
        return identities[-1 - back] if back < len(identities) else None

    @rule(name=names, keep=st.booleans())
    def initialize(self, name: str, keep: bool) -> None:
        before = self.coordinator.describe(name)
        answer = self.coordinator.initialize(name, two_phase=keep, keep_prepared=keep)
        if isinstance(answer, ProducerIdAndEpoch):
            assert answer not in self.known[name], "an identity is given out once"
            self.known[name].append(answer)
        else:
            assert answer is ErrorCode.CONCURRENT_TRANSACTIONS
            assert before.state in (
                TransactionState.ONGOING,
                TransactionState.PREPARE_COMMIT,
                TransactionState.PREPARE_ABORT,
            )

    @rule(name=names, back=st.integers(0, 2), partition=st.sampled_from([T0, T1]))
    def add(self, name: str, back: int, partition) -> None:
        identity = self.pick(name, back)
        if identity is None:
            return
        if self.coordinator.add(identity, partition, name=name, version=2) is NONE:
            assert back == 0, "only the newest identity may write"
            assert partition in self.coordinator.describe(name).partitions

    @rule(name=names, back=st.integers(0, 2), commit=st.booleans())
    def end(self, name: str, back: int, commit: bool) -> None:
        identity = self.pick(name, back)
        if identity is None:
            return
        answer = self.coordinator.end(identity, commit=commit, name=name, version=2)
        if isinstance(answer, ProducerIdAndEpoch):
            outcome = TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT
            assert self.outcomes.setdefault(identity, outcome) is outcome, "an outcome never changes"
            if answer not in self.known[name]:
                assert back == 0
                self.known[name].append(answer)
            else:
                assert answer == self.pick(name, 0), "a repetition is answered with what is true now"

    @rule()
    def markers_are_written(self) -> None:
        for prepared in self.coordinator.finish():
            assert self.coordinator.state(prepared.transactional_id).is_idle

    @rule(later_ms=st.sampled_from([1, MINUTE_MS // 2, MINUTE_MS]))
    def time_passes(self, later_ms: int) -> None:
        self.coordinator.expire(later_ms)

    @rule()
    def fail_over(self) -> None:
        before = {name: self.coordinator.describe(name) for name in self.known}
        prepared = {
            t.identity for t in before.values() if not isinstance(t, ErrorCode) and t.state.is_prepared
        }
        self.coordinator.fail_over()
        for name, known in before.items():
            if isinstance(known, ErrorCode) or known.state is TransactionState.ONGOING:
                continue  # what is due is done at once
            assert self.coordinator.describe(name) == known
        assert prepared <= {t.identity for t in self.coordinator.effects}

    @invariant()
    def at_most_one_identity_is_current(self) -> None:
        for name, identities in self.known.items():
            assert len(set(identities)) == len(identities)
            known = self.coordinator.describe(name)
            if not isinstance(known, ErrorCode) and known.state is TransactionState.ONGOING:
                assert known.partitions
                assert known.started_ms > 0


TestAnyHistory = AnyHistory.TestCase
TestAnyHistory.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
