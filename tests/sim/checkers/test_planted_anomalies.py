"""Each kind of anomaly, planted in a small history, is found and called by its name; and nothing else is."""

from collections.abc import Callable

import pytest

from penstock.sim.checkers import AnomalyKind, CrashKind, Keeping, OperationOutcome
from penstock.sim.checkers.anomalies import OF_COORDINATORS
from tests.sim.checkers.stories import LOG, NAMESAKE, SECOND_PARTITION, Story

DURABLE = Keeping(flushes_every_batch=True)


def lost_write() -> Story:
    story = Story()
    story.send(1, at=0)
    story.send(2, at=1)
    story.poll({1: 2})
    return story


def lost_to_a_crash_it_should_outlive() -> Story:
    story = Story(DURABLE)
    story.send(1, 2, at=0)
    story.crash(CrashKind.MACHINE)
    story.poll({0: 1})
    story.send(3, at=2)
    story.poll({2: 3}, start=1)
    return story


def lost_from_the_middle_by_a_crash() -> Story:
    story = Story()
    story.send(1, at=0)
    story.send(2, at=1)
    story.send(3, at=2)
    story.crash(CrashKind.MACHINE)
    story.poll({0: 1, 2: 3})
    return story


def lost_below_the_start() -> Story:
    story = Story(Keeping(retention_bytes=1000))
    story.send(1, at=0, size_bytes=400)
    story.send(2, at=1, size_bytes=400)
    story.end(start=2, end=2)
    return story


def read_and_then_gone() -> Story:
    story = Story()
    story.send(1, at=-1, outcome=OperationOutcome.UNKNOWN)
    story.poll({0: 1})
    story.end(start=0, end=0)
    return story


def early_dropped_tombstone() -> Story:
    story = Story(Keeping(compacts=True, tombstones_ms=10_000))
    story.send(1, at=0, key="k", tombstone=True)
    story.send(2, at=1, key="other")
    story.now_ms = 9_999
    story.poll({1: 2}, key="other")
    return story


def there_and_unreadable() -> Story:
    story = Story(DURABLE)
    story.send(1, at=0)
    story.crash(CrashKind.MACHINE)
    story.fail_to_read(0, 1)
    story.end(start=0, end=1)
    return story


def end_shown_too_low() -> Story:
    story = Story()
    story.send(1, 2, at=0)
    story.crash(CrashKind.PROCESS)
    story.poll({0: 1}, high_watermark=1)
    return story


def unseen_write() -> Story:
    story = Story(DURABLE)
    story.send(1, at=0)
    story.send(2, at=1)
    story.crash(CrashKind.MACHINE)
    story.poll({0: 1})
    story.end(start=0, end=1)
    return story


def duplicate() -> Story:
    story = Story()
    story.send(1, at=0)
    story.poll({0: 1, 1: 1})
    return story


def doubled_by_an_idempotent_retry() -> Story:
    story = Story()
    story.send(1, at=1, attempts=2)
    story.poll({0: 1, 1: 1})
    return story


def moved_by_a_crash() -> Story:
    story = Story()
    story.send(1, 2, at=0)
    story.crash(CrashKind.MACHINE)
    story.poll({0: 2})
    return story


def inconsistent_offset() -> Story:
    story = Story()
    story.send(1, at=0, actor="one", outcome=OperationOutcome.UNKNOWN)
    story.send(2, at=0, actor="two", outcome=OperationOutcome.UNKNOWN)
    story.poll({0: 1})
    story.poll({0: 2}, actor="another reader")
    return story


def given_out_twice() -> Story:
    story = Story()
    story.send(1, at=0, outcome=OperationOutcome.UNKNOWN)
    story.poll({0: 1})
    story.crash(CrashKind.PROCESS)
    story.send(2, at=0)
    return story


def nonmonotonic_poll() -> Story:
    story = Story()
    story.send(1, 2, at=0)
    story.poll({1: 2, 0: 1})
    return story


def backwards_between_polls() -> Story:
    story = Story()
    story.send(1, 2, at=0)
    story.poll({0: 1, 1: 2})
    story.poll({1: 2}, start=1)
    return story


def before_the_position_asked_for() -> Story:
    story = Story()
    story.send(1, 2, at=0)
    story.poll({0: 1, 1: 2}, start=1)
    return story


def skipping_poll() -> Story:
    story = Story()
    story.send(1, 2, 3, at=0)
    story.poll({0: 1, 1: 2, 2: 3})
    story.poll({0: 1, 2: 3}, actor="another reader")
    return story


def nonmonotonic_send() -> Story:
    story = Story()
    story.send(1, at=5)
    story.send(2, at=3, actor="another writer")
    return story


def skipping_send() -> Story:
    story = Story()
    story.send(1, 2, outcome=OperationOutcome.UNKNOWN)
    story.poll({0: 1, 2: 2})
    return story


