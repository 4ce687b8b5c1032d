"""Directories in a data directory that are not the broker's: they stay unchanged, and the broker logs them.

And data directories whose metadata are elsewhere, or gone: the broker refuses, and changes nothing.
"""

import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.base.errors import ErrorCode, UserError
from penstock.base.ids import format_id
from penstock.testing import EmbeddedBroker
from tests.apis.requests import delete_topic, exists, topic_id, values_in
from tests.raw_client import RawClient, batch_of

SEGMENT = f"{0:020d}.log"
FOREIGN_TOPIC_ID = format_id(b"another topic id")
QUICK = {"log.segment.delete.delay.ms": "0"}  # what is deleted goes at once


def files_in(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def put(root: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)


def partition_files(directory: str, *, topic: str = FOREIGN_TOPIC_ID) -> dict[str, bytes]:
    """A partition as Apache Kafka or Penstock leaves it."""
    return {
        f"{directory}/{SEGMENT}": batch_of(b"somebody", b"else's"),
        f"{directory}/partition.metadata": f"version: 0\ntopic_id: {topic}\n".encode(),
        f"{directory}/leader-epoch-checkpoint": b"0\n1\n0 0\n",
    }


def start(data_dir: Path) -> EmbeddedBroker:
    return EmbeddedBroker(data_dir=data_dir, settings=QUICK)


def fill(data_dir: Path, *topics: str) -> dict[str, str]:
    """A data directory with topics; their ids."""
    with start(data_dir) as broker, RawClient(broker.bootstrap_servers) as client:
        for topic in topics:
            client.create_topic(topic, partitions=2)
            client.produce(topic, batch_of(topic.encode()))
        return {topic: format_id(topic_id(client, topic)) for topic in topics}


def values(client: RawClient, topic: str) -> list[bytes | None]:
    return values_in(client.fetch(topic, 0).records)


def until_removed(root: Path, pattern: str) -> None:
    """A chore removes what was deleted, once a second."""
    while list(root.glob(pattern)):
        pass


def test_directories_that_are_called_like_partitions_and_hold_other_things_are_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    foreign = {
        "photos-2024/beach.jpg": b"sand",
        "photos-delete/blurred.jpg": b"?",
        "notes-1": b"a file, not a directory",
        "data-1/orders-0/x.csv": b"1,2\n",
        "release-007/notes.txt": b"zeros in front",
    }
    put(tmp_path, foreign)
    (tmp_path / "empty-3").mkdir()
    fill(tmp_path, "orders")
    with start(tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
        assert values(client, "orders") == [b"orders"]
        client.create_topic("doomed")
        delete_topic(client, "doomed")
        until_removed(tmp_path, "doomed-*")
    assert files_in(tmp_path).items() >= foreign.items()
    assert (tmp_path / "empty-3").is_dir()
    assert "photos" not in caplog.text
    assert "empty-3" not in caplog.text


def test_a_partition_that_the_metadata_do_not_know_stays_and_is_named_in_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fill(tmp_path, "orders")
    foreign = partition_files("payments-0") | partition_files("old-3.0123456789abcdef0123456789abcdef-delete")
    put(tmp_path, foreign)
    for _ in range(2):
        caplog.clear()
        with start(tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
            client.create_topic("doomed")
            delete_topic(client, "doomed")
            until_removed(tmp_path, "doomed-*")
        assert files_in(tmp_path).items() >= foreign.items()
        told = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
        assert [line.split(":")[0] for line in told] == [
            "payments-0",
            "old-3.0123456789abcdef0123456789abcdef-delete",
        ]
        assert "the metadata do not know this partition; its directory stays as it is" in told[0]


def test_the_warning_names_twenty_and_counts_the_rest(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fill(tmp_path, "orders")
    for number in range(25):
        put(tmp_path, partition_files(f"unknown-{number}"))
    with start(tmp_path):
        pass
    told = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert len(told) == 21
    assert "5 more partitions" in told[-1]


def test_a_partition_that_the_metadata_do_not_know_is_renamed_where_its_name_is_needed_and_never_removed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fill(tmp_path, "orders")
    foreign = partition_files("payments-0") | {"photos-0/beach.jpg": b"sand"}
    put(tmp_path, foreign)
    (tmp_path / "photos-1").mkdir()
    with start(tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
        for topic in ("payments", "photos"):
            client.create_topic(topic, partitions=2)
            assert client.produce(topic, batch_of(b"new")).error_code == ErrorCode.NONE
            assert values(client, topic) == [b"new"]
    for _ in range(2):
        with start(tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
            assert values(client, "payments") == [b"new"]
    (stray,) = tmp_path.glob("payments-0.*-stray")
    assert files_in(stray) == files_in_of(foreign, "payments-0")
    (photos,) = tmp_path.glob("photos-0.*-stray")
    assert files_in(photos) == {"beach.jpg": b"sand"}
    assert not list(tmp_path.glob("photos-1.*")), "an empty directory is as good as none"
    assert f"payments-0: the directory with this name is now called {stray.name}" in caplog.text
    assert f"{stray.name}: the metadata do not know this partition" in caplog.text


def files_in_of(files: dict[str, bytes], directory: str) -> dict[str, bytes]:
    return {
        name.removeprefix(f"{directory}/"): content
        for name, content in files.items()
        if name.startswith(f"{directory}/")
    }


def test_a_directory_with_the_name_of_a_topics_partition_and_another_id_is_renamed_at_the_start(
    tmp_path: Path,
) -> None:
    fill(tmp_path, "orders")
    shutil.rmtree(tmp_path / "orders-0")
    foreign = partition_files("orders-0") | {f"orders-0/{SEGMENT}.deleted": b"not ours to tidy"}
    put(tmp_path, foreign)
    with start(tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
        assert values(client, "orders") == []
    (stray,) = tmp_path.glob("orders-0.*-stray")
    assert files_in(stray) == files_in_of(foreign, "orders-0")


def test_a_partition_of_a_topic_whose_deletion_is_recorded_is_deleted_at_the_next_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ids = fill(tmp_path, "gone", "kept")
    with start(tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
        delete_topic(client, "gone")
        until_removed(tmp_path, "gone-*")
    # As a kill before, and in the middle of, the removal would have left them.
    put(tmp_path, partition_files("gone-0", topic=ids["gone"]))
    aside = "gone-1.0123456789abcdef0123456789abcdef-delete"
    put(tmp_path, partition_files(aside, topic=ids["gone"]))
    # And a directory of a topic that was never here.
    foreign = partition_files("gone-2")
    put(tmp_path, foreign)
    caplog.clear()
    with start(tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
        until_removed(tmp_path, "gone-[01]*")
        assert values(client, "kept") == [b"kept"]
        assert not exists(client, "gone")
    assert files_in(tmp_path).items() >= foreign.items()
    assert [each.getMessage().split(":")[0] for each in caplog.records] == ["gone-2"]


def lose_metadata(data_dir: Path) -> None:
    shutil.rmtree(data_dir / "__metadata")


def belong_to_a_cluster(data_dir: Path) -> None:
    lose_metadata(data_dir)
    meta = data_dir / "meta.properties"
    meta.write_text(meta.read_text().replace("=embedded", "=zookeeper"))


def belong_to_a_cluster_of_an_earlier_version(data_dir: Path) -> None:
    lose_metadata(data_dir)
    meta = data_dir / "meta.properties"
    meta.write_text(meta.read_text().replace("penstock.metadata=embedded\n", ""))


def lose_everything_but_partitions(data_dir: Path) -> None:
    lose_metadata(data_dir)
    (data_dir / "meta.properties").unlink()


def be_apache_kafkas(data_dir: Path) -> None:
    for name in list(data_dir.iterdir()):
        shutil.rmtree(name) if name.is_dir() else name.unlink()
    put(data_dir, partition_files("orders-0") | partition_files("__consumer_offsets-49"))
    meta = b"#\n#Thu Jan 01 00:00:00 UTC 1970\ncluster.id=abc\nversion=1\ndirectory.id=def\nnode.id=1\n"
    put(data_dir, {"meta.properties": meta, "recovery-point-offset-checkpoint": b"0\n1\norders 0 2\n"})


def lose_what_says_whose_it_is(data_dir: Path) -> None:
    (data_dir / "meta.properties").unlink()


@pytest.mark.parametrize(
    ("becomes", "says"),
    [
        (
            lose_metadata,
            "partitions .orders-0, orders-1., and no metadata.*put __metadata back from a backup",
        ),
        (belong_to_a_cluster, "belongs to broker 1 of cluster .*: start it with --zookeeper"),
        (belong_to_a_cluster_of_an_earlier_version, "If it is a cluster broker's, start it with --zookeeper"),
        (lose_everything_but_partitions, "no metadata.*choose another directory with --data-dir"),
        (be_apache_kafkas, r"partitions .__consumer_offsets-49, orders-0., and no metadata"),
        (lose_what_says_whose_it_is, r"metadata of a standalone broker .* and no meta\.properties"),
    ],
)
def test_a_directory_without_its_metadata_is_refused_and_left_as_it_is(
    tmp_path: Path, becomes: Callable[[Path], None], says: str
) -> None:
    fill(tmp_path, "orders")
    becomes(tmp_path)
    before = files_in(tmp_path)
    for _ in range(2):
        with pytest.raises(UserError, match=says), start(tmp_path):
            pass
    assert files_in(tmp_path) == {".lock": b"", **before}


def test_a_directory_that_was_refused_serves_again_when_its_metadata_are_back(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    fill(data_dir, "orders")
    (data_dir / "__metadata").rename(tmp_path / "backup")
    with pytest.raises(UserError), start(data_dir):
        pass
    (tmp_path / "backup").rename(data_dir / "__metadata")
    with start(data_dir) as broker, RawClient(broker.bootstrap_servers) as client:
        assert values(client, "orders") == [b"orders"]


def test_a_directory_of_an_earlier_version_opens_and_says_from_then_on_whose_it_is(tmp_path: Path) -> None:
    fill(tmp_path, "orders")
    meta = tmp_path / "meta.properties"
    stated = meta.read_text()
    assert "penstock.metadata=embedded\n" in stated
    meta.write_text(stated.replace("penstock.metadata=embedded\n", ""))
    with start(tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
        assert values(client, "orders") == [b"orders"]
    assert meta.read_text() == stated


def test_a_directory_beside_others_data_directories_can_be_used(tmp_path: Path) -> None:
    """`--data-dir .` beside `data-1/`."""
    fill(tmp_path / "data-1", "orders")
    before = files_in(tmp_path / "data-1")
    with start(tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
        client.create_topic("data", partitions=1)
    assert files_in(tmp_path / "data-1") == before


def test_a_file_that_has_the_name_of_a_new_partition_is_renamed(tmp_path: Path) -> None:
    put(tmp_path, {"orders-0": b"in the way"})
    with start(tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
        client.create_topic("orders")
        assert client.produce("orders", batch_of(b"x")).error_code == ErrorCode.NONE
    (aside,) = tmp_path.glob("orders-0.*-stray")
    assert aside.read_bytes() == b"in the way"
