"""What only a process of its own shows: start-up, signals, closed pipes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from peers.penstock import PenstockProcess
from penstock.base.version import VERSION
from tests.cli.running import Penstock, command, environment, start


def test_the_version_is_printed_without_loading_what_it_does_not_need() -> None:
    program = (
        "import sys; from penstock.cli.main import main; main(['--version']);"
        "print(sorted(sys.modules.keys() & {'argparse', 'asyncio', 'penstock.client', 'penstock.wire', 'json'}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment()
    )
    assert done.stdout == f"penstock {VERSION}\n[]\n"


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
        in_the_way.mkdir()  # no new checkpoint can be written
        assert broker.wait(timeout_s=60) == 1
        assert f"CRITICAL penstock.broker: {broker.data}: the data directory has failed" in broker.output
        assert "start the broker again" in broker.output
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


def test_whoever_has_read_enough_may_close_the_pipe(
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


def test_a_locale_without_the_characters_shows_escapes(
    penstock: Penstock, topic: str, bootstrap: str
) -> None:
    penstock("topic", "create", topic)
    penstock("produce", topic, stdin="✓\n".encode())
    done = subprocess.run(
        command("consume", topic, "-b", bootstrap),
        capture_output=True,
        check=True,
        env={**environment(), "PYTHONIOENCODING": "ascii"},
    )
    assert done.stdout == b"\\u2713" + os.linesep.encode()
