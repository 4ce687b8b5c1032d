"""Whatever is done to a log, and however it crashes, it holds what a list of batches says it should.

After a process crash nothing is lost. After a machine crash what was synced is there, byte for byte; of the rest any
part may be missing, but what can be read is what was written, and nothing missing is jumped over silently.
"""

from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.records.batch import headers, read_header
from penstock.records.compression import Codec
from penstock.records.record import read_records
from penstock.sim.disk import SimDisk
from penstock.storage.errors import CorruptionError
from penstock.storage.log import Log, LogConfig, SyncPlan
from penstock.storage.truncation import end_after_truncation
from tests.storage.helpers import (
    NOW_MS,
    PATH,
    RememberedProducers,
    batch,
    create_log,
    open_log,
    placed,
)


class LogAgainstAList(RuleBasedStateMachine):
    """One log on a disk that crashes, and everything that was ever appended to it."""

    @initialize(
        segment_bytes=st.sampled_from([400, 1500, 6000]),
        index_interval_bytes=st.sampled_from([0, 150, 1000]),
        segment_index_bytes=st.sampled_from([36, 200, 1 << 20]),
        retention_bytes=st.sampled_from([-1, 800, 5000]),
        page_bytes=st.sampled_from([64, 512]),
    )
    def begin(
        self,
        segment_bytes: int,
        index_interval_bytes: int,
        segment_index_bytes: int,
        retention_bytes: int,
        page_bytes: int,
    ) -> None:
        self.machine = SimDisk(Random(0), page_bytes=page_bytes)
        self.disk = self.machine.mount()
        self.config = LogConfig(
            segment_bytes=segment_bytes,
            index_interval_bytes=index_interval_bytes,
            segment_index_bytes=segment_index_bytes,
            retention_bytes=retention_bytes,
            retention_ms=-1,
        )
        self.producers = RememberedProducers()
        self.log: Log = create_log(self.disk, self.config, self.producers)
        self.written: dict[int, list[bytes]] = {}  # by base offset: everything ever appended there
        self.batches: list[bytes] = []  # what the log should hold, in order
        self.damaged: list[tuple[int, int]] = []  # ranges of offsets that have to be refused
        self.end = 0
        self.epoch = 0
        self.clock_ms = NOW_MS
        self.synced_upto = 0
        self.checkpoint = 0
        self.start_checkpoint = 0
        self.plan: SyncPlan | None = None
        self.sync(checkpoint=True)

    # ---- what is done to the log

    @rule(
        counts=st.lists(st.integers(1, 4), min_size=1, max_size=4),
        size=st.integers(0, 300),
        codec=st.sampled_from([Codec.NONE, Codec.NONE, Codec.LZ4, Codec.ZSTD]),
        producer_id=st.sampled_from([-1, -1, 5, 6]),
        timestamp_shift=st.integers(-50, 50),
    )
    def append(
        self, counts: list[int], size: int, codec: Codec, producer_id: int, timestamp_shift: int
    ) -> None:
        new = []
        for count in counts:
            self.clock_ms += 10
            data = batch(
                self.end,
                count,
                timestamp=self.clock_ms + timestamp_shift,
                step_ms=3,
                size=size,
                codec=codec,
                epoch=self.epoch,
                producer_id=producer_id,
                sequence=self.end if producer_id >= 0 else -1,
            )
            new.append(data)
            self.written.setdefault(self.end, []).append(data)
            self.end += count
        self.log.append([placed(data) for data in new], now_ms=self.clock_ms)
        self.batches += new

    @rule()
    def roll(self) -> None:
        self.log.roll(now_ms=self.clock_ms)

    @rule()
    def begin_an_epoch(self) -> None:
        self.epoch += 1

    @rule(checkpoint=st.booleans())
    def sync(self, checkpoint: bool) -> None:
        plan = self.log.unsynced()
        plan.run(self.disk)
        self.log.synced(plan)
        self.synced_upto = self.log.recovery_point
        assert self.synced_upto == self.end
        if checkpoint:
            self.write_checkpoint()

    @rule()
    def start_a_sync(self) -> None:
        self.plan = self.log.unsynced()
        self.plan.run(self.disk)

    @precondition(lambda self: self.plan is not None)
    @rule()
    def finish_the_sync(self) -> None:
        assert self.plan is not None
        self.log.synced(self.plan)
        self.synced_upto = self.log.recovery_point
        self.plan = None

    @rule()
    def write_checkpoint(self) -> None:
        self.checkpoint = self.log.checkpoint_offset
        self.start_checkpoint = self.log.start_offset

    @precondition(lambda self: not self.damaged)
    @rule(where=st.floats(0, 1))
    def truncate(self, where: float) -> None:
        first = self.log.start_offset
        offset = first + int((self.end - first) * where)
        end = end_after_truncation(self.log, offset)
        self.checkpoint = min(self.checkpoint, end)  # goes down before the cut
        self.start_checkpoint = min(self.start_checkpoint, end)
        self.log.truncate_to(offset)
        self.batches = [data for data in self.batches if read_header(data).last_offset < offset]
        self.end = self.log.end_offset
        assert self.end == end == (read_header(self.batches[-1]).next_offset if self.batches else end)
        self.synced_upto = min(self.synced_upto, self.end)

    @rule(where=st.floats(0, 1))
    def delete_records(self, where: float) -> None:
        offset = self.log.start_offset + int((self.end - self.log.start_offset) * where)
        self.log.advance_start_offset(offset)
        self.write_checkpoint()

    @rule(remove=st.booleans())
    def enforce_retention(self, remove: bool) -> None:
        new_start = self.log.expire(self.clock_ms)
        if new_start is not None:
            self.start_checkpoint = self.log.start_offset  # goes up before the segments go
            self.log.delete_segments_below(new_start, now_ms=self.clock_ms)
        assert self.log.size <= max(self.config.retention_bytes, 0) + self.config.segment_bytes + 2000 or (
            self.config.retention_bytes < 0
        )
        self.forget_before(self.log.segments[0].base_offset)
        if remove:
            for deletion in self.log.due_deletions(self.clock_ms + self.config.file_delete_delay_ms):
                deletion.run(self.disk)

    def forget_before(self, offset: int) -> None:
        self.batches = [data for data in self.batches if read_header(data).base_offset >= offset]
        self.damaged = [(first, last) for first, last in self.damaged if last > offset]

    # ---- stops and starts

    @rule()
    def restart_cleanly(self) -> None:
        self.log.finish()
        self.sync(checkpoint=True)
        self.log.close()
        problems = self.reopen(clean=True)
        assert problems == [] or self.damaged or self.is_damaged_below_the_start()
        self.expect_exactly()

    @rule()
    def crash_the_process(self) -> None:
        self.machine.crash_process()
        self.disk = self.machine.mount()
        self.reopen(clean=False)
        self.expect_exactly()

    @rule(seed=st.integers(0, 1 << 32))
    def crash_the_machine(self, seed: int) -> None:
        start = self.log.start_offset
        self.machine.random.seed(seed)
        self.machine.crash_machine()
        self.disk = self.machine.mount()
        self.reopen(clean=False)
        self.accept_what_is_left(start)

    def reopen(self, *, clean: bool) -> list[str]:
        self.plan = None
        self.producers = RememberedProducers()
        self.log, report = open_log(
            self.disk,
            self.config,
            self.producers,
            recovery_point=self.checkpoint,
            log_start_offset=self.start_checkpoint,
            clean=clean,
        )
        return report.problems()

    def expect_exactly(self) -> None:
        assert self.log.end_offset == self.end
        self.synced_upto = self.log.recovery_point
        self.check_state()

    def accept_what_is_left(self, start: int) -> None:
        """Go on with what the machine crash left, if that is something it may leave."""
        log = self.log
        assert log.start_offset >= start, "what was deleted stays deleted, and its offsets stay given out"
        ends = [read_header(data).next_offset for data in self.batches]
        assert log.end_offset >= max((end for end in ends if end <= self.synced_upto), default=0)
        current = {read_header(data).base_offset: data for data in self.batches}
        known_damage, self.damaged = self.damaged, []
        self.batches = []
        offset = log.start_offset
        while offset < log.end_offset:
            try:
                data = log.read(offset, max_bytes=1, upto_offset=log.end_offset)
            except CorruptionError:
                assert not start <= offset < self.synced_upto or _holds(known_damage, offset)
                after = self.next_readable(offset)
                self.damaged.append((offset, after))
                offset = after
                continue
            assert data
            header = read_header(data)
            base = header.base_offset
            assert base == offset or base < offset == log.start_offset, "nothing is jumped over"
            if offset < self.synced_upto and base in current:
                assert data == current[base]
            assert data in self.written[base]
            self.batches.append(bytes(data))
            offset = header.next_offset
        assert offset == log.end_offset
        self.end = offset
        self.synced_upto = log.recovery_point
        self.epoch = max([self.epoch, *(read_header(data).leader_epoch for data in self.batches)])
        self.check_state()

    def next_readable(self, offset: int) -> int:
        while offset < self.log.end_offset:
            offset += 1
            try:
                self.log.read(offset, max_bytes=1, upto_offset=self.log.end_offset)
            except CorruptionError:
                continue
            break
        return offset

    def check_state(self) -> None:
        known = RememberedProducers()
        for data in self.batches:
            header = read_header(data)
            if header.base_offset < self.log.start_offset:
                continue  # deleted; a crash may have brought it back, and it is not asked for
            assert self.log.epochs.epoch_at(header.base_offset) == header.leader_epoch
            if header.has_producer:
                known.replay(header)
        restored = {entry.producer_id: entry for entry in self.producers.entries()}
        for entry in known.entries():
            found = restored[entry.producer_id]
            # A snapshot may know of a later batch that is damaged now.
            assert found == entry or (self.damaged and found.last_offset > entry.last_offset)

    def is_damaged_below_the_start(self) -> bool:
        """Whether a crash took batches below the log start from the first segment; recovery reports that, too."""
        first = self.log.segments[0]
        data = self.machine.content(f"{PATH}/{first.base_offset:020}.log")
        offset, position = first.base_offset, 0
        while offset < self.log.start_offset:
            found = next(
                (each for each in self.written.get(offset, ()) if data.startswith(each, position)), None
            )
            if found is None:
                return True
            offset, position = read_header(found).next_offset, position + len(found)
        return False

    # ---- what can be asked

    @rule(where=st.floats(0, 1), upto=st.floats(0, 1), max_bytes=st.integers(0, 3000), whole=st.booleans())
    def read(self, where: float, upto: float, max_bytes: int, whole: bool) -> None:
        log = self.log
        offset = log.start_offset + int((self.end - log.start_offset) * where)
        upto_offset = offset + int((self.end - offset) * upto)
        try:
            data = log.read(offset, max_bytes=max_bytes, upto_offset=upto_offset, whole_first_batch=whole)
        except CorruptionError:
            assert self.is_damaged(offset)
            return
        assert data is not None
        expected = [
            candidate
            for candidate in self.batches
            if offset <= read_header(candidate).last_offset < upto_offset
        ]
        if not data:
            assert not expected or (len(expected[0]) > max_bytes and not whole)
            return
        assert not self.is_damaged(offset)
        found = [bytes(data[position : position + header.size]) for position, header in headers(data)]
        assert found == expected[: len(found)]
        if len(found) == 0 or len(expected[0]) > max_bytes:
            assert whole
            assert found == expected[:1]
        else:
            assert len(data) <= max(max_bytes, 12)

    def is_damaged(self, offset: int) -> bool:
        return _holds(self.damaged, offset)

    @precondition(lambda self: not self.damaged)
    @rule(shift=st.integers(-200, 300), newest=st.booleans())
    def look_up_a_timestamp(self, shift: int, newest: bool) -> None:
        records = [
            record
            for data in self.batches
            for record in read_records(data, limit=1 << 20)
            if record.offset >= self.log.start_offset
        ]
        if newest:
            timestamp = max((record.timestamp for record in records), default=NOW_MS)
            found = self.log.offset_of_max_timestamp()
        else:
            timestamp = (records[0].timestamp if records else NOW_MS) + shift
            found = self.log.offset_for_timestamp(timestamp)
        expected = next((record for record in records if record.timestamp >= timestamp), None)
        assert (found and found.offset) == (expected and expected.offset)
        if expected is not None and found is not None:
            assert found.timestamp == expected.timestamp

    @invariant()
    def ends_agree(self) -> None:
        assert self.log.end_offset == self.end
        assert self.log.size == sum(segment.size for segment in self.log.segments)
        assert self.log.start_offset <= self.end


def _holds(ranges: list[tuple[int, int]], offset: int) -> bool:
    return any(first <= offset < last for first, last in ranges)


LogAgainstAList.TestCase.settings = settings(
    max_examples=200, stateful_step_count=50, deadline=None, report_multiple_bugs=False
)
TestLogAgainstAList = LogAgainstAList.TestCase
