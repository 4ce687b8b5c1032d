"""Faults of a cluster under load, for a minute; `make chaos` runs longer.

The verdicts are shown to be able to find what they look for: a run of real processes gives them nothing to find.
"""

import time
from pathlib import Path

import pytest

from penstock.base.ids import TopicPartition
from penstock.sim.checkers import Commit, CommittedRead, OperationOutcome, Send, SentMessage
from tests.chaos.cluster import run, verdicts
from tests.chaos.cluster.recording import Recorder, Span, log_of

PLACE = TopicPartition("t", 0)


@pytest.mark.foreign
@pytest.mark.needs("zookeeper", "kafka")
def test_a_cluster_keeps_its_guarantees_while_brokers_and_zookeeper_are_killed_paused_and_disconnected():
    report = run.run(0, seed=2026, kinds=("kill", "pause", "cut off", "kill two", "kill zookeeper"))

    assert report.faults == [], str(report)
    assert len(report.befell) == 5
    assert report.acknowledged
    assert report.transactions
    assert report.read
    assert report.commits


def acknowledged(recorder: Recorder, number: int, *, idempotent: bool = True) -> None:
    began = recorder.tick()
    log = log_of("t", 0)
    send = Send(
        "a",
        (log,),
        (SentMessage(number),),
        began,
        recorder.tick(),
        OperationOutcome.OK,
        idempotent=idempotent,
    )
    recorder.history.sends.append(send)


def test_the_checker_finds_an_acknowledged_write_without_enough_replicas():
    recorder = Recorder()
    acknowledged(recorder, 0)
    began = recorder.tick()
    acknowledged(recorder, 1)
    recorder.too_few.append(Span(began, recorder.tick()))
    acknowledged(recorder, 2)

    assert len(list(verdicts.acknowledged_by_too_few(recorder))) == 1


def test_the_checker_finds_a_committed_offset_that_goes_back():
    recorder = Recorder()
    history = recorder.history
    history.commits.append(Commit("g", PLACE, 7, recorder.tick(), recorder.tick(), OperationOutcome.OK, "a"))
    history.commits.append(
        Commit("g", PLACE, 9, recorder.tick(), recorder.tick(), OperationOutcome.UNKNOWN, "a")
    )
    history.committed_reads.append(CommittedRead("g", PLACE, 7, recorder.tick(), recorder.tick()))
    assert not list(verdicts.offsets_gone_back(history))

    history.committed_reads.append(CommittedRead("g", PLACE, 5, recorder.tick(), recorder.tick()))
    (found,) = verdicts.offsets_gone_back(history)
    assert "had 7 committed" in found

    history.commits.append(Commit("g", PLACE, 6, recorder.tick(), recorder.tick(), OperationOutcome.OK, "a"))
    assert list(verdicts.offsets_gone_back(history)) == [found], "each offset that went back is reported once"

    began = recorder.tick()
    history.commits.append(Commit("g", PLACE, 4, began, recorder.tick(), OperationOutcome.UNKNOWN, "a"))
    history.committed_reads.append(CommittedRead("g", PLACE, 4, recorder.tick(), recorder.tick()))
    assert len(list(verdicts.offsets_gone_back(history))) == 2, "a late read counts too"


def test_records_in_another_order_than_an_idempotent_producer_sent_them_are_found():
    recorder = Recorder()
    for number in range(4):
        acknowledged(recorder, number)
    for number in (8, 9):
        acknowledged(recorder, number, idempotent=False)

    assert not list(verdicts.out_of_order(recorder.history, {("t", 0): [0, 9, 1, 2, 8, 3]}))
    assert len(list(verdicts.out_of_order(recorder.history, {("t", 0): [0, 2, 1, 3]}))) == 1


def test_the_checker_finds_records_that_a_group_never_read():
    seen = {"g": {("t", 0, 1)}}

    assert not list(verdicts.not_read_by_groups(seen, {"g": ["t"]}, {("t", 0): [1], ("other", 0): [9]}))
    assert len(list(verdicts.not_read_by_groups(seen, {"g": ["t"]}, {("t", 0): [1, 2]}))) == 1


def test_a_traceback_is_found_with_the_line_before_it():
    calm = "12:00:00 INFO penstock.broker: all is well\n"
    said = f"{calm}12:00:01 ERROR penstock.broker: a chore failed\nTraceback (most recent call last):\n  File x\n"

    assert not list(verdicts.own_bugs([(1, calm), (2, calm)]))
    (found,) = verdicts.own_bugs([(1, calm), (2, said)])
    assert found.startswith("broker 2 stumbled:\n12:00:01 ERROR")


def test_ticks_are_found_by_the_time_at_which_they_passed():
    recorder = Recorder()
    first = recorder.tick()
    now_ms = time.time_ns() // 1_000_000

    assert recorder.tick_before(0) == 0
    assert recorder.tick_before(now_ms + 1) == first


def test_replicas_that_differ_are_found_however_their_segments_are_cut(tmp_path: Path):
    for broker, segments in enumerate((("abcdef",), ("abc", "def"), ("abcdxf",), ("abcde",))):
        partition = tmp_path / str(broker) / "t-0"
        partition.mkdir(parents=True)
        for number, text in enumerate(segments):
            (partition / f"{number:020}.log").write_text(text)

    def unlike(*brokers: int) -> list[str]:
        return list(verdicts.unlike_copies([tmp_path / str(broker) for broker in brokers], [log_of("t", 0)]))

    assert unlike(0, 1) == []
    assert "from byte 4" in unlike(0, 2)[0]
    assert "from byte 5" in unlike(1, 3)[0]
