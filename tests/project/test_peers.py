"""The processes that tests and benchmarks start: they get ready, say so, and end when told to, and only they."""

import signal
import sys
import time

import pytest

from peers.penstock import PenstockProcess
from peers.process import ProcessEndedError, WatchedProcess


def python(program: str) -> WatchedProcess:
    return WatchedProcess([sys.executable, "-u", "-c", program])


def test_a_line_is_waited_for_and_the_process_ends_by_sigterm() -> None:
    process = python("print('one'); print('two'); input_never_comes = __import__('time').sleep(60)")

    assert process.wait_for_line(lambda line: "two" in line, timeout_s=20) == "two\n"
    assert process.stop() == -signal.SIGTERM
    assert process.output == "one\ntwo\n"


def test_the_error_for_a_process_that_ends_before_it_is_ready_has_its_output() -> None:
    process = python("print('no port for me'); raise SystemExit(3)")

    with pytest.raises(ProcessEndedError, match="no port for me"):
        process.wait_for_line(lambda line: "ready" in line, timeout_s=20)
    assert process.wait(timeout_s=20) == 3


def test_a_process_that_ignores_sigterm_is_killed_in_bounded_time() -> None:
    process = python(
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf'); time.sleep(60)"
    )
    process.wait_for_line(lambda line: "deaf" in line, timeout_s=20)
    started_s = time.monotonic()

    assert process.stop(timeout_s=0.2) == -signal.SIGKILL
    assert time.monotonic() - started_s < 20


def test_penstock_comes_back_on_the_same_port_with_the_same_cluster() -> None:
    with PenstockProcess() as broker:
        before = broker.bootstrap, broker.cluster_id
        assert broker.kill() == -signal.SIGKILL
        assert not broker.running
        broker.start()
        assert (broker.bootstrap, broker.cluster_id) == before
        assert broker.stop() == 0
