import json
from pathlib import Path

import pytest

from penstock.base.ids import TopicPartition
from penstock.client.blocking import BlockingClient
from penstock.client.topics import delete_records
from penstock.records.compression import Codec
from tests.cli.running import Penstock


def test_lines_go_in_and_come_out(penstock: Penstock, topic: str) -> None:
    penstock("topic", "create", topic)
    assert penstock("produce", topic, stdin="one\n\nthree ✓".encode()) == (
        0,
        f"sent 3 records to {topic} (partition 0: offsets 0-2)\n",
        "",
    )
    assert penstock("consume", topic) == (0, "one\n\nthree ✓\n", "")


def test_an_empty_topic_and_no_input_are_fine(penstock: Penstock, topic: str) -> None:
    penstock("topic", "create", topic)
    assert penstock("produce", topic) == (0, f"sent 0 records to {topic}\n", "")
    assert penstock("consume", topic) == (0, "", "")


def test_files_are_read_one_after_the_other_and_a_dash_is_stdin(
    penstock: Penstock, topic: str, tmp_path: Path
) -> None:
    (tmp_path / "a").write_text("a1\na2\n")
    (tmp_path / "b").write_text("b1")
    penstock("topic", "create", topic)
    penstock("produce", topic, tmp_path / "a", "-", tmp_path / "b", stdin=b"in\n")
    assert penstock("consume", topic).lines == ["a1", "a2", "in", "b1"]


