"""Commands whose stdin, stdout or stderr was closed by their parent process (`<&-`, `>&-`)."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from penstock.cli.main import COMMANDS, FAILED
from tests.cli.running import Penstock, command, environment

TIMEOUT_S = 60


def run_closed(words: list[object], redirections: str) -> "subprocess.CompletedProcess[bytes]":
    """The command as a shell starts it."""
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {redirections}', "sh", *command(*words)],
        input=b"",
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
        env=environment(),
    )


@pytest.mark.parametrize("redirections", ["<&-", ">&-", "<&- >&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(
    "words", [["--version"], ["topic", "list"], ["sim", "--help"], ["consume", "t"]], ids=" ".join
)
def test_a_closed_stream_is_no_traceback(bootstrap: str, words: list[object], redirections: str) -> None:
    address = ["-b", bootstrap] if words[0] in ("topic", "consume") else []
    done = run_closed([*words, *address], redirections)
    assert b"Traceback" not in done.stderr
    assert b"Exception ignored" not in done.stderr
    assert done.returncode in (0, FAILED)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_with_everything_closed_ends_as_it_should(name: str) -> None:
    assert run_closed([name, "--help"], "<&- >&- 2>&-").returncode in (0, FAILED)


def test_output_that_goes_nowhere_is_a_failure_in_a_line(
    penstock: Penstock, topic: str, bootstrap: str
) -> None:
    penstock("topic", "create", topic)
    penstock("produce", topic, stdin=b"a\n")
    done = run_closed(["consume", topic, "-b", bootstrap], ">&-")
    assert done.returncode == FAILED
    assert done.stderr == b"penstock: stdout closed: redirect it, from or to /dev/null for instance\n"


def test_input_that_comes_from_nowhere_is_a_failure_in_a_line(
    penstock: Penstock, topic: str, bootstrap: str
) -> None:
    penstock("topic", "create", topic)
    done = run_closed(["produce", topic, "-b", bootstrap], "<&-")
    assert done.returncode == FAILED
    assert done.stderr == b"penstock: stdin closed: redirect it, from or to /dev/null for instance\n"


@pytest.mark.parametrize("redirections", ["<&- >&-", "<&- >&- 2>&-"])
def test_a_broker_serves_without_streams_and_prints_into_no_file(tmp_path: Path, redirections: str) -> None:
    data = tmp_path / "data"
    words = ["serve", "--listen", "127.0.0.1:0", "--data-dir", data, "--verbose"]
    process = subprocess.Popen(
        ["sh", "-c", f'exec "$@" {redirections}', "sh", *command(*words)],
        stderr=subprocess.PIPE,
        env=environment(),
    )
    try:
        assert process.stderr is not None
        if "2>" in redirections:
            deadline = time.monotonic() + TIMEOUT_S
            while not (data / "__metadata").exists() and time.monotonic() < deadline:
                time.sleep(0.05)  # another process: nothing here could be told
        else:
            assert b"ready on" in process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(TIMEOUT_S) == 0
        assert b"Traceback" not in process.stderr.read()
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
    printed = [file for file in data.rglob("*") if file.is_file() and b"penstock.serve" in file.read_bytes()]
    assert printed == []


def test_a_broker_whose_stdout_pipe_is_closed_goes_on_and_stops_cleanly(tmp_path: Path) -> None:
    words = ["serve", "--listen", "127.0.0.1:0", "--data-dir", tmp_path / "data"]
    reader, writer = os.pipe()
    process = subprocess.Popen(command(*words), stdout=writer, stderr=subprocess.PIPE, env=environment())
    os.close(writer)
    try:
        assert process.stderr is not None
        with os.fdopen(reader, "rb") as output:
            assert b"ready on" in output.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(TIMEOUT_S) == 0
        assert process.stderr.read() == b""
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
