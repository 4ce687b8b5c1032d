from pathlib import Path

import pytest

from penstock.cli.parsing import BOOTSTRAP_VARIABLE
from tests.broker_fixtures import bootstrap, topic
from tests.cli.running import Penstock, in_process

__all__ = ["bootstrap", "offline", "penstock", "topic"]


@pytest.fixture
def offline(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Penstock:
    """The command line where no broker runs."""
    monkeypatch.setenv(BOOTSTRAP_VARIABLE, "localhost:1")
    monkeypatch.setenv("COLUMNS", "80")
    return in_process(capsys, monkeypatch, tmp_path)


@pytest.fixture
def penstock(offline: Penstock, monkeypatch: pytest.MonkeyPatch, bootstrap: str) -> Penstock:
    """The command line beside a broker."""
    monkeypatch.setenv(BOOTSTRAP_VARIABLE, bootstrap)
    return offline
