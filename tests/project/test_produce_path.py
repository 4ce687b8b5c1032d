"""How many functions one produce request passes, from its handler to the response the handler returns.

Counted are the distinct functions, and their files, that are written in `src/penstock`, in a broker with one
partition on a directory. Not counted: what Python or the schema compiler generates (constructors of dataclasses and
NamedTuples, compiled codecs), comprehensions (a part of their function), and `penstock.testing`, which stands between
the broker and its disk only here.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

import penstock
from penstock.testing import EmbeddedBroker
from penstock.wire.messages.fetch import FetchRequest
from penstock.wire.messages.produce import ProduceRequest
from tests.raw_client import RawClient, batch_of, fetch_request, produce_request

ROOT = Path(__file__).parents[2]
FUNCTIONS_MAX = 25
FILES_MAX = 10

SOURCE = Path(penstock.__file__).parent


class CallRecorder:
    """Records the calls of the broker's thread between a handler's call and its return."""

    def __init__(self) -> None:
        self.handler = ""  # such as "apis/k00_produce.py"; empty while nothing is recorded
        self.calls: list[tuple[str, str]] = []
        self.all_calls: list[tuple[str, str]] = []
        self._handle: FrameType | None = None

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> None:
        if not self.handler:
            return
        if event == "call":
            place = _place(frame.f_code)
            if place is None:
                return
            if place == (self.handler, "handle"):
                self._handle = frame
            self.all_calls.append(place)
            if self._handle is not None:
                self.calls.append(place)
        elif event == "return" and frame is self._handle:
            self._handle = None


def _place(code: CodeType) -> tuple[str, str] | None:
    """File and function, if it counts."""
    if not code.co_filename.startswith(str(SOURCE)) or code.co_name.startswith("<"):
        return None
    file = Path(code.co_filename).relative_to(SOURCE).as_posix()
    return None if file.startswith("testing/") else (file, code.co_qualname)


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> CallRecorder:
    """Sees the calls of the threads of embedded brokers that are started from now on."""
    found = CallRecorder()
    run = EmbeddedBroker._run

    def run_recorded(self: EmbeddedBroker, *arguments: Any) -> Any:
        sys.setprofile(found)
        return run(self, *arguments)

    monkeypatch.setattr(EmbeddedBroker, "_run", run_recorded)
    return found


@pytest.fixture
def client(recorder: CallRecorder, tmp_path: Path) -> Iterator[RawClient]:
    with (
        EmbeddedBroker(data_dir=tmp_path / "data") as broker,
        RawClient(broker.bootstrap_servers) as client,
    ):
        client.create_topic("t")
        yield client


def trace(recorder: CallRecorder, client: RawClient, handler: str, request: Any, version: int) -> None:
    client.ask(request, version)  # the first one of a topic, and of a connection, takes more steps
    recorder.handler = handler
    client.ask(request, version)
    recorder.handler = ""


def listing(calls: list[tuple[str, str]]) -> str:
    functions = list(dict.fromkeys(calls))
    files = {file for file, _ in functions}
    lines = [f"{file}: {function}" for file, function in functions]
    return "\n".join([f"{len(functions)} functions in {len(files)} files", *lines])


def documented_path() -> list[str]:
    """The functions that ARCHITECTURE.md lists, in the order of their first calls."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    return re.findall(r"^[a-z_0-9/]+\.py: \S+$", text, re.MULTILINE)


def test_a_produce_request_passes_few_functions_in_few_files(
    recorder: CallRecorder, client: RawClient
) -> None:
    request: ProduceRequest = produce_request("t", batch_of(b"x"))
    trace(recorder, client, "apis/k00_produce.py", request, 9)
    functions = set(recorder.calls)
    print(listing(recorder.calls))
    print("from the frame to the response on the wire:", listing(recorder.all_calls).splitlines()[0])
    assert functions
    assert len(functions) <= FUNCTIONS_MAX
    assert len({file for file, _ in functions}) <= FILES_MAX
    traced = listing(recorder.calls).splitlines()[1:]
    assert traced == documented_path(), "ARCHITECTURE.md lists other functions: copy the printed list there"


def test_a_fetch_request_is_traced_for_comparison(recorder: CallRecorder, client: RawClient) -> None:
    client.produce("t", batch_of(b"x"))
    request: FetchRequest = fetch_request("t", 0)
    trace(recorder, client, "apis/k01_fetch.py", request, 12)
    print(listing(recorder.calls))
    print("from the frame to the response on the wire:", listing(recorder.all_calls).splitlines()[0])
    assert ("apis/k01_fetch.py", "handle") in recorder.calls
