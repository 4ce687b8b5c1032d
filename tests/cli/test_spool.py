"""`penstock produce --spool`: nothing is lost when no broker takes it, and nothing is sent twice after a kill."""

import subprocess
from pathlib import Path

import pytest

from penstock.base.ids import TopicPartition
from penstock.cli.spool import Spool
from penstock.client.blocking import BlockingClient
from penstock.client.produce import produce
from penstock.client.producer import NewRecord, Producer
from tests.cli.running import Penstock, start

AWAY = "localhost:1"


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    return tmp_path / "spool"


def test_what_arrives_leaves_nothing_behind(penstock: Penstock, topic: str, spool: Path) -> None:
    penstock("topic", "create", topic)
    sent = penstock("produce", topic, "--spool", spool, stdin=b"one\ntwo\n")
    assert sent == (0, f"sent 2 records to {topic}\n", "")
    assert penstock("consume", topic).lines == ["one", "two"]
    assert [path.name for path in spool.iterdir()] == ["lock"]


def test_what_no_broker_takes_is_kept_and_goes_first_next_time(
    penstock: Penstock, topic: str, spool: Path
) -> None:
    penstock("topic", "create", topic)
    kept = penstock("produce", topic, "--spool", spool, "-b", AWAY, "-k", ":", stdin=b"a:one\nb:two\n")
    assert kept.code == 0
    assert kept.out == f"sent 0 records to {topic}\n"
    assert "cannot reach localhost:1: connection refused; 2 records kept in" in kept.err
    document = penstock("produce", topic, "--spool", spool, "-b", AWAY, "--json", stdin=b"three\n").document
    assert (document["sent"], document["kept"]) == (0, 3)
    assert penstock("produce", topic, "--spool", spool, stdin=b"four\n").out == f"sent 4 records to {topic}\n"
    consumed = penstock("consume", topic, "--print", "key,value").lines
    assert consumed == ["a\tone", "b\ttwo", "null\tthree", "null\tfour"]


def test_bytes_headers_tombstones_and_timestamps_survive_the_spool(
    penstock: Penstock, topic: str, spool: Path
) -> None:
    penstock("topic", "create", topic)
    line = b'{"key":{"base64":"/w=="},"value":null,"headers":[["h",null]],"timestamp":1700000000000}\n'
    penstock("produce", topic, "--spool", spool, "-b", AWAY, "--json-lines", stdin=line)
    penstock("produce", topic, "--spool", spool)
    (record,) = penstock("consume", topic, "--json").documents
    assert (record["key"], record["value"], record["headers"]) == ({"base64": "/w=="}, None, [["h", None]])
    assert record["timestamp"] == 1_700_000_000_000


def test_what_had_arrived_before_the_kill_is_not_appended_again(
    penstock: Penstock, topic: str, spool: Path, bootstrap: str
) -> None:
    """As if the command had been killed between the broker's answer and the file's removal."""
    penstock("topic", "create", topic)
    killed = Spool(spool)
    killed.keep(topic, [NewRecord(None, b"one"), NewRecord(None, b"two")])
    with BlockingClient(bootstrap) as blocking:
        (chunk,) = killed.chunks()
        batches = blocking.run(Producer(blocking.client).encode(topic, chunk.records))
        killed.ready(chunk, batches)
        blocking.run(produce(blocking.client, dict(batches)))
    killed.close()
    assert penstock("produce", topic, "--spool", spool, stdin=b"three\n").out.startswith("sent 3 records")
    assert penstock("consume", topic).lines == ["one", "two", "three"]


def test_a_killed_command_has_kept_what_it_had_read(penstock: Penstock, topic: str, spool: Path) -> None:
    penstock("topic", "create", topic)
    process = start(["produce", topic, "--spool", spool, "-b", AWAY], stdin=subprocess.PIPE)
    with process:
        assert process.stdin is not None
        process.stdin.write(b"one\n")
        process.stdin.flush()
        while not list(spool.glob("*.records")):
            assert process.poll() is None
        process.kill()
    assert penstock("produce", topic, "--spool", spool).out == f"sent 1 record to {topic}\n"
    assert penstock("consume", topic).lines == ["one"]


def test_batches_without_their_records_had_arrived(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.keep("orders", [NewRecord(None, b"one")])
    (chunk,) = spool.chunks()
    spool.ready(chunk, [(TopicPartition("orders", 0), b"batch")])
    (tmp_path / "00000001.records").unlink()
    spool.close()
    again = Spool(tmp_path)
    assert list(again.chunks()) == []
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]
    again.close()


def test_two_commands_do_not_share_a_spool(penstock: Penstock, topic: str, spool: Path) -> None:
    held = Spool(spool)
    refused = penstock("produce", topic, "--spool", spool, stdin=b"one\n")
    held.close()
    assert refused.code == 1
    assert f"another command uses the spool {spool}" in refused.err


def test_a_spool_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, offline: Penstock) -> None:
    monkeypatch.setattr("penstock.cli.spool.BYTES_MAX", 1000)
    full = offline("produce", "orders", "--spool", tmp_path / "spool", stdin=b"x" * 2000)
    assert full.code == 1
    assert "is full (1000 B)" in full.err


def test_records_that_a_broker_rejects_for_good_stay_in_the_spool_and_are_an_error(
    penstock: Penstock, topic: str, spool: Path
) -> None:
    penstock("topic", "create", topic, "--config", "cleanup.policy=compact")
    refused = penstock("produce", topic, "--spool", spool, stdin=b"without a key\n")
    assert refused.code == 1
    assert f"the records are kept in {spool}" in refused.err
    assert len(list(spool.glob("*.records"))) == 1


def test_a_spool_wants_safe_acknowledgements(offline: Penstock, spool: Path) -> None:
    assert "leave out --acks" in offline("produce", "orders", "--spool", spool, "--acks", "1").err


def test_others_files_in_the_directory_of_a_spool_are_left_alone(spool: Path) -> None:
    spool.mkdir()
    theirs = {"draft.tmp": b"1", "x.batches": b"2", "music.records": b"3"}
    for name, content in theirs.items():
        (spool / name).write_bytes(content)
    ours = spool / "00000007.records.tmp"
    ours.write_bytes(b"a kill in the middle")
    opened = Spool(spool)
    assert (opened.record_count(), list(opened.chunks())) == (0, [])
    opened.close()
    assert not ours.exists()
    assert {name: (spool / name).read_bytes() for name in theirs} == theirs
