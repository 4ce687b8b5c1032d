"""What looks odd and is allowed: the checkers know which promise applies to which write."""

import pytest

from penstock.sim.checkers import CrashKind, Keeping, OperationOutcome
from tests.sim.checkers.stories import NAMESAKE, Story

DURABLE = Keeping(flushes_every_batch=True)
MEMORY = Keeping(in_memory=True)


def test_a_plain_history_is_in_order() -> None:
    story = Story(DURABLE)
    story.send(1, 2, at=0)
    story.crash(CrashKind.MACHINE)
    story.send(3, at=2, actor="another writer")
    story.poll({0: 1, 1: 2, 2: 3})
    story.end(start=0, end=3)
    assert story.anomalies() == []


@pytest.mark.parametrize(
    ("keeping", "crash", "outlives"),
    [
        (Keeping(), CrashKind.PROCESS, True),
        (Keeping(), CrashKind.MACHINE, False),
        (DURABLE, CrashKind.PROCESS, True),
        (DURABLE, CrashKind.MACHINE, True),
        (Keeping(), CrashKind.STOP, True),
        (MEMORY, CrashKind.STOP, False),
        (MEMORY, CrashKind.PROCESS, False),
        (MEMORY, CrashKind.MACHINE, False),
    ],
)
@pytest.mark.parametrize("acks", [1, -1])
def test_an_acknowledged_write_outlives_what_was_promised(
    keeping: Keeping, crash: CrashKind, outlives: bool, acks: int
) -> None:
    story = Story(keeping)
    story.send(1, at=0, acks=acks)
    story.crash(crash)
    story.end(start=0, end=0)
    assert bool(story.anomalies()) is outlives


def test_acks_0_promises_nothing() -> None:
    story = Story(DURABLE)
    story.send(1, at=0, acks=0)
    story.end(start=0, end=0)
    assert story.anomalies() == []


def test_a_write_of_unknown_outcome_may_be_there_or_not() -> None:
    there, gone = Story(), Story()
    for story in (there, gone):
        story.send(1, outcome=OperationOutcome.UNKNOWN)
    there.poll({0: 1})
    gone.end(start=0, end=0)
    assert there.anomalies() == gone.anomalies() == []


def test_a_write_acknowledged_while_the_machine_crashed_may_be_gone() -> None:
    story = Story()
    story.send(1, at=0, across=CrashKind.MACHINE)
    story.end(start=0, end=0)
    assert story.anomalies() == []


def test_an_offset_lost_with_the_machine_is_given_out_again() -> None:
    story = Story()
    story.send(1, at=0)
    story.poll({0: 1})
    story.crash(CrashKind.MACHINE)
    story.send(2, at=0)
    story.poll({0: 2}, session=1)
    story.end(start=0, end=1)
    assert story.anomalies() == []


def test_a_write_that_was_sent_again_over_a_machine_crash_may_have_moved() -> None:
    story = Story()
    story.send(9, at=0)
    story.poll({0: 9, 1: 1}, actor="early reader")
    story.send(1, at=0, attempts=2, across=CrashKind.MACHINE)
    story.poll({0: 1})
    assert story.anomalies() == []


def test_a_plain_producer_may_double_what_it_sends_again() -> None:
    story = Story()
    story.send(1, at=1, idempotent=False, attempts=2)
    story.poll({0: 1, 1: 1})
    assert story.anomalies() == []


def test_a_new_session_may_go_back() -> None:
    story = Story()
    story.send(1, 2, at=0)
    story.poll({0: 1, 1: 2})
    story.poll({0: 1}, session=1)
    assert story.anomalies() == []


def test_concurrent_writers_may_be_placed_in_any_order() -> None:
    story = Story()
    story.send(1, at=1)
    first = story.history.sends.pop()
    story.send(2, at=0, actor="another writer")
    second = story.history.sends[0]
    story.history.sends.append(first)
    object.__setattr__(first, "ended", second.ended + 1)
    assert story.anomalies() == []


def test_retention_by_size_takes_what_has_enough_behind_it() -> None:
    story = Story(Keeping(retention_bytes=1000))
    story.send(1, at=0, size_bytes=600)
    story.send(2, at=1, size_bytes=600)
    story.send(3, at=2, size_bytes=600)
    story.poll({1: 2, 2: 3}, start=1, log_start=1)
    story.end(start=1, end=3)
    assert story.anomalies() == []


