"""`penstock table`: what it prints, for people and as JSON."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.main import main
from penstock.client.producer import NewRecord
from penstock.testing import EmbeddedBroker
from tests.spark.writing import Topics

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture
def topics(broker: EmbeddedBroker) -> Topics:
    return Topics(broker.bootstrap_servers)


@pytest.fixture
def told(broker: EmbeddedBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """The exit code of a command, and what it printed."""

    def run(verb: str, *words: str) -> tuple[int, str, str]:
        more = ("-b", broker.bootstrap_servers) if verb == "create" else ()
        code = main(["table", verb, *words, "--warehouse", str(tmp_path), *more])
        return code, *capsys.readouterr()

    return run


def test_a_table_is_created_listed_refreshed_and_described(
    topics: Topics, topic: str, told: Any, tmp_path: Path
) -> None:
    topics.create(topic, 2)
    topics.write(topic, [NewRecord(b"k", b'{"id": %d, "name": "n"}' % n, partition=n % 2) for n in range(5)])
    topics.write(topic, [NewRecord(b"k", b"nonsense", partition=0)])
    code, said, _ = told("create", "orders", "--topic", topic)
    assert (code, said) == (0, f"created append table orders of topic {topic}: id BIGINT, name STRING\n")
    command = [sys.executable, "-m", "penstock", "table", "refresh", "orders", "--warehouse", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert done.stdout == "table orders: 5 rows (+5), 1 rejected (+1), 1 batch\n", done.stderr
    _, said, _ = told("query", "orders", "--where", "id >= 3", "--order-by", "id desc", "--json")
    assert [(row["id"], row["name"], row["_topic"]) for row in json.loads(said)] == [
        (4, "n", topic),
        (3, "n", topic),
    ]
    sql = [
        *command[:4],
        "query",
        "--sql",
        "SELECT count(*) AS n, max(id) AS most FROM orders",
        *command[6:],
        "--json",
    ]
    done = subprocess.run(sql, capture_output=True, text=True, timeout=400, check=False)
    assert json.loads(done.stdout) == [{"n": 5, "most": 4}], done.stderr
    topics.write_values(topic, ["{}", "{}"], partition=1)
    _, said, _ = told("list", "--json")
    (listed,) = json.loads(said)
    assert (listed["name"], listed["kind"], listed["rows"], listed["rejected"]) == ("orders", "append", 5, 1)
    _, said, _ = told("describe", "orders", "--json")
    (described,) = json.loads(said)
    assert described["lag"] == 2
    assert [each["next_offset"] for each in described["partitions"]] == [4, 2]
    assert described["columns"]["_offset"] == "BIGINT"
    _, said, _ = told("describe")
    assert f"orders: append table of topic {topic} (json" in said
    assert "5 rows in" in said
    assert "1 rejected, lag 2" in said
    code, said, _ = told("drop", "orders", "--yes")
    assert (code, said) == (0, "dropped table orders: 2 files deleted\n")
    assert not (tmp_path / "orders").exists()


def test_describe_shows_the_table_while_the_broker_is_unreachable(told: Any, tmp_path: Path) -> None:
    from penstock.spark import tables
    from penstock.spark.tables.declaration import TopicFeed
    from penstock.spark.tables.topic_tables import plain_schema

    feed = TopicFeed("t", "127.0.0.1:1", plain_schema(value="string", key="string"))
    tables.create_topic_table(tmp_path, "t", feed, kind="latest")
    code, said, _ = told("describe", "t")
    assert code == 0
    assert "the topic's end offsets are unknown" in said


@pytest.mark.parametrize(
    ("words", "told_why"),
    [
        (("--topic", "nowhere-at-all"), "there is no topic 'nowhere-at-all'"),
        (("--schema", "id BIGIN"), "did you mean BIGINT"),
        (("--schema", "id INT", "--config", "bucket=3"), "did you mean buckets"),
        (("--schema", "id INT", "--option", "failOnDataLos=false"), "did you mean failOnDataLoss"),
        (("--format", "avro"), "--format avro needs --schema-file"),
        ((), "no JSON objects to guess columns from"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(
    topics: Topics, topic: str, told: Any, words: tuple[str, ...], told_why: str
) -> None:
    topics.create(topic)
    code, said, complained = told(
        "create", "orders", *(() if "--topic" in words else ("--topic", topic)), *words
    )
    assert code in (1, 2)
    assert said == ""
    assert told_why in complained
    assert complained.count("\n") == 1


def test_there_are_no_tables_to_refresh(told: Any) -> None:
    code, _, complained = told("refresh")
    assert code == 1
    assert "there are no tables of topics in" in complained
