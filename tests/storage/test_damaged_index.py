"""An index has no checksum. One that is damaged may cost a walk through its segment, and hides nothing."""

import struct

import pytest

from penstock.storage import names
from penstock.storage.log import LogConfig
from penstock.world.memory_disk import MemoryDisk
from tests.storage.helpers import NOW_MS, append, batch, close_cleanly, create_log, open_log, read_all

ENTRY = struct.Struct(">iI")  # relative offset, position
CONFIG = LogConfig(index_interval_bytes=1)


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(lambda offset, position: (0, position), id="an offset too low"),
        pytest.param(lambda offset, position: (offset, position + (1 << 20)), id="a position behind the end"),
    ],
)
def test_every_batch_is_found_whatever_the_index_says(wrong: object) -> None:
    disk = MemoryDisk()
    log = create_log(disk, config=CONFIG)
    written = [append(log, batch(values=[b"value %d" % number], base_offset=number)) for number in range(4)]
    log.roll(now_ms=NOW_MS)
    close_cleanly(log, disk)
    path = f"{log.path}/{names.file_name(0, names.INDEX)}"
    file = disk.open(path)
    entries = list(ENTRY.iter_unpack(file.read(0, file.size)))
    assert entries
    file.truncate(0)
    file.append([ENTRY.pack(*wrong(*entries[0])), *(ENTRY.pack(*entry) for entry in entries[1:])])  # type: ignore[operator]
    file.close()
    log, _ = open_log(disk, config=CONFIG, recovery_point=4, clean=True)
    for offset in range(4):
        assert read_all(log, start=offset)[0] == written[offset]
