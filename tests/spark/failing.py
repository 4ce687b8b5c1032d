"""What Spark says when something fails."""

from collections.abc import Callable
from typing import Any

import pytest


def problem(action: Callable[[], Any]) -> str:
    """The words of the error that an action ends with; Spark's own kinds of errors differ from step to step."""
    with pytest.raises(Exception) as caught:
        action()
    return str(caught.value)
