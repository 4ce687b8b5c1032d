"""How many functions a small request passes between the transport and its handler, and back."""

import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest

from tests.broker.controlled import ControlledBroker
from tests.broker.test_time_sliced_queue import Wire, ping, wires

FUNCTIONS_MAX = 13
# What belongs to the path: its modules, and the readers and writers that the codec compiles.
PLACES = ("/penstock/broker/", "/penstock/wire/", "/penstock/schema/", "/apis/context.py", "/metrics.py", "<")


@pytest.fixture
def controlled() -> Iterator[ControlledBroker]:
    with ControlledBroker() as broker:
        yield broker


def functions_called(wire: Wire, data: bytes) -> list[str]:
    """The functions of the path that are called when a connection receives `data`, each once."""
    called: dict[str, None] = {}

    def note(frame: FrameType, event: str, _argument: Any) -> None:
        code = frame.f_code
        if event == "call" and any(place in code.co_filename for place in PLACES):
            called[f"{code.co_filename.rpartition('/')[2]} {code.co_qualname}"] = None

    sys.setprofile(note)
    try:
        wire.connection.data_received(data)
    finally:
        sys.setprofile(None)
    return list(called)


def test_a_small_request_passes_few_functions(controlled: ControlledBroker) -> None:
    async def story() -> None:
        (wire,) = wires(controlled, 1)
        wire.connection.data_received(ping(1))  # makes the codec compile
        called = functions_called(wire, ping(2))
        assert wire.answered() == [1, 2]
        path = [name for name in called if not name.startswith("<string>")]  # what dataclasses have made
        assert len(path) <= FUNCTIONS_MAX, path
        wire.abort()

    controlled.run(story)