def refused_and_read() -> Story:
    story = Story()
    story.send(1, outcome=OperationOutcome.FAILED)
    story.poll({0: 1})
    return story


def aborted_read() -> Story:
    story = Story()
    story.send(1, at=0, transaction=7)
    story.finish(7, OperationOutcome.FAILED)
    story.poll({0: 1}, committed_only=True)
    return story


def above_the_high_watermark() -> Story:
    story = Story()
    story.send(1, 2, outcome=OperationOutcome.UNKNOWN)
    story.poll({0: 1, 1: 2}, high_watermark=1)
    return story


def before_the_commit() -> Story:
    story = Story()
    story.send(1, at=0, transaction=7)
    story.poll({0: 1}, committed_only=True)
    story.finish(7, OperationOutcome.OK)
    return story


def own_before_the_commit() -> Story:
    story = Story()
    story.send(1, at=0, transaction=7)
    story.poll({0: 1}, committed_only=True, actor="writer")
    story.finish(7, OperationOutcome.OK)
    return story


def torn_transaction() -> Story:
    story = Story()
    story.send(1, at=0, transaction=7)
    story.send(2, at=0, transaction=7, log=SECOND_PARTITION)
    story.finish(7, OperationOutcome.UNKNOWN)
    story.poll({0: 1}, committed_only=True)
    story.poll({}, upto=2, committed_only=True, log=SECOND_PARTITION)
    return story


def never_sent() -> Story:
    story = Story()
    story.poll({0: 1})
    return story


def sent_to_its_namesake() -> Story:
    story = Story()
    story.send(1, at=0, log=NAMESAKE)
    story.poll({0: 1}, log=LOG)
    return story


def altered() -> Story:
    story = Story()
    story.send(1, at=0, key="k")
    story.poll({0: 1}, key="another key")
    return story


PLANTED: list[tuple[AnomalyKind, Callable[[], Story]]] = [
    (AnomalyKind.LOST_WRITE, lost_write),
    (AnomalyKind.LOST_WRITE, lost_to_a_crash_it_should_outlive),
    (AnomalyKind.LOST_WRITE, lost_from_the_middle_by_a_crash),
    (AnomalyKind.LOST_WRITE, lost_below_the_start),
    (AnomalyKind.LOST_WRITE, read_and_then_gone),
    (AnomalyKind.LOST_WRITE, early_dropped_tombstone),
    (AnomalyKind.LOST_WRITE, there_and_unreadable),
    (AnomalyKind.UNSEEN_WRITE, unseen_write),
    (AnomalyKind.LOW_WATERMARK, end_shown_too_low),
    (AnomalyKind.DUPLICATE, duplicate),
    (AnomalyKind.DUPLICATE, doubled_by_an_idempotent_retry),
    (AnomalyKind.DUPLICATE, moved_by_a_crash),
    (AnomalyKind.INCONSISTENT_OFFSET, inconsistent_offset),
    (AnomalyKind.INCONSISTENT_OFFSET, given_out_twice),
    (AnomalyKind.NONMONOTONIC_POLL, nonmonotonic_poll),
    (AnomalyKind.NONMONOTONIC_POLL, backwards_between_polls),
    (AnomalyKind.NONMONOTONIC_POLL, before_the_position_asked_for),
    (AnomalyKind.SKIPPING_POLL, skipping_poll),
    (AnomalyKind.NONMONOTONIC_SEND, nonmonotonic_send),
    (AnomalyKind.SKIPPING_SEND, skipping_send),
    (AnomalyKind.ABORTED_READ, refused_and_read),
    (AnomalyKind.ABORTED_READ, aborted_read),
    (AnomalyKind.UNCOMMITTED_READ, above_the_high_watermark),
    (AnomalyKind.UNCOMMITTED_READ, before_the_commit),
    (AnomalyKind.OWN_UNCOMMITTED_READ, own_before_the_commit),
    (AnomalyKind.TORN_TRANSACTION, torn_transaction),
    (AnomalyKind.UNWRITTEN_READ, never_sent),
    (AnomalyKind.UNWRITTEN_READ, sent_to_its_namesake),
    (AnomalyKind.UNWRITTEN_READ, altered),
]


@pytest.mark.parametrize(("kind", "story"), PLANTED, ids=[story.__name__ for _, story in PLANTED])
def test_a_planted_anomaly_is_called_by_its_name(kind: AnomalyKind, story: Callable[[], Story]) -> None:
    assert story().kinds() == [kind]


def test_every_kind_of_anomaly_is_planted() -> None:
    assert {kind for kind, _ in PLANTED} == set(AnomalyKind) - OF_COORDINATORS


def test_an_anomaly_says_where_and_what() -> None:
    (anomaly,) = lost_write().anomalies()
    assert str(anomaly) == (
        "lost write in orders-0 (first): message 1 was acknowledged at offset 0; reader found it gone"
    )
