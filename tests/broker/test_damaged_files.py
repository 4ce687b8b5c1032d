"""Files that were damaged while a broker was stopped: detected when they are read, logged, and repaired if possible."""

import re
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from penstock.base.errors import ErrorCode
from penstock.testing import EmbeddedBroker
from penstock.wire.messages.find_coordinator import FindCoordinatorRequest
from tests.apis.groups import committed
from tests.apis.requests import list_offset, records_in
from tests.broker.test_listeners import free_port, get
from tests.group_messages import committing
from tests.raw_client import RawClient, batch_of

PATIENCE_S = 60
COUNT = 40


def wait_for(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, "it does not come about"
        time.sleep(0.02)


def fill(directory: Path) -> None:
    """A topic of two segments, with batches large enough to be indexed, on a broker that is stopped then."""
    with EmbeddedBroker(data_dir=directory) as broker, RawClient(broker.bootstrap_servers) as client:
        client.create_topic("orders", internal_segment_bytes="100000")
        for number in range(COUNT):
            batch = batch_of(b"%03d" % number + b"x" * 5000, timestamp=1000 + number)
            assert client.produce("orders", batch).error_code == 0


def offsets_read(client: RawClient) -> list[int]:
    seen: list[int] = []
    while len(seen) < COUNT:
        found = client.fetch("orders", len(seen))
        assert found.error_code == 0
        records = records_in(found.records)
        assert records, f"nothing at {len(seen)}"
        seen += [record.offset for record in records]
    return seen


@pytest.mark.parametrize("kind", ["index", "timeindex"])
def test_consumers_get_their_records_with_a_damaged_index(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str
):
    fill(tmp_path)
    path = sorted((tmp_path / "orders-0").glob(f"*.{kind}"))[0]
    good = path.read_bytes()
    assert good
    path.write_bytes(Random(7).randbytes(len(good)))
    port = free_port()
    settings = {"penstock.metrics.listen": f"127.0.0.1:{port}"}
    with (
        EmbeddedBroker(data_dir=tmp_path, settings=settings) as broker,
        RawClient(broker.bootstrap_servers) as client,
    ):
        assert offsets_read(client) == list(range(COUNT))
        assert list_offset(client, "orders", 1003).offset == 3
        wait_for(lambda: path.read_bytes() == good)
        counted = re.search(r"^penstock_rebuilt_indexes_total (\d+)", get(port, "/metrics")[1], re.MULTILINE)
        assert counted is not None
        assert counted[1] == "1"
    assert f"{path.name} is damaged" in caplog.text


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 16
    path.write_bytes(bytes(content))


def test_a_batch_damaged_while_the_broker_was_stopped_is_not_served(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    fill(tmp_path)
    path = sorted((tmp_path / "orders-0").glob("*.log"))[0]
    before = path.read_bytes()
    flip(path, 3 * 5100)
    port = free_port()
    settings = {"penstock.metrics.listen": f"127.0.0.1:{port}"}
    for _ in range(2):  # a stop and a start later it is the same, and nothing has been cut off
        caplog.clear()
        with (
            EmbeddedBroker(data_dir=tmp_path, settings=settings) as broker,
            RawClient(broker.bootstrap_servers) as client,
        ):
            codes, seen = [], []
            for offset in range(COUNT):
                answer = client.fetch("orders", offset, max_bytes=100)
                codes.append(answer.error_code)
                if not answer.error_code:
                    seen += [record.offset for record in records_in(answer.records)]
            assert codes.count(ErrorCode.CORRUPT_MESSAGE) == 1
            damaged = codes.index(ErrorCode.CORRUPT_MESSAGE)
            assert seen == [offset for offset in range(COUNT) if offset != damaged]
            counted = re.search(
                r"^penstock_damaged_batches_total (\d+)", get(port, "/metrics")[1], re.MULTILINE
            )
            assert counted is not None
            assert counted[1] == "1"
        assert caplog.text.count(f"offsets {damaged} to {damaged} are damaged") == 1
        assert "No other replica has them" in caplog.text
    flip(path, 3 * 5100)
    assert path.read_bytes() == before


def find_coordinator(client: RawClient, group: str) -> int:
    code: int = client.ask(FindCoordinatorRequest(key=group, key_type=0), 3).error_code
    return code


def test_a_coordinator_without_replicas_skips_damaged_records_and_loads_the_rest(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    settings = {"offsets.topic.num.partitions": 1}
    with (
        EmbeddedBroker(data_dir=tmp_path, settings=settings) as broker,
        RawClient(broker.bootstrap_servers) as client,
    ):
        client.create_topic("orders")
        for group in ("first", "second", "third"):
            assert find_coordinator(client, group) == 0
            answer = client.ask(committing(group, "orders", 7), 8)
            assert answer.topics[0].partitions[0].error_code == 0
    path = next((tmp_path / "__consumer_offsets-0").glob("*.log"))
    content = path.read_bytes()
    flip(path, content.index(b"second") + 2)
    with (
        EmbeddedBroker(data_dir=tmp_path, settings=settings) as broker,
        RawClient(broker.bootstrap_servers) as client,
    ):
        wait_for(lambda: find_coordinator(client, "first") == 0)
        wait_for(lambda: committed(client, "first", "orders") == 7)
        assert committed(client, "third", "orders") == 7
    assert "are damaged and skipped" in caplog.text
