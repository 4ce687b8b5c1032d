"""`penstock sim`: many seeds with a summary, one seed again, a failing one made smaller, a plan from a file."""

from pathlib import Path

import pytest

from penstock.sim.plan import Plan, make_plan
from tests.cli.running import Penstock


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def _forgotten_tombstones(monkeypatch: pytest.MonkeyPatch) -> None:
    """The final reader drops tombstones, so each acknowledged tombstone counts as lost."""
    from penstock.sim.workload import final_reader

    genuine = final_reader.read_fetched
    monkeypatch.setattr(
        final_reader,
        "read_fetched",
        lambda *words, **more: (each for each in genuine(*words, **more) if each.value is not None),
    )


def test_seeds_are_run_and_summed_up(offline: Penstock) -> None:
    outcome = offline("sim", "run", "--seeds", 2, "--first", 3)
    assert outcome.code == 0
    assert outcome.err == ""
    assert outcome.lines[0] == "seeds 3 to 4"
    assert outcome.lines[1].startswith("2 runs, 0 failed; ")
    assert "320 operations (" in outcome.lines[2]
    assert any(line.startswith("crash-machine ") for line in outcome.lines)


def test_the_summary_comes_as_json_too(offline: Penstock) -> None:
    document = offline("sim", "run", "--seeds", 1, "--first", 3, "--json").document
    assert document["first_seed"] == 3
    assert document["runs"] == 1
    assert document["operations"] == 160
    assert document["failed_seeds"] == []
    assert document["faults"] == sum(sum(by_phase.values()) for by_phase in document["struck"].values())


def test_groups_and_transactions_are_another_family_of_seeds(offline: Penstock) -> None:
    outcome = offline("sim", "run", "--coordination", "--seeds", 1, "--first", 3)
    assert outcome.code == 0
    assert "70 operations (" in outcome.lines[2]
    described = offline("sim", "describe", "--coordination", 3)
    assert any("group" in line for line in described.lines)
    assert described.lines != offline("sim", "describe", 3).lines


def test_fresh_seeds_are_others_each_time(offline: Penstock) -> None:
    first = offline("sim", "run", "--seeds", 1, "--json").document["first_seed"]
    assert first != offline("sim", "run", "--seeds", 1, "--json").document["first_seed"]


def test_one_seed_has_one_history(offline: Penstock) -> None:
    first = offline("sim", "run", "--seed", 3)
    assert first.code == 0
    assert first.lines[-1].startswith("history ")
    assert offline("sim", "run", "--seed", 3).lines[-1] == first.lines[-1]


@pytest.mark.usefixtures("_forgotten_tombstones")
def test_a_failing_seed_names_the_command_that_shows_it(offline: Penstock) -> None:
    outcome = offline("sim", "run", "--seeds", 1, "--first", failing_seed())
    assert outcome.code == 1
    assert outcome.lines[0] == (
        f"seed {failing_seed()} failed; to see it and make it smaller: penstock sim run --seed {failing_seed()}"
    )
    assert outcome.lines[1].startswith("  lost write: ")


@pytest.mark.usefixtures("_forgotten_tombstones")
def test_a_failing_seed_is_made_smaller_and_kept(offline: Penstock, tmp_path: Path) -> None:
    seed = failing_seed()
    outcome = offline("sim", "run", "--seed", seed)
    assert outcome.code == 1
    file = tmp_path / f"penstock-sim-{seed}.json"
    smaller = Plan.from_json(file.read_text())
    assert len(smaller.entries) < 10
    assert f"penstock sim run --from {file.name}" in outcome.out
    again = offline("sim", "run", "--from", file)
    assert again.code == 1
    assert again.lines[0].startswith("  lost write: ")


def failing_seed() -> int:
    """The first with a tombstone on a topic that keeps everything."""
    for seed in range(100):
        plan = make_plan(seed)
        kept = {
            topic.name
            for topic in plan.topics
            if topic.configs["cleanup.policy"] == "delete"
            and topic.configs["retention.ms"] == topic.configs["retention.bytes"] == "-1"
            and topic.configs.get("flush.messages") == "1"
        }
        admin = [entry.kind for entry in plan.operations if entry.actor == "admin"]
        sends = [entry for entry in plan.operations if entry.kind == "send"]
        if set(admin) == {"create"} and any(each.topic in kept and each.tombstones for each in sends):  # type: ignore[attr-defined]
            return seed
    raise AssertionError("no such seed")


def test_a_plan_is_described(offline: Penstock) -> None:
    plan = make_plan(5)
    outcome = offline("sim", "describe", 5)
    assert outcome.code == 0
    assert outcome.lines[0].startswith(f"seed 5: 160 operations, {len(plan.faults)} fault")
    assert len(outcome.lines) == 1 + len(plan.topics) + len(plan.writers) + len(plan.entries)


def test_a_described_plan_can_be_run(offline: Penstock, tmp_path: Path) -> None:
    described = offline("sim", "describe", 3, "--json")
    (tmp_path / "plan.json").write_text(described.out)
    outcome = offline("sim", "run", "--from", "plan.json")
    assert outcome.code == 0
    assert outcome.lines[-1] == offline("sim", "run", "--seed", 3).lines[-1]


def test_a_file_without_a_plan_is_one_line(offline: Penstock, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text("{}")
    outcome = offline("sim", "run", "--from", "plan.json")
    assert outcome.code == 1
    assert outcome.err == "penstock: plan.json holds no plan: not a plan: KeyError('seed')\n"


def test_a_file_that_is_not_there_is_one_line(offline: Penstock) -> None:
    outcome = offline("sim", "run", "--from", "nowhere.json")
    assert outcome.code == 1
    assert outcome.err == "penstock: nowhere.json: no such file or directory\n"
