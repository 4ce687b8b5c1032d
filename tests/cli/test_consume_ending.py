"""How `penstock consume --group` ends: what it printed is committed, and its member has left."""

import shlex
import signal
import subprocess
from typing import Any

import pytest

from tests.cli.running import Penstock, command, environment, start


@pytest.fixture
def filled(penstock: Penstock, topic: str) -> str:
    """A topic with three records; the groups below have its name."""
    assert penstock("topic", "create", topic).code == 0
    assert penstock("produce", topic, stdin=b"0\n1\n2\n").code == 0
    return topic


def group(penstock: Penstock, name: str) -> dict[str, Any]:
    (described,) = penstock("group", "describe", name, "--json").document
    assert isinstance(described, dict)
    return described


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT], ids=lambda each: each.name)
def test_a_signal_ends_a_member_that_commits_and_leaves(
    penstock: Penstock, filled: str, bootstrap: str, number: signal.Signals
) -> None:
    with start(["consume", filled, "-g", filled, "--follow", "-b", bootstrap]) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert [process.stdout.readline() for _ in range(3)] == [b"0\n", b"1\n", b"2\n"]
        process.send_signal(number)
        assert process.wait(30) == 130
        assert process.stdout.read() == b""
        assert process.stderr.read() == b""
    described = group(penstock, filled)
    assert described["members"] == []
    assert described["state"] == "Empty"
    assert [each["committed"] for each in described["offsets"]] == [3]


def test_a_member_that_was_started_to_ignore_hangups_goes_on(
    penstock: Penstock, filled: str, bootstrap: str
) -> None:
    words = command("consume", filled, "-g", filled, "--follow", "-b", bootstrap)
    with subprocess.Popen(
        ["sh", "-c", f"trap '' HUP; exec {shlex.join(words)}"], stdout=subprocess.PIPE, env=environment()
    ) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(3)] == [b"0\n", b"1\n", b"2\n"]
        process.send_signal(signal.SIGHUP)
        penstock("produce", filled, stdin=b"3\n")
        assert process.stdout.readline() == b"3\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 130


def test_what_could_not_be_written_is_not_committed(penstock: Penstock, filled: str, bootstrap: str) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            command("consume", filled, "-g", filled, "-b", bootstrap),
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            env={**environment(), "PYTHONUNBUFFERED": ""},  # unbuffered output fails before a position moves
            timeout=60,
        )
    assert done.returncode == 1
    assert done.stderr == b"penstock: no space left on device\n"
    assert penstock("consume", filled, "-g", filled).lines == ["0", "1", "2"]
