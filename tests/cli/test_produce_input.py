import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.ids import TopicPartition
from penstock.cli.consume_format import json_format
from penstock.cli.produce_input import JsonLines, LineCutter, LineError, TextLines
from penstock.client.producer import NewRecord
from penstock.records.record import Record


@given(st.lists(st.binary(max_size=20)))
def test_lines_are_the_same_however_the_bytes_are_cut(chunks: list[bytes]) -> None:
    cutter = LineCutter()
    lines = [line for chunk in chunks for line in cutter.feed(chunk)] + cutter.finish()
    whole = b"".join(chunks)
    expected = whole.split(b"\n")
    assert lines == (expected[:-1] if not expected[-1] else expected)


def test_a_plain_line_is_a_value_without_key() -> None:
    assert TextLines().record(b"a\tb") == NewRecord(None, b"a\tb")


def test_a_separator_parts_key_from_value_at_its_first_place() -> None:
    assert TextLines(key_separator=b"::").record(b"k::v::w") == NewRecord(b"k", b"v::w")
    with pytest.raises(LineError, match="no key separator '::'"):
        TextLines(key_separator=b"::").record(b"k:v")


def test_the_null_marker_makes_a_tombstone_of_a_value_that_is_just_that() -> None:
    lines = TextLines(key_separator=b"=", null_value=b"NULL")
    assert lines.record(b"k=NULL") == NewRecord(b"k", None)
    assert lines.record(b"k=NULLS") == NewRecord(b"k", b"NULLS")


def test_headers_and_partition_are_given_to_every_line() -> None:
    lines = TextLines(headers=(("h", b"1"),), partition=3)
    assert lines.record(b"v") == NewRecord(None, b"v", (("h", b"1"),), None, 3)


headers = st.lists(st.tuples(st.text(), st.none() | st.binary())).map(tuple)
values = st.none() | st.binary() | st.text().map(str.encode)
records = st.builds(
    Record,
    offset=st.integers(0, 2**62),
    timestamp=st.integers(0, 2**62),
    key=values,
    value=values,
    headers=headers,
)


@given(records)
def test_what_consume_prints_as_json_produce_reads_back(record: Record) -> None:
    line = json_format(TopicPartition("t", 5), record)
    assert b"\n" not in line
    assert JsonLines().record(line) == NewRecord(
        record.key, record.value, record.headers, record.timestamp, 5
    )


def test_json_headers_may_be_an_object_and_fields_may_be_left_out() -> None:
    line = json.dumps({"value": "v", "headers": {"a": "1", "b": None}}).encode()
    assert JsonLines(headers=(("x", b"y"),), partition=1).record(line) == NewRecord(
        None, b"v", (("x", b"y"), ("a", b"1"), ("b", None)), None, 1
    )


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"{", "it is not JSON"),
        (b"\xff", "it is not JSON"),
        (b"[1]", "no object"),
        (b'{"value": 1}', 'its "value" is neither a string nor null'),
        (b'{"key": {"base64": "!"}}', 'its "key" is not valid base64'),
        (b'{"key": {"base64": 5}}', 'its "key" is not valid base64'),
        (b'{"headers": [["a"]]}', "no list of"),
        (b'{"headers": "a"}', "no list of"),
        (b'{"timestamp": -5}', 'its "timestamp" is no whole number'),
        (b'{"partition": true}', 'its "partition" is no whole number'),
    ],
)
def test_a_line_that_is_no_record_says_why(line: bytes, problem: str) -> None:
    with pytest.raises(LineError, match=problem):
        JsonLines().record(line)
