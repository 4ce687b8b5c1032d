"""Whatever is put, rolled, compacted and crashed: a compacted log still gives the newest value of every key.

Whatever a consumer reads is a record that was written, at its own offset; and once everything is compacted and no
tombstone is left waiting, there is one record for each key.
"""

from contextlib import suppress
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.records.compression import Codec
from penstock.records.record import Record
from penstock.sim.disk import SimDisk
from penstock.sim.disk_faults import Revoked
from penstock.storage.log import LogConfig
from tests.storage.compacting import put, records_of, run_compaction, table_of
from tests.storage.helpers import NOW_MS, RememberedProducers, create_log, open_log, sync

CONFIG = LogConfig(
    compact=True, delete=False, segment_bytes=1200, index_interval_bytes=150, delete_retention_ms=1000
)

KEYS = st.integers(0, 6).map(lambda number: f"key{number}")
PAIRS = st.lists(st.tuples(KEYS, st.one_of(st.none(), st.text("ab", max_size=40))), min_size=1, max_size=5)
PUT = st.tuples(st.just("put"), PAIRS, st.sampled_from([-1, 3, 4]), st.sampled_from(list(Codec)))
STEP = st.one_of(
    PUT,
    PUT,
    st.tuples(st.just("roll")),
    st.tuples(st.just("wait"), st.integers(1, 1500)),
    st.tuples(st.just("compact"), st.integers(400, 5000)),
    st.tuples(st.just("crash"), st.integers(0, 60), st.booleans(), st.integers(0, 1 << 32)),
)


@settings(max_examples=120, deadline=None)
@given(steps=st.lists(STEP, max_size=40))
def test_a_compacted_log_is_still_the_same_table(steps: list[tuple]) -> None:  # type: ignore[type-arg]
    machine = SimDisk(Random(0), page_bytes=64)
    disk = machine.mount()
    producers = RememberedProducers()
    log = create_log(disk, CONFIG, producers)
    sync(log, disk)
    written: dict[int, Record] = {}
    table: dict[bytes, bytes] = {}
    cleaner_offset = 0
    now_ms = NOW_MS

    def check() -> None:
        assert table_of(log) == table
        for record in records_of(log):
            assert written[record.offset] == record

    for step in steps:
        if step[0] == "put":
            _, pairs, producer_id, codec = step
            for index, (key, value) in enumerate(pairs):
                raw_key, raw_value = key.encode(), None if value is None else value.encode()
                offset = log.end_offset + index
                written[offset] = Record(offset, now_ms, raw_key, raw_value, ())
                table.pop(raw_key, None)
                if raw_value is not None:
                    table[raw_key] = raw_value
            put(log, *pairs, producer_id=producer_id, codec=codec, timestamp=now_ms)
        elif step[0] == "roll":
            log.roll(now_ms=now_ms)
        elif step[0] == "wait":
            now_ms += step[1]
        elif step[0] == "compact":
            cleaner_offset = _compact(log, disk, cleaner_offset, now_ms, map_bytes_max=step[1])
            check()
        else:
            _, operations, is_machine, seed = step
            sync(log, disk)
            recovery_point, remembered = log.recovery_point, producers.entries()
            machine.faults.strike_after(operations, machine.crash_process)
            with suppress(Revoked):  # a run that crashes does not write down how far it came
                cleaner_offset = _compact(log, disk, cleaner_offset, now_ms, map_bytes_max=5000)
            machine.random.seed(seed)
            if is_machine:
                machine.crash_machine()
            disk = machine.mount()
            producers = RememberedProducers()
            log, report = open_log(disk, CONFIG, producers, recovery_point=recovery_point)
            assert report.damage == []
            assert producers.entries() == remembered
            check()

    check()
    log.roll(now_ms=now_ms)
    for _ in range(3):
        now_ms += CONFIG.delete_retention_ms
        put(log, ("last", "x"), timestamp=now_ms)
        written[log.end_offset - 1] = Record(log.end_offset - 1, now_ms, b"last", b"x", ())
        table[b"last"] = b"x"
        log.roll(now_ms=now_ms)
        cleaner_offset = _compact(log, disk, cleaner_offset, now_ms, map_bytes_max=1 << 20)
        check()
    assert len(records_of(log)) == len(table)


def _compact(log, disk, cleaner_offset, now_ms, *, map_bytes_max):  # type: ignore[no-untyped-def]
    if cleaner_offset >= log.segments[-1].base_offset:
        return cleaner_offset
    result = run_compaction(
        log, disk, cleaner_offset=cleaner_offset, now_ms=now_ms, map_bytes_max=map_bytes_max
    )
    assert result is not None
    return result.end_offset
