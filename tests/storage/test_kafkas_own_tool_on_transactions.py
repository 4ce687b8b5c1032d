"""Apache Kafka's DumpLogSegments reads what transactions leave on disk: markers, indexes, snapshots."""

from pathlib import Path

import pytest

from penstock.world.real_disk import RealDisk
from tests.storage.helpers import NOW_MS, PATH, close_cleanly
from tests.storage.test_kafkas_own_tool import dump
from tests.storage.test_transaction_index import ABORT, COMMIT, TransactionalLog

pytestmark = [pytest.mark.foreign, pytest.mark.needs("kafka")]


def test_kafka_reads_markers_aborted_transactions_and_open_ones(tmp_path: Path) -> None:
    disk = RealDisk(str(tmp_path))
    written = TransactionalLog(disk)
    written.write(3)
    written.mark(ABORT, 3)
    written.write(4)
    written.mark(COMMIT, 4)
    written.log.roll(now_ms=NOW_MS)
    written.write(5)
    close_cleanly(written.log, disk)
    files = sorted(path for path in (tmp_path / PATH).iterdir() if path.suffix != ".metadata")
    shown = dump("--deep-iteration", "--files", ",".join(str(path) for path in files if path.name[0] == "0"))
    assert "version: 0 producerId: 3 firstOffset: 0 lastOffset: 1 lastStableOffset: 2" in shown
    assert "endTxnMarker: ABORT" in shown
    assert "endTxnMarker: COMMIT" in shown
    assert "isvalid: false" not in shown
    (still_open,) = [
        line for line in shown.splitlines() if line.startswith("producerId: 5 ") and "currentTxn" in line
    ]
    assert "currentTxnFirstOffset: 4" in still_open or "currentTxnFirstOffset: OptionalLong[4]" in still_open
