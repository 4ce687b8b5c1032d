"""`.option("path", ...)`: what lies in a log directory, without a broker, equals what a broker shows."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from peers.kafka import ApacheKafka
from penstock.client.producer import NewRecord
from penstock.records.compression import Codec
from penstock.testing import EmbeddedBroker
from tests.spark.writing import Topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.xdist_group("spark")

Read = Callable[..., "DataFrame"]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def stored(directory: Path) -> Iterator[EmbeddedBroker]:
    """A broker whose data is on disk."""
    with EmbeddedBroker(data_dir=directory) as running:
        yield running


@pytest.fixture
def topics(stored: EmbeddedBroker) -> Topics:
    return Topics(stored.bootstrap_servers)


@pytest.fixture
def offline(spark: "SparkSession", directory: Path) -> Read:
    def load(path: object = directory, **options: Any) -> "DataFrame":
        reader = spark.read.format("penstock").option("path", str(path))
        for name, value in options.items():
            reader = reader.option(name.replace("__", "."), value)
        return reader.load()

    return load


ACTIVE = {"penstock__include__active__segment": "true"}


def values(frame: "DataFrame") -> list[str]:
    return [
        bytes(row.value).decode()
        for row in frame.select("value", "partition", "offset").orderBy("partition", "offset").collect()
    ]


def segments(directory: Path, topic: str, partition: int = 0) -> list[Path]:
    return sorted((directory / f"{topic}-{partition}").glob("*.log"))


def write_segments(topics: Topics, topic: str, count: int, *, partitions: int = 1) -> list[str]:
    """A batch per segment, and values to be read; the last one is in the active segment."""
    topics.create(topic, partitions, segment_bytes="1048576")
    written = [f"{n:03}" + "x" * 600_000 for n in range(count)]
    for value in written:
        topics.write_values(topic, [value])
    return written


def test_closed_segments_are_read_in_parallel_and_the_active_one_if_asked(
    topics: Topics, topic: str, directory: Path, offline: Read
) -> None:
    written = write_segments(topics, topic, 4)
    assert len(segments(directory, topic)) == 4
    closed = offline()
    assert values(closed) == written[:3]
    assert closed.rdd.getNumPartitions() == 3
    assert values(offline(**ACTIVE)) == written


def test_columns_compressions_headers_and_nulls_are_as_a_broker_shows_them(
    topics: Topics, topic: str, offline: Read, spark: "SparkSession", stored: EmbeddedBroker
) -> None:
    topics.create(topic, 2)
    for number, codec in enumerate(Codec):
        records = [
            NewRecord(
                b"k%d" % n if n % 2 else None,
                b"v%d" % n if n % 3 else None,
                (("h", b"1"),),
                1000 + n,
                number % 2,
            )
            for n in range(20)
        ]
        topics.write(topic, records, codec=codec)
    there = offline(includeHeaders="true", **ACTIVE).collect()
    shown = (
        spark.read.format("penstock")
        .option("kafka.bootstrap.servers", stored.bootstrap_servers)
        .option("subscribe", topic)
        .option("includeHeaders", "true")
        .load()
        .collect()
    )
    assert len(there) == 20 * len(Codec)
    assert sorted(map(repr, there)) == sorted(map(repr, shown))


def test_aborted_and_open_transactions_are_not_shown_wherever_they_end(
    topics: Topics, topic: str, directory: Path, offline: Read
) -> None:
    topics.create(topic, segment_bytes="1048576")
    long = "x" * 250_000
    topics.transact(topic, ["aborted", *(f"aborted {long}" for _ in range(4))], commit=False)
    topics.transact(topic, ["kept", *(f"kept {long}" for _ in range(2))], commit=True)
    topics.transact(topic, ["open", f"open {long} {long}"], commit=None)
    topics.write_values(topic, [f"behind {long} {long}"])
    assert len(segments(directory, topic)) > 2
    assert [each.split()[0] for each in values(offline(**ACTIVE))] == ["kept"] * 3
    everything = values(offline(kafka__isolation__level="read_uncommitted", **ACTIVE))
    assert [each.split()[0] for each in everything] == [
        *["aborted"] * 5,
        *["kept"] * 3,
        "open",
        "open",
        "behind",
    ]


def test_offsets_times_and_filters_narrow_what_is_read(topics: Topics, topic: str, offline: Read) -> None:
    topics.create(topic, 2)
    for partition in range(2):
        topics.write(topic, [NewRecord(None, b"%d" % n, (), 1000 * n, partition) for n in range(10)])
    some = offline(
        startingOffsets=f'{{"{topic}": {{"0": 2, "1": -2}}}}',
        endingOffsets=f'{{"{topic}": {{"0": 4, "1": 1}}}}',
        **ACTIVE,
    )
    assert values(some) == ["2", "3", "0"]
    assert values(offline(startingTimestamp="7500", endingTimestamp="9000", **ACTIVE)) == ["8", "8"]
    assert values(offline(**ACTIVE).where("partition = 1 and offset >= 8")) == ["8", "9"]
    assert values(offline(assign=f'{{"{topic}": [1]}}', **ACTIVE).where("offset < 1")) == ["0"]


def test_a_log_begins_where_its_records_were_deleted(
    topics: Topics, topic: str, offline: Read, stored: EmbeddedBroker
) -> None:
    topics.create(topic)
    topics.write_values(topic, ["a", "b", "c"])
    topics.cut(topic, 0, 2)
    stored.stop()
    assert values(offline(**ACTIVE)) == ["c"]
    from_start = {"startingOffsets": f'{{"{topic}": {{"0": 0}}}}', **ACTIVE}
    with pytest.raises(Exception, match="data is lost: offsets 0 to 1 of topic"):
        offline(**from_start).collect()
    assert values(offline(failOnDataLoss="false", **from_start)) == ["c"]


def test_a_torn_tail_is_left_out_and_damage_in_the_middle_is_named(
    topics: Topics, topic: str, directory: Path, offline: Read, stored: EmbeddedBroker
) -> None:
    written = write_segments(topics, topic, 3)
    stored.stop()
    first, _, active = segments(directory, topic)
    with active.open("ab") as file:
        file.write(active.read_bytes()[:100])
    assert values(offline(**ACTIVE)) == written
    content = bytearray(first.read_bytes())
    content[100] ^= 1
    first.write_bytes(content)
    with pytest.raises(
        Exception, match=rf"{first} is damaged at position 0: wrong CRC of the batch at offset 0"
    ):
        offline().collect()


def test_a_segment_that_goes_while_it_is_read_is_data_lost(
    topics: Topics, topic: str, directory: Path, spark: "SparkSession", stored: EmbeddedBroker
) -> None:
    from penstock.spark.columns import schema_of
    from penstock.spark.offline import OfflineReader
    from penstock.spark.options import read_settings

    written = write_segments(topics, topic, 3)
    schema = schema_of(include_headers=False)
    for fail in ("true", "false"):
        reader = OfflineReader(schema, read_settings({"path": str(directory), "failOnDataLoss": fail}))
        planned = reader.partitions()
        first = segments(directory, topic)[0]
        gone = first.rename(f"{first}.gone")
        if fail == "true":
            with pytest.raises(Exception, match="data is lost: offsets 0 to 0 of topic"):
                list(reader.read(planned[0]))
            gone.rename(first)
        else:
            assert list(reader.read(planned[0])) == []
    first.with_name(gone.name).rename(f"{first}.deleted")  # as a broker does before it deletes
    (batch,) = reader.read(planned[0])
    assert batch.column("value")[0].as_py().decode() == written[0]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"path": "/nowhere"}, "path /nowhere is no directory"),
        ({"subscribe": "orderz"}, "there is no topic orderz in .*; did you mean orders"),
        ({"assign": '{"orders": [3]}'}, "assign names orders-3, which is not in"),
    ],
)
def test_what_is_not_there_is_said_so(
    topics: Topics, offline: Read, options: dict[str, str], told: str
) -> None:
    topics.create("orders")
    with pytest.raises(Exception, match=told):
        offline(**options).collect()


def test_a_partitions_folder_is_no_log_directory(topics: Topics, directory: Path, offline: Read) -> None:
    topics.create("orders")
    with pytest.raises(Exception, match=f"is no log directory: .*did you mean {directory}"):
        offline(directory / "orders-0").collect()


def test_a_stream_is_refused(spark: "SparkSession", tmp_path: Path) -> None:
    stream = spark.readStream.format("penstock").option("path", str(tmp_path)).load()
    with pytest.raises(Exception, match="path is for batch reads"):
        stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).trigger(
            availableNow=True
        ).start().awaitTermination()


@pytest.mark.foreign
@pytest.mark.needs("kafka")
def test_a_directory_of_apache_kafka_is_read(offline: Read, topic: str) -> None:
    with ApacheKafka() as kafka:
        topics = Topics(kafka.bootstrap)
        topics.create(topic, segment_bytes="1048576")
        for codec in Codec:
            topics.write(topic, [NewRecord(None, b"plain " + codec.name.encode())], codec=codec)
        topics.transact(topic, ["aborted"], commit=False)
        topics.transact(topic, ["committed"], commit=True)
        for n in range(3):
            topics.write_values(topic, [f"large {n} " + "x" * 600_000])
        kafka.stop()
        expected = [f"plain {codec.name}" for codec in Codec] + ["committed"]
        closed = values(offline(kafka.data))
        assert closed[: len(expected)] == expected
        assert [each[:7] for each in closed[len(expected) :]] == ["large 0", "large 1"]
        everything = values(offline(kafka.data, subscribe=topic, **ACTIVE))
        assert [each[:7] for each in everything[len(expected) :]] == ["large 0", "large 1", "large 2"]
