"""The number of open files is bounded, whatever the number of partitions."""

import threading
from pathlib import Path

import psutil

from penstock.testing import EmbeddedBroker
from tests.apis.requests import end_offset, values_in
from tests.raw_client import RawClient, batch_of

PARTITIONS = 500
OPEN_FILES_MAX = 64


def files_below(directory: Path) -> int:
    """Open descriptors of this process that point into `directory`."""
    count = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            count += str(descriptor.readlink()).startswith(str(directory))
        except OSError:
            continue  # closed meanwhile
    return count


def test_open_files_stay_bounded_with_many_partitions(tmp_path: Path):
    settings = {"penstock.open.files.max": OPEN_FILES_MAX}
    # Beside them: the lock, the metadata store, and what is being written right now.
    allowed = OPEN_FILES_MAX + 16
    with (
        EmbeddedBroker(data_dir=tmp_path, settings=settings) as broker,
        RawClient(broker.bootstrap_servers) as client,
    ):
        client.create_topic("many", partitions=PARTITIONS)
        assert files_below(tmp_path) <= allowed
        for partition in range(PARTITIONS):
            assert client.produce("many", batch_of(b"%d" % partition), partition=partition).base_offset == 0
        assert files_below(tmp_path) <= allowed
        for partition in range(PARTITIONS):
            found = client.fetch("many", 0, partition=partition)
            assert values_in(found.records) == [b"%d" % partition]
        assert files_below(tmp_path) <= allowed
    with (
        EmbeddedBroker(data_dir=tmp_path, settings=settings) as broker,
        RawClient(broker.bootstrap_servers) as client,
    ):
        assert files_below(tmp_path) <= allowed
        assert end_offset(client, "many", PARTITIONS - 1) == 1
    assert files_below(tmp_path) == 0


def test_a_stopped_broker_leaves_no_file_socket_or_thread_behind(tmp_path: Path):
    process = psutil.Process()
    with EmbeddedBroker(data_dir=tmp_path):
        pass  # what the first one loads stays loaded
    before = process.num_fds(), threading.active_count()
    for number in range(3):
        with EmbeddedBroker(data_dir=tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
            client.create_topic(f"t{number}")
            client.produce(f"t{number}", batch_of(b"x"))
    assert (process.num_fds(), threading.active_count()) <= before
