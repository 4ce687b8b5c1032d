"""What only a process of its own shows: start-up, signals, closed pipes."""

import json
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from peers.penstock import PenstockProcess
from penstock.base.version import describe_version
from tests.cli.running import Penstock, command, environment, start
from tests.cli.terminal import Terminal


def test_the_version_is_printed_without_loading_what_it_does_not_need() -> None:
    program = (
        "import sys; from penstock.cli.main import main; main(['--version']);"
        "print(sorted(sys.modules.keys() & {'argparse', 'asyncio', 'penstock.client', 'penstock.wire', 'json'}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment()
    )
    assert done.stdout == f"penstock {describe_version()}\n[]\n"


def test_the_module_is_the_command() -> None:
    done = subprocess.run(command("nonsense"), capture_output=True, text=True, check=False, env=environment())
    assert done.returncode == 2
    assert done.stderr == "penstock: there is no command 'nonsense'; see `penstock --help`\n"


def test_following_shows_new_records_and_ends_cleanly_with_ctrl_c(
    penstock: Penstock, topic: str, bootstrap: str
) -> None:
    penstock("topic", "create", topic)
    penstock("produce", topic, stdin=b"old\n")
    with start(["consume", topic, "--follow", "-b", bootstrap]) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"old\n"
        penstock("produce", topic, stdin=b"new\n")
        assert process.stdout.readline() == b"new\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
        assert process.stdout.read() == b""
        assert process.stderr.read() == b""


def test_a_broker_whose_data_directory_fails_says_so_ends_and_can_be_started_again(
    penstock: Penstock, topic: str
) -> None:
    with PenstockProcess(settings={"log.flush.offset.checkpoint.interval.ms": 100}) as broker:
        penstock("topic", "create", topic, "-b", broker.bootstrap)
        penstock("produce", topic, "-b", broker.bootstrap, stdin=b"kept\n")
        in_the_way = broker.data / "recovery-point-offset-checkpoint.tmp"
        while not in_the_way.is_dir():  # no new checkpoint can be written; one may be just now
            with suppress(FileExistsError):
                in_the_way.mkdir()
        assert broker.wait(timeout_s=60) == 1
        assert f"CRITICAL penstock.broker: {broker.data}: the data directory has failed" in broker.output
        assert "restart the broker" in broker.output
        assert "Traceback" not in broker.output.partition("CRITICAL")[0]
        in_the_way.rmdir()
        broker.start()
        assert penstock("consume", topic, "-n", "1", "-b", broker.bootstrap).out == "kept\n"


def test_following_goes_on_when_the_broker_comes_back(penstock: Penstock, topic: str) -> None:
    with PenstockProcess() as broker:
        penstock("topic", "create", topic, "-b", broker.bootstrap)
        penstock("produce", topic, "-b", broker.bootstrap, stdin=b"before\n")
        with start(["consume", topic, "--follow", "-n", "2", "-b", broker.bootstrap]) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"before\n"
            broker.restart()
            penstock("produce", topic, "-b", broker.bootstrap, stdin=b"after\n")
            assert process.stdout.readline() == b"after\n"
            assert process.wait(20) == 0


@pytest.mark.parametrize("group", [[], ["-g", "readers"]], ids=["", "group"])
def test_following_says_once_that_the_broker_does_not_answer_and_once_that_it_does(
    penstock: Penstock, topic: str, group: list[str]
) -> None:
    with PenstockProcess() as broker:
        penstock("topic", "create", topic, "-b", broker.bootstrap)
        penstock("produce", topic, "-b", broker.bootstrap, stdin=b"before\n")
        with start(["consume", topic, "--follow", "-n", "2", *group, "-b", broker.bootstrap]) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline() == b"before\n"
            broker.stop()
            away = process.stderr.readline().decode()
            assert away == f"penstock: {broker.bootstrap} does not answer, trying again\n"
            broker.start()
            penstock("produce", topic, "-b", broker.bootstrap, stdin=b"after\n")
            assert process.stdout.readline() == b"after\n"
            assert process.wait(60) == 0
            assert process.stderr.read().decode() == f"penstock: {broker.bootstrap} answers again\n"


