from pathlib import Path

from penstock.testing import EmbeddedBroker
from penstock.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from tests.raw_client import RawClient, batch_of


def sizes(result) -> dict[tuple[str, int], int]:
    return {
        (topic.name, p.partition_index): p.partition_size for topic in result.topics for p in topic.partitions
    }


def test_each_partition_is_as_large_as_its_batches(client: RawClient, topic: str):
    client.create_topic(topic, partitions=2)
    batch = batch_of(b"x" * 100)
    client.produce(topic, batch, partition=1)
    client.produce(topic, batch, partition=1)
    (result,) = client.ask(DescribeLogDirsRequest(topics=None), 4).results
    assert result.error_code == 0
    found = sizes(result)
    assert (found[topic, 0], found[topic, 1]) == (0, 2 * len(batch))


def test_only_the_requested_partitions_are_described(client: RawClient, topic: str):
    client.create_topic(topic, partitions=3)
    asked = [
        DescribableLogDirTopic(topic=topic, partitions=[0, 2, 9]),
        DescribableLogDirTopic(topic="nobody", partitions=[0]),
    ]
    (result,) = client.ask(DescribeLogDirsRequest(topics=asked), 4).results
    assert set(sizes(result)) == {(topic, 0), (topic, 2)}


def test_the_log_directory_is_described_with_its_free_bytes(tmp_path: Path):
    with EmbeddedBroker(data_dir=tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
        (result,) = client.ask(DescribeLogDirsRequest(topics=None), 4).results
        assert result.log_dir == str(tmp_path)
        assert 0 < result.usable_bytes <= result.total_bytes