def test_a_whole_file_may_be_one_record(penstock: Penstock, topic: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1\n2\n\xff")
    penstock("topic", "create", topic)
    penstock("produce", topic, "--whole", tmp_path / "a")
    (record,) = penstock("consume", topic, "--json").documents
    assert record["value"] == {"base64": "MQoyCv8="}


def test_keys_headers_tombstones_and_partition_arrive(penstock: Penstock, topic: str) -> None:
    penstock("topic", "create", topic, "--partitions", 3)
    penstock(
        "produce",
        topic,
        "-k",
        "\\t",
        "--null-value",
        "NIL",
        "-H",
        "trace=7",
        "-H",
        "empty=",
        "-p",
        2,
        stdin=b"k1\tv1\nk2\tNIL\n",
    )
    printed = penstock("consume", topic, "--print", "partition,offset,key,value,headers", "--separator", "|")
    assert printed.lines == ["2|0|k1|v1|trace=7,empty=", "2|1|k2|null|trace=7,empty="]
    (_, tombstone) = penstock("consume", topic, "--json").documents
    assert tombstone["value"] is None
    assert tombstone["headers"] == [["trace", "7"], ["empty", ""]]


@pytest.mark.parametrize("codec", [codec.name.lower() for codec in Codec])
def test_every_compression_can_be_sent(penstock: Penstock, topic: str, codec: str) -> None:
    penstock("topic", "create", topic)
    lines = [f"line {number}" for number in range(1000)]
    penstock("produce", topic, "-z", codec, stdin="\n".join(lines).encode())
    assert penstock("consume", topic).lines == lines


@pytest.mark.parametrize("acks", ["all", "1"])
def test_acks_are_what_was_asked_for(penstock: Penstock, topic: str, acks: str) -> None:
    penstock("topic", "create", topic)
    outcome = penstock("produce", topic, "--acks", acks, "--json", stdin=b"x\n")
    assert outcome.document == {
        "topic": topic,
        "partitions": [{"partition": 0, "records": 1, "first_offset": 0, "last_offset": 0}],
    }


def test_without_acks_no_offset_is_known(penstock: Penstock, topic: str) -> None:
    penstock("topic", "create", topic)
    penstock("produce", topic, stdin=b"surely there\n")
    assert (
        penstock("produce", topic, "--acks", 0, stdin=b"x\n").out
        == f"sent 1 record to {topic} (partition 0)\n"
    )


def test_json_goes_round_without_loss(penstock: Penstock, topic: str) -> None:
    penstock("topic", "create", topic, "--partitions", 2)
    lines = (
        b'{"key":"k","value":{"base64":"/w=="},"headers":[["a",null],["a","b"]],"timestamp":1000,"partition":1}\n'
        b'{"value":"v","timestamp":2000,"partition":0}\n'
    )
    assert penstock("produce", topic, "--json-lines", stdin=lines).code == 0
    first = penstock("consume", topic, "--json").out
    penstock("produce", topic, "--json-lines", stdin=first.encode())
    again = [record for record in penstock("consume", topic, "--json").documents if record["offset"] == 1]

    def in_order(records: list[dict[str, object]]) -> list[dict[str, object]]:
        return sorted(({**record, "offset": 0} for record in records), key=lambda record: str(record))

    assert in_order(again) == in_order([json.loads(line) for line in first.splitlines()])
    (binary,) = [record for record in again if record["partition"] == 1]
    assert binary["value"] == {"base64": "/w=="}
    assert binary["headers"] == [["a", None], ["a", "b"]]


def test_reading_starts_and_stops_at_offsets(penstock: Penstock, topic: str) -> None:
    penstock("topic", "create", topic)
    penstock("produce", topic, stdin=b"0\n1\n2\n3\n4\n5\n")

    def read(*words: object) -> list[str]:
        return penstock("consume", topic, *words).lines

    assert read("--from", 4) == ["4", "5"]
    assert read("--from", 1, "--to", 3) == ["1", "2"]
    assert read("--from", "end") == []
    assert read("--from", -2) == ["4", "5"]
    assert read("--from", -4, "--to", -2) == ["2", "3"]
    assert read("-n", 2) == ["0", "1"]
    assert read("--from", 1, "--max-messages", 1) == ["1"]
    assert read("--from", 4, "--to", 2) == []


def test_reading_starts_and_stops_at_times(penstock: Penstock, topic: str) -> None:
    penstock("topic", "create", topic, "--config", "retention.ms=-1")
    lines = "".join(
        f'{{"value":"{second}","timestamp":{1_700_000_000_000 + second * 1000}}}\n' for second in range(5)
    )
    penstock("produce", topic, "--json-lines", stdin=lines.encode())
    penstock("produce", topic, stdin=b"now\n")

    def read(*words: object) -> list[str]:
        return penstock("consume", topic, *words).lines

    assert read("--from", "1700000003000ms") == ["3", "4", "now"]
    assert read("--from", "2023-11-14T22:13:21Z", "--to", "2023-11-14T22:13:23Z") == ["1", "2"]
    assert read("--from", "-1h") == ["now"]
    assert read("--from", "2100-01-01") == []


def test_consuming_from_beyond_the_end_warns_and_begins_at_the_end(penstock: Penstock, topic: str) -> None:
    penstock("topic", "create", topic, "--partitions", 5)
    penstock("produce", topic, "-p", 1, stdin=b"0\n1\n2\n")
    assert penstock("consume", topic, "--from", 3) == (
        0,
        "",
        f"penstock: offset 3 is beyond the end of {topic}-0 (0), {topic}-2 (0), {topic}-3 (0) and 1 more; "
        "reading begins at their ends\n",
    )
    assert penstock("consume", topic, "--from", 99, "-p", 1) == (
        0,
        "",
        f"penstock: offset 99 is beyond the end of {topic}-1 (3); reading begins at its end\n",
    )
    assert penstock("consume", topic, "--from", "2100-01-01T00:00Z") == (
        0,
        "",
        f"penstock: {topic} has no record from 2100-01-01T00:00:00.000Z on; reading begins at its end\n",
    )
    for place in ("end", "beginning", "-99", "-1h", "0"):
        assert penstock("consume", topic, "--from", place).err == ""


def test_partitions_can_be_chosen(penstock: Penstock, topic: str) -> None:
    penstock("topic", "create", topic, "--partitions", 4)
    for partition in range(4):
        penstock("produce", topic, "-p", partition, stdin=b"%d\n" % partition)
    assert sorted(penstock("consume", topic, "-p", "0,2-3").lines) == ["0", "2", "3"]
    assert sorted(penstock("consume", topic).lines) == ["0", "1", "2", "3"]
    assert penstock("consume", topic, "-p", 4) == (
        1,
        "",
        f"penstock: topic {topic} has no partition 4; the last one is 3\n",
    )


def test_the_error_for_an_invalid_record_names_its_line(
    penstock: Penstock, topic: str, tmp_path: Path
) -> None:
    penstock("topic", "create", topic)
    lines = tmp_path / "lines"
    lines.write_text('{"value":"fine"}\nnot json\n')
    outcome = penstock("produce", topic, "--json-lines", lines)
    assert outcome.code == 1
    assert outcome.err.startswith(f"penstock: line 2 of {lines} cannot be sent: it is not JSON: ")
    assert outcome.err.endswith("; 0 records had been sent before\n")
    missing = penstock("produce", topic, tmp_path / "nothing")
    assert missing == (1, "", f"penstock: {tmp_path / 'nothing'}: no such file or directory\n")


@pytest.mark.parametrize(
    ("limit", "size", "spool"),
    [
        (1000, 5000, False),
        (2_000_000, 3_000_000, False),
        # More than a request may have: a broker answers such a thing by closing the connection.
        (1000, 120_000_000, False),
        (2_147_483_647, 120_000_000, False),
        (1000, 120_000_000, True),
    ],
)
def test_a_record_too_large_is_said_at_once_with_its_line_its_size_and_the_setting(
    penstock: Penstock, topic: str, tmp_path: Path, limit: int, size: int, spool: bool
) -> None:
    penstock("topic", "create", topic, "--partitions", 1, "--config", f"max.message.bytes={limit}")
    lines = tmp_path / "lines"
    lines.write_bytes(b"fits\n" + b"x" * size + b"\n")
    words = ("--spool", tmp_path / "spool") if spool else ()

    outcome = penstock("produce", topic, lines, *words)

    assert outcome.code == 1
    setting = "max.message.bytes" if limit < size else "socket.request.max.bytes"
    if not spool:
        assert outcome.err.startswith(f"penstock: line 2 of {lines} cannot be sent: it makes a batch of ")
        told = int(outcome.err.partition(" batch of ")[2].partition(" bytes")[0].replace(",", ""))
        assert 0 < told - size < 100
        assert outcome.err.endswith("; 1 record had been sent before\n")
    assert setting in outcome.err
    assert outcome.err.count("\n") == 1


def test_a_large_record_that_compresses_well_is_sent(penstock: Penstock, topic: str) -> None:
    penstock("topic", "create", topic)
    assert penstock("produce", topic, "-z", "zstd", stdin=b"x" * 3_000_000).code == 0


def test_a_whole_file_too_large_is_named(penstock: Penstock, topic: str, tmp_path: Path) -> None:
    penstock("topic", "create", topic)
    (tmp_path / "image").write_bytes(b"x" * 2_000_000)
    outcome = penstock("produce", topic, "--whole", tmp_path / "image")
    assert outcome.err == (
        f"penstock: {tmp_path}/image cannot be sent: it makes a batch of 2,000,074 bytes, and topic {topic} takes "
        "1,048,588 (max.message.bytes); compress it (-z zstd), or raise that with "
        f"`penstock topic alter {topic} --config max.message.bytes=2000074`; 0 records had been sent before\n"
    )


def test_a_topic_that_is_missing_is_said_with_the_command_that_makes_it(
    penstock: Penstock, topic: str, tmp_path: Path
) -> None:
    outcome = penstock("produce", topic, stdin=b"x\n")
    assert outcome == (
        1,
        "",
        f"penstock: there is no topic {topic!r}; `penstock topic create {topic}` creates it\n",
    )
    spooled = penstock("produce", topic, "--spool", tmp_path / "spool", stdin=b"x\n")
    assert f"`penstock topic create {topic}` creates it" in spooled.err
    penstock("topic", "create", topic)
    typo = penstock("produce", topic + "s", stdin=b"x\n")
    assert typo.err == (
        f"penstock: there is no topic {topic + 's'!r}; did you mean {topic!r}? "
        f"`penstock topic create {topic}s` creates a new one\n"
    )


def test_a_json_field_that_a_record_does_not_have_is_refused(penstock: Penstock, topic: str) -> None:
    penstock("topic", "create", topic)
    outcome = penstock("produce", topic, "--json-lines", stdin=b'{"value":"v"}\n{"vlaue":"v"}\n')
    assert outcome.code == 1
    assert outcome.err == (
        'penstock: line 2 of stdin cannot be sent: a record has no field "vlaue"; did you mean "value"?; '
        "0 records had been sent before\n"
    )
    assert penstock("consume", topic).lines == []
    other = penstock("produce", topic, "--json-lines", stdin=b'{"user":{"id":1},"total":3}')
    assert (
        'a record has no field "user"; it has key, value, headers, timestamp, partition, topic and offset'
        in other.err
    )


def test_deleted_records_at_the_front_are_left_out(penstock: Penstock, topic: str, bootstrap: str) -> None:
    penstock("topic", "create", topic)
    penstock("produce", topic, stdin=b"0\n1\n2\n")
    with BlockingClient(bootstrap) as blocking:
        blocking.run(delete_records(blocking.client, {TopicPartition(topic, 0): 2}))
    assert penstock("consume", topic).lines == ["2"]
    assert penstock("consume", topic, "--from", 0).lines == ["2"]
