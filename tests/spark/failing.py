"""What Spark says when something fails, and waiting for it to happen."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

_WAIT_S = 300


def problem(action: Callable[[], Any]) -> str:
    """The words of the error that an action ends with; Spark's own kinds of errors differ from step to step."""
    with pytest.raises(Exception) as caught:
        action()
    return str(caught.value)


def await_file(path: Path) -> None:
    """Another process makes it when it has come so far: nothing here could be told."""
    deadline_s = time.monotonic() + _WAIT_S
    while not path.exists():
        assert time.monotonic() < deadline_s, f"{path.name} did not come"
        threading.Event().wait(0.02)