def test_consume_ends_quietly_when_its_stdout_pipe_is_closed(
    penstock: Penstock, topic: str, bootstrap: str, tmp_path: Path
) -> None:
    penstock("topic", "create", topic)
    lines = tmp_path / "lines"
    lines.write_bytes(b"".join(b"%0100d\n" % number for number in range(20_000)))
    penstock("produce", topic, lines)
    with start(["consume", topic, "-b", bootstrap]) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"%0100d\n" % 0
        process.stdout.close()
        assert process.wait(20) == 0
        assert process.stderr.read() == b""


def test_output_that_cannot_be_written_is_one_line(bootstrap: str) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            command("topic", "list", "-b", bootstrap),
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            env={**environment(), "PYTHONUNBUFFERED": ""},
            timeout=60,
        )
    assert (done.returncode, done.stderr) == (1, b"penstock: no space left on device\n")


def test_a_slow_writers_lines_go_out_as_they_come(penstock: Penstock, topic: str, bootstrap: str) -> None:
    penstock("topic", "create", topic)
    with (
        start(["consume", topic, "--follow", "-n", "2", "-b", bootstrap]) as reader,
        start(["produce", topic, "-b", bootstrap], stdin=subprocess.PIPE) as writer,
    ):
        assert reader.stdout is not None
        assert writer.stdin is not None
        writer.stdin.write(b"first\nsecond, but only ")
        writer.stdin.flush()
        assert reader.stdout.readline() == b"first\n"
        writer.stdin.write(b"half\n")
        writer.stdin.close()
        assert reader.stdout.readline() == b"second, but only half\n"
        assert reader.wait(20) == 0
        assert writer.wait(20) == 0


@pytest.fixture
def with_binary(penstock: Penstock, topic: str) -> str:
    """A topic whose records are no text."""
    penstock("topic", "create", topic)
    penstock("produce", topic, "-k", ":", "-H", "trace=✓", stdin=b"\xfe:\xff\x00\nk:\xe2\x9c\x93\n")
    return topic


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], b"\xff\x00\n\xe2\x9c\x93\n"),
        (["--print", "key,value"], b"\xfe\t\xff\x00\nk\t\xe2\x9c\x93\n"),
        (["--print", "offset,headers", "--separator", "·"], "0·trace=✓\n1·trace=✓\n".encode()),
        (["-g", "{}"], b"\xff\x00\n\xe2\x9c\x93\n"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_pipe_gets_the_bytes_that_were_produced(
    with_binary: str, bootstrap: str, words: list[str], expected: bytes
) -> None:
    done = subprocess.run(
        command("consume", with_binary, *(word.format(with_binary) for word in words), "-b", bootstrap),
        capture_output=True,
        check=True,
        env={**environment(), "PYTHONIOENCODING": "ascii"},
        timeout=60,
    )
    assert done.stdout == expected


def test_a_file_gets_the_bytes_that_were_produced(with_binary: str, bootstrap: str, tmp_path: Path) -> None:
    with (tmp_path / "records").open("wb") as file:
        subprocess.run(
            command("consume", with_binary, "-b", bootstrap),
            stdout=file,
            check=True,
            env=environment(),
            timeout=60,
        )
    assert (tmp_path / "records").read_bytes() == b"\xff\x00\n\xe2\x9c\x93\n"


def test_json_is_text_wherever_it_goes(with_binary: str, bootstrap: str) -> None:
    done = subprocess.run(
        command("consume", with_binary, "--json", "-n", "1", "-b", bootstrap),
        capture_output=True,
        check=True,
        env=environment(),
        timeout=60,
    )
    assert json.loads(done.stdout)["value"] == {"base64": "/wA="}


@pytest.mark.parametrize(("encoding", "shown"), [("utf-8", "✓"), ("ascii", "\\u2713")])
def test_a_terminal_shows_text_and_signs_for_what_is_none(
    with_binary: str, bootstrap: str, encoding: str, shown: str
) -> None:
    with Terminal(
        command("consume", with_binary, "-b", bootstrap),
        environment={**environment(), "PYTHONIOENCODING": encoding},
        columns=80,
        lines=24,
    ) as terminal:
        assert terminal.wait(timeout_s=60) == 0
    replaced = "\ufffd" if encoding == "utf-8" else "\\ufffd"
    assert terminal.output == f"{replaced}\x00\r\n{shown}\r\n"
