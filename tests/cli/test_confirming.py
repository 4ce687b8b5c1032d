"""What destroys asks first: a terminal is asked, and without one only `--yes` does it."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cli.running import Penstock, command, environment
from tests.cli.terminal import Terminal


@pytest.fixture
def filled(penstock: Penstock, topic: str) -> str:
    """A topic with three records, and a group of the same name that has read two of them."""
    assert penstock("topic", "create", topic).code == 0
    assert penstock("produce", topic, stdin=b"0\n1\n2\n").code == 0
    assert penstock("consume", topic, "-g", topic, "-n", 2).code == 0
    return topic


def state(penstock: Penstock, name: str) -> tuple[object, object]:
    """All that the commands below could destroy."""
    return (
        penstock("topic", "describe", name, "--json").document,
        penstock("group", "describe", name, "--json").document,
    )


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["topic", "delete", "{}"], "delete topic {} and all its records"),
        (["group", "delete", "{}"], "delete group {} and its committed offsets"),
        (["group", "reset", "{}", "--to", "beginning"], "set the offsets of group {} as shown above"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
@pytest.mark.parametrize("said", [b"", b"n\n", b"y\n"])
def test_without_a_terminal_nothing_is_destroyed_unless_yes_is_given(
    penstock: Penstock, filled: str, words: Sequence[str], told: str, said: bytes
) -> None:
    words = [word.format(filled) for word in words]
    before = state(penstock, filled)

    refused = penstock(*words, stdin=said)

    assert refused.code == 2
    assert refused.err == (
        f"penstock: this would {told.format(filled)}; nothing was changed. --yes does it without asking\n"
    )
    assert state(penstock, filled) == before
    assert penstock(*words, "--yes").code == 0


def test_a_pipeline_is_not_reset_without_a_terminal(offline: Penstock, tmp_path: Path) -> None:
    assert offline("pipeline", "init", tmp_path / "shop").code == 0
    checkpoint = tmp_path / "shop" / "state" / "checkpoints" / "counts"
    checkpoint.mkdir(parents=True)

    refused = offline("pipeline", "reset", "counts", tmp_path / "shop", stdin=b"y\n")

    assert refused.code == 2
    assert refused.err.startswith("penstock: this would reset counts (writes table records_per_minute)")
    assert checkpoint.exists()


def test_nothing_is_deleted_if_one_of_several_names_is_wrong(penstock: Penstock, filled: str) -> None:
    assert penstock("topic", "delete", filled, "no-such-topic", "--yes").code == 1
    assert penstock("group", "delete", filled, "no-such-group", "--yes").code == 1
    assert penstock("topic", "describe", filled).code == 0
    assert penstock("group", "describe", filled).code == 0


def test_what_is_gone_needs_no_confirmation(penstock: Penstock, topic: str) -> None:
    assert penstock("topic", "delete", topic, "--if-exists") == (0, "", "")
    assert penstock("group", "delete", topic, "--if-exists") == (0, "", "")


def test_no_on_a_pipe_keeps_the_topic(penstock: Penstock, filled: str, bootstrap: str) -> None:
    done = subprocess.run(
        command("topic", "delete", filled, "-b", bootstrap),
        input=b"n\n",
        capture_output=True,
        check=False,
        env=environment(),
        timeout=60,
    )
    assert done.returncode == 2
    assert b"--yes does it" in done.stderr
    assert penstock("topic", "describe", filled).code == 0


@pytest.mark.parametrize(("typed", "code", "is_kept"), [("y\n", 0, False), ("\n", 1, True), ("n\n", 1, True)])
def test_on_a_terminal_the_answer_decides_and_the_default_is_no(
    penstock: Penstock, filled: str, bootstrap: str, typed: str, code: int, is_kept: bool
) -> None:
    with Terminal(
        command("topic", "delete", filled, "-b", bootstrap), environment=environment(), columns=200, lines=24
    ) as terminal:
        terminal.wait_for(f"delete topic {filled} and all its records? [y/N] ", timeout_s=60)
        terminal.type(typed)
        assert terminal.wait(timeout_s=60) == code
    assert ("nothing was changed" in terminal.output) == is_kept
    assert (filled in penstock("topic", "list").out) == is_kept


def test_a_closed_stdin_is_no_terminal(penstock: Penstock, filled: str, bootstrap: str) -> None:
    shell = " ".join([*command("topic", "delete", filled, "-b", bootstrap), "<&-"])
    done = subprocess.run(
        ["sh", "-c", shell], capture_output=True, check=False, env=environment(), timeout=60
    )
    assert done.returncode == 2, done.stderr
    assert b"Traceback" not in done.stderr
    assert penstock("topic", "describe", filled).code == 0
