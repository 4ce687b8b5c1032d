"""Runs of plans: the same history from the same seed everywhere, and problems told when there are some."""

import pytest

from penstock.sim import entries
from penstock.sim.phases import Phase
from penstock.sim.plan import Plan, WriterPlan, make_plan
from penstock.sim.run import RUN_FAILED, UNREADABLE, run_plan
from penstock.sim.summary import Summary
from penstock.sim.topic_plans import TopicPlan
from penstock.sim.workload.records import to_message
from tests.sim.histories import hash_in_another_process

SEED = 17

TOPIC = TopicPlan(
    "orders",
    1,
    {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "flush.messages": "1",
        "internal.segment.bytes": "300",
    },
)


def small_plan(*more: entries.Entry, finish: str = "restart") -> Plan:
    """One topic, one writer, one reader, and what else is given."""
    plain: list[entries.Entry] = [
        entries.CreateTopic(0, "admin", "orders"),
        *(entries.SendBatch(100 * n, "writer", "orders", 0, ("k", "")) for n in range(1, 11)),
        entries.ReadOn(500, "reader", "orders", 0),
        entries.ReadOn(2_000, "reader", "orders", 0),
    ]
    return Plan(
        seed=1,
        topics=(TOPIC,),
        writers=(WriterPlan("writer", idempotent=True, acks=-1),),
        readers=("reader",),
        broker=(),
        finish=finish,
        entries=tuple(sorted([*plain, *more], key=lambda entry: entry.at_ms)),
    )


def test_a_seed_is_one_history_in_this_process_and_in_others() -> None:
    plan = make_plan(SEED)
    first, second = run_plan(plan), run_plan(plan)
    assert first == second
    assert (
        first.hash
        == hash_in_another_process(make_plan, SEED, "1")
        == hash_in_another_process(make_plan, SEED, "2")
    )
    assert run_plan(make_plan(SEED + 1)).hash != first.hash


def test_a_node_that_still_stops_when_the_plan_ends_is_waited_for() -> None:
    outcome = run_plan(small_plan(entries.Restart(5_000, node=1, down_ms=1_500)))
    assert outcome.problems == []


def test_a_run_without_faults_is_in_order_and_counts_what_was_done() -> None:
    outcome = run_plan(small_plan())
    assert outcome.problems == []
    assert outcome.operations == 13
    assert outcome.messages == 20
    assert outcome.counts == {"create ok": 1, "send ok": 10, "read ok": 2}
    assert outcome.faults == 0


@pytest.mark.parametrize("finish", ["restart", "crash-process", "crash-machine"])
@pytest.mark.parametrize("kind", [entries.CrashProcess, entries.CrashMachine])
def test_a_topic_that_flushes_loses_nothing_in_a_crash(
    kind: type[entries.CrashProcess] | type[entries.CrashMachine], finish: str
) -> None:
    outcome = run_plan(small_plan(kind(450, down_ms=100, after_changes=0), finish=finish))
    assert outcome.problems == []
    assert outcome.counts["send ok"] + outcome.counts["send unknown"] == 10
    assert outcome.faults == 1


@pytest.mark.parametrize("phase", [Phase.FLUSH, Phase.APPEND, Phase.ROLL, Phase.REQUEST, Phase.REPLY])
def test_a_fault_can_wait_for_what_the_broker_does(phase: Phase) -> None:
    outcome = run_plan(small_plan(entries.ResetConnections(150, "reader", when=phase.value)))
    assert outcome.problems == []
    assert outcome.faults == 1


def test_a_broker_that_cannot_write_is_started_again_when_it_can() -> None:
    faults = [entries.FillDisk(300, for_ms=2_000), entries.CrashProcess(400, down_ms=0)]
    outcome = run_plan(small_plan(*faults))
    assert outcome.problems == []
    assert outcome.faults == 2


def test_every_kind_of_fault_can_be_carried_out_alone() -> None:
    values = {
        "at_ms": 450,
        "node": 1,
        "when": None,
        "actor": "writer",
        "down_ms": 50,
        "after_changes": 1,
        "for_ms": 200,
        "delay_ms": 20,
        "bytes_per_s": 5_000,
        "suffix": ".log",
        "by_ms": 500,
        "percent": 110,
        "name": "photos-2024",
        "is_partition": True,
    }
    for kind, entry_type in entries.FAULTS.items():
        fields = [name for name in entry_type.__dataclass_fields__ if name != "kind"]
        fault = entries.from_json({"kind": kind, **{name: values[name] for name in fields}})
        outcome = run_plan(small_plan(fault))
        assert outcome.problems == [], kind
        assert {struck for struck, _ in outcome.struck} == {kind}


def test_an_exception_of_the_simulation_itself_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def break_down(record: object) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr("penstock.sim.workload.reader.to_message", break_down)
    assert run_plan(small_plan()).kinds == [RUN_FAILED]


def test_a_message_read_but_never_written_is_an_anomaly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "penstock.sim.workload.reader.to_message", lambda record: to_message(record)._replace(number=99)
    )
    assert "unwritten read" in run_plan(small_plan()).kinds


def test_a_log_that_the_device_damaged_may_be_unreadable_and_no_other() -> None:
    damaged = run_plan(small_plan(entries.FlipBit(1_500, ".log"), finish="crash-process"))
    assert UNREADABLE not in damaged.kinds
    assert damaged.problems == []


def test_the_summary_adds_up_and_shows_what_was_not_tried() -> None:
    plan = small_plan(entries.CrashProcess(450, down_ms=0, after_changes=0))
    outcome = run_plan(plan)
    summary = Summary()
    summary.add(1, outcome)
    summary.add(2, outcome)
    assert (summary.runs, summary.operations, summary.faults) == (2, 26, 2)
    assert summary.failed_seeds == []
    text = "\n".join(summary.lines(cpu_seconds=2.0))
    assert "2 runs, 0 failed" in text
    assert "26 operations (13 a second)" in text
    crash_row = next(line for line in summary.phase_table() if line.startswith("crash-process"))
    assert crash_row.split().count("2") == 1
    assert crash_row.split().count(".") == len(Phase) - 1
    document = summary.as_json(cpu_seconds=2.0)
    assert document["operations"] == 26
    assert sum(document["struck"]["crash-process"].values()) == 2


def test_a_failed_seed_is_in_the_summary() -> None:
    summary = Summary()
    outcome = run_plan(small_plan())
    outcome.problems.append(("lost write", "planted"))  # type: ignore[arg-type]
    summary.add(5, outcome)
    assert summary.failed_seeds == [5]
