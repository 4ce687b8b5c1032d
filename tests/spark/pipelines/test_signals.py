"""Which signals stop a pipeline."""

import signal

import pytest

from penstock.spark.pipelines.running import stopped_by_signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda each: each.name)
def test_a_signal_stops_the_flows_and_its_handler_is_put_back(number: signal.Signals) -> None:
    # The test itself may have been started to ignore a signal, as `nohup` does with SIGHUP.
    of_the_test = signal.signal(number, signal.SIG_DFL)
    try:
        with stopped_by_signals() as stopping:
            assert not stopping.is_set()
            signal.raise_signal(number)
            assert stopping.is_set()
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, of_the_test)


def test_a_pipeline_that_was_started_to_ignore_hangups_goes_on() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stopped_by_signals() as stopping:
            signal.raise_signal(signal.SIGHUP)
            assert not stopping.is_set()
    finally:
        signal.signal(signal.SIGHUP, before)