@pytest.mark.parametrize(("age_ms", "allowed"), [(4_999, False), (5_000, True)])
def test_retention_by_time_takes_what_is_old_enough(age_ms: int, allowed: bool) -> None:
    story = Story(Keeping(retention_ms=5_000))
    story.send(1, at=0)
    story.now_ms = age_ms
    story.end(start=1, end=1)
    assert (story.anomalies() == []) is allowed


def test_clocks_that_jump_make_things_older() -> None:
    story = Story(Keeping(retention_ms=5_000))
    story.history.clock_slack_ms = 4_000
    story.send(1, at=0)
    story.now_ms = 1_000
    story.end(start=1, end=1)
    assert story.anomalies() == []


def test_records_before_the_offset_of_a_delete_records_request_may_be_gone() -> None:
    story = Story()
    story.send(1, 2, at=0)
    story.cut(1)
    story.poll({1: 2}, start=1, log_start=1)
    story.end(start=1, end=2)
    assert story.anomalies() == []


def test_compaction_takes_what_has_a_successor() -> None:
    story = Story(Keeping(compacts=True))
    story.send(1, at=0, key="k")
    story.send(2, at=1, key="k")
    story.poll({1: 2}, key="k")
    assert story.anomalies() == []


def test_compaction_takes_a_tombstone_in_its_time() -> None:
    story = Story(Keeping(compacts=True, tombstones_ms=10_000))
    story.send(1, at=0, key="k", tombstone=True)
    story.send(2, at=1, key="other")
    story.now_ms = 10_000
    story.poll({1: 2}, key="other")
    assert story.anomalies() == []


def test_what_a_machine_crash_may_take_it_may_leave_unreadable() -> None:
    story = Story()
    story.send(1, at=0)
    story.crash(CrashKind.MACHINE)
    story.fail_to_read(0, 1)
    story.end(start=0, end=1)
    assert story.anomalies() == []


def test_a_damaged_log_may_be_unreadable() -> None:
    story = Story(DURABLE)
    story.send(1, at=0)
    story.damage()
    story.fail_to_read(0, 1)
    story.end(start=0, end=1)
    assert story.anomalies() == []


def test_a_crash_may_leave_gaps_in_a_compacted_log() -> None:
    story = Story(Keeping(compacts=True))
    for number in range(3):
        story.send(number, at=number, key=f"key {number}")
    story.crash(CrashKind.MACHINE)
    story.poll({2: 2}, key="key 2")
    assert story.anomalies() == []


def test_a_damaged_log_may_lose_its_end_in_a_crash() -> None:
    story = Story(DURABLE)
    story.send(1, 2, at=0)
    story.damage()
    story.crash(CrashKind.PROCESS)
    story.send(3, at=1)
    story.poll({0: 1, 1: 3})
    story.end(start=0, end=2)
    assert story.anomalies() == []


def test_a_damaged_log_is_not_allowed_to_skip() -> None:
    story = Story(DURABLE)
    story.send(1, 2, 3, at=0)
    story.damage()
    story.poll({0: 1, 2: 3})
    assert story.anomalies()


def test_a_retry_may_go_to_the_namesake_of_a_deleted_topic() -> None:
    story = Story()
    story.send(1, at=0)
    object.__setattr__(story.history.sends[0], "logs", (*story.history.sends[0].logs, NAMESAKE))
    story.poll({0: 1})
    story.poll({0: 1}, log=NAMESAKE)
    assert story.anomalies() == []


def test_a_transaction_of_unknown_end_may_be_invisible() -> None:
    story = Story()
    story.send(1, at=0, transaction=7)
    story.finish(7, OperationOutcome.UNKNOWN)
    story.poll({}, upto=2, committed_only=True)
    assert story.anomalies() == []


def test_a_read_uncommitted_consumer_may_see_aborted_and_open_transactions() -> None:
    story = Story()
    story.send(1, at=0, transaction=7)
    story.poll({0: 1})
    story.finish(7, OperationOutcome.FAILED)
    story.poll({0: 1}, session=1)
    assert story.anomalies() == []


def test_a_topic_that_was_changed_promises_what_both_its_configs_do() -> None:
    flushing = Keeping(flushes_every_batch=True, retention_ms=500)
    compacting = Keeping(compacts=True, tombstones_ms=7, retention_ms=900, retention_bytes=30)
    assert flushing.weaker(compacting) == Keeping(
        compacts=True, tombstones_ms=7, retention_ms=500, retention_bytes=30
    )
