"""Apache Kafka's DumpLogSegments reads every file a log writes: ordinary, compacted and recovered ones."""

import subprocess
from pathlib import Path

import pytest

from peers import tools
from penstock.records.compression import Codec
from penstock.storage import file_names
from penstock.storage.log import Log, LogConfig
from penstock.storage.log_factory import create_log, open_log
from penstock.world.real_disk import RealDisk
from tests.storage.compacting import run_compaction
from tests.storage.helpers import (
    NOW_MS,
    TOPIC_ID,
    RememberedProducers,
    append,
    batch,
    close_cleanly,
)

pytestmark = [pytest.mark.foreign, pytest.mark.needs("kafka")]

DUMP = "org.apache.kafka.tools.DumpLogSegments"


def write(disk: RealDisk, path: str, config: LogConfig, *, count: int = 200) -> tuple[Log, int]:
    """A log with all codecs, some producers, timestamps that go back and forth, and deletions."""
    log = create_log(
        disk, path, topic_id=TOPIC_ID, config=config, producers=RememberedProducers(), now_ms=NOW_MS
    )
    records = 0
    for number in range(count):
        size = 1 + number % 5
        append(
            log,
            batch(
                log.end_offset,
                size,
                timestamp=NOW_MS + number * 10 - number % 7 * 100,
                step_ms=3,
                codec=Codec(number % 5),
                producer_id=number % 4 - 1,
                sequence=number if number % 4 else -1,
                epoch=number // 50,
                keys=[b"key%d" % (number * 7 % 40 + index) for index in range(size)],
                values=[None if number % 9 == index else b"v" * (number % 300) for index in range(size)],
            ),
        )
        records += size
    return log, records


def recover(disk: RealDisk, path: str, config: LogConfig) -> Log:
    log, _ = open_log(
        disk,
        path,
        config=config,
        producers=RememberedProducers(),
        recovery_point=0,
        log_start_offset=0,
        clean=False,
        now_ms=NOW_MS,
    )
    return log


def dump(*arguments: str) -> str:
    classpath = f"{tools.locate('kafka')}/*"
    command = [tools.java(), "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", classpath, DUMP, *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_kafka_accepts_ordinary_compacted_and_recovered_logs(tmp_path: Path) -> None:
    disk = RealDisk(str(tmp_path))
    config = LogConfig(segment_bytes=20_000, index_interval_bytes=500)
    compacted = LogConfig(segment_bytes=20_000, index_interval_bytes=500, compact=True)

    ordinary, ordinary_records = write(disk, "ordinary-0", config)
    close_cleanly(ordinary, disk)

    cleaned, cleaned_records = write(disk, "compacted-0", compacted)
    cleaned.roll(now_ms=NOW_MS)
    result = run_compaction(cleaned, disk)
    assert result is not None
    assert result.records_removed
    for deletion in cleaned.due_deletions(NOW_MS + 1_000_000):
        deletion.run(disk)
    close_cleanly(cleaned, disk)

    torn, torn_records = write(disk, "recovered-0", config)
    torn.close()
    last = torn.segments[-1]
    with (tmp_path / last.path(file_names.LOG)).open("r+b") as file:
        file.truncate(last.size - 1)
    for index_file in (tmp_path / "recovered-0").glob("*index"):
        index_file.unlink()
    recovered = recover(disk, "recovered-0", config)
    lost_records = torn.end_offset - recovered.end_offset
    assert lost_records
    close_cleanly(recovered, disk)

    paths = [str(path) for path in sorted(tmp_path.glob("*-0/*")) if path.suffix in _SHOWN]
    assert len(paths) > 20
    shown = dump("--deep-iteration", "--files", ",".join(paths))
    assert shown.count("| offset: ") == (
        ordinary_records + cleaned_records - result.records_removed + torn_records - lost_records
    )
    assert "isvalid: false" not in shown
    assert "invalid bytes" not in shown
    # "-1 is followed by <base>" is what the tool says of any segment that does not begin at 0.
    complaints = [line for line in shown.splitlines() if line.startswith(_COMPLAINTS)]
    assert complaints == []

    indexes = [path for path in paths if path.endswith("index")]
    checked = dump("--index-sanity-check", "--files", ",".join(indexes))
    assert checked.count("passed sanity check.") + checked.count("is empty.") == len(indexes)
    assert checked.count("is empty.") < 3


_SHOWN = (file_names.LOG, file_names.INDEX, file_names.TIME_INDEX, file_names.SNAPSHOT)
_COMPLAINTS = (
    "Mismatches in",
    "Found timestamp mismatch",
    "Found out of order timestamp",
    "The following indexed offsets are not found",
    "Exception",
)
