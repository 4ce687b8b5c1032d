"""The story of `make run`, small: it recounts itself, and here it is counted again by other means."""

import json
import os
import re
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from peers.penstock import PenstockProcess
from peers.process import WatchedProcess
from penstock.spark.pipelines.views import FlowView, State

pytestmark = pytest.mark.xdist_group("spark")

ROOT = Path(__file__).resolve().parents[3]


def story(folder: Path, *more: str) -> list[str]:
    out = ["--data", str(folder / "data"), "--out", str(folder / "report")]
    return [sys.executable, "-m", "app_logs.story", "--listen", "127.0.0.1:0", *out, *more]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "examples")]), **more}


def records(servers: str, topic: str) -> list[Any]:
    """All committed records of a topic, read with confluent-kafka."""
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "none", "isolation.level": "read_committed"}
    )
    try:
        partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        places = [TopicPartition(topic, each, OFFSET_BEGINNING) for each in partitions]
        left = {each: consumer.get_watermark_offsets(TopicPartition(topic, each))[1] for each in partitions}
        consumer.assign(places)
        found = []
        while any(_position(consumer, topic, each) < end for each, end in left.items()):
            found += consumer.consume(500, timeout=0.2)
        return found
    finally:
        consumer.close()


def _position(consumer: Consumer, topic: str, partition: int) -> int:
    return int(consumer.position([TopicPartition(topic, partition)])[0].offset)


def rows_of(report: Path, table: str) -> list[dict[str, Any]]:
    """A table's rows, as its manifest and files have them."""
    (folder,) = report.glob(f"state-*/tables/{table}")
    files = json.loads((folder / "manifest.json").read_text())["files"]
    paths = [each["path"] if isinstance(each, dict) else each[0] for each in files]
    return [row for path in paths for row in parquet.read_table(folder / path).to_pylist()]


class Page(HTMLParser):
    """What is in a page: its tags, and the addresses in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.labels: list[str] = []
        self.addresses: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.labels += [value or "" for name, value in attrs if name == "aria-label"]
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]


def test_a_small_story_accounts_for_every_record_and_draws_its_page(tmp_path: Path) -> None:
    small = ("--duration", "6", "--rate", "60", "--seed", "7", "--trigger", "500 milliseconds")
    process = WatchedProcess(story(tmp_path, *small), environment=environment())
    try:
        code = process.wait(timeout_s=500)
    finally:
        process.stop()
    assert code == 0, process.output
    assert "\nbalanced\n" in process.output
    waiting, _, written = process.output.partition("every flow is ready: the services write now\n")
    assert "the services begin to write when every flow has done its first batch" in waiting
    assert "no more logs are sent" in written

    report = tmp_path / "report"
    with PenstockProcess(tmp_path / "data") as broker:
        logs = records(broker.bootstrap, "app-logs")
        letters = records(broker.bootstrap, "app-logs-dead-letters")
        traces = records(broker.bootstrap, "traces")
    told = re.search(r"^produced ([\d,]+),", process.output, re.MULTILINE)
    assert told is not None
    assert int(told[1].replace(",", "")) == len(logs)
    assert len(logs) > 200

    rejected = [(dict(each.headers())["partition"], dict(each.headers())["offset"]) for each in letters]
    assert len(set(rejected)) == len(rejected), "no dead letter twice"
    places = {(str(each.partition()).encode(), str(each.offset()).encode()): each for each in logs}
    kept = {
        json.loads(each.value())["span_id"] for place, each in places.items() if place not in set(rejected)
    }
    assert len(kept) + len(rejected) == len(logs), "produced = analysed + dead-lettered"

    assert sum(row["requests"] for row in rows_of(report, "endpoint_minutes")) == len(kept)
    spans = Counter(span["span_id"] for row in rows_of(report, "traces") for span in row["spans"])
    assert set(spans) == kept
    assert max(spans.values()) == 1, "no span twice"
    assert len(traces) == len(rows_of(report, "traces"))
    assert sum(row["calls"] for row in rows_of(report, "call_graph")) == len(kept)

    page = Page((report / "index.html").read_text())
    captions = {label.partition(":")[0] for label in page.labels}
    assert {"logs produced", "event to alert", "rows read", "lag, in records", "call graph"} <= captions
    assert page.tags["svg"] >= 3
    assert page.addresses == [], "nothing comes from outside"
    assert page.tags["script"] == 0


@pytest.mark.parametrize(
    ("rows", "lag", "ready"), [(0, 1, False), (0, 0, False), (3, None, False), (3, 1, False), (3, 0, True)]
)
def test_a_flow_is_ready_when_a_batch_brought_rows_and_none_are_left(
    rows: int, lag: int | None, ready: bool
) -> None:
    from app_logs.story import is_ready

    view = FlowView("bi", State.RUNNING, rows, 0.0, lag, batch=0, batch_ms=900, restarts=0)
    assert is_ready(view) is ready


def test_without_java_the_broker_runs_and_one_line_says_what_is_missing(tmp_path: Path) -> None:
    process = WatchedProcess(story(tmp_path), environment=environment(PATH=str(tmp_path), JAVA_HOME=""))
    try:
        said = process.wait_for_line(lambda line: "Spark needs Java" in line, timeout_s=60)
        ready = re.search(r"ready on (\S+) ", process.output)
        assert ready is not None
        assert records_can_be_asked(ready[1])
    finally:
        code = process.stop()
    assert said.startswith("penstock: Spark needs Java 17 or newer, and there is none")
    assert "The broker runs without; Ctrl-C ends it." in said
    assert code == 0


def records_can_be_asked(servers: str) -> bool:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "none"})
    try:
        return bool(consumer.list_topics(timeout=30).brokers)
    finally:
        consumer.close()
