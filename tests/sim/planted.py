"""Faults planted by hand in the storage and produce paths, to test whether the simulation detects them.

Each patches the broker's code. `DETECTED_BY` has the seed of a plan that detects it; `make mutants` tests that it still
does, and searches for another seed if not. Some are so rare that they have a plan of their own instead (`found/`,
`test_found`).
"""

import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest

from penstock.base.errors import ErrorCode
from penstock.base.ids import TopicPartition
from penstock.core.producer_state import Duplicate, ProducerStates
from penstock.services import other_directories
from penstock.services.compactor import Compactor
from penstock.services.flusher import Flusher
from penstock.services.other_directories import Others
from penstock.services.replicas import replica_manager
from penstock.services.replicas.checkpoint_writer import CheckpointWriter
from penstock.services.replicas.directory_removal import DirectoryRemoval
from penstock.services.replicas.replica import Replica
from penstock.services.replicas.replica_opener import ReplicaOpener
from penstock.sim.entries import (
    AlterTopic,
    CopyForeignDirectory,
    CrashMachine,
    CrashProcess,
    FlipBit,
    Restart,
    StartWithoutMetadata,
)
from penstock.sim.plan import Plan
from penstock.sim.topic_plans import FOREVER
from penstock.storage import (
    batch_scan,
    checksums,
    compaction,
    file_names,
    meta_properties,
    recovery,
    retention,
    segment_lookup,
)
from penstock.storage.compaction_rules import CleaningRules, OffsetMap
from penstock.storage.data_directory import DataDirectory
from penstock.storage.log import Log
from penstock.storage.offset_index import OffsetIndex
from penstock.storage.partition_directories import partition_of
from penstock.storage.sync_plan import SyncPlan, UnsyncedFiles
from penstock.storage.time_index import TimeIndex

SEEDS_MAX = 2_000

Plant = Callable[[pytest.MonkeyPatch], None]


class Planted(NamedTuple):
    """A fault, its name, and in which plans to look for it first."""

    name: str
    plant: Plant
    is_likely: Callable[[Plan], bool] = lambda plan: True


PLANTED: list[Planted] = []


def planted(plant: Plant) -> Plant:
    """A fault that any plan may show."""
    PLANTED.append(Planted(plant.__name__, plant))
    return plant


def planted_for(is_likely: Callable[[Plan], bool]) -> Callable[[Plant], Plant]:
    """A fault that shows in few plans, and hardly in others than these."""

    def note(plant: Plant) -> Plant:
        PLANTED.append(Planted(plant.__name__, plant, is_likely))
        return plant

    return note


# ---- plans


def loses_power(plan: Plan) -> bool:
    """With a topic that promises to lose nothing."""
    happens = plan.finish == CrashMachine.kind or any(isinstance(each, CrashMachine) for each in plan.faults)
    return happens and any(topic.configs.get("flush.messages") == "1" for topic in plan.topics)


def is_killed_and_loses_power(plan: Plan) -> bool:
    """In this order; and only files that are asked for are synced."""
    kills = [each.at_ms for each in plan.faults if isinstance(each, CrashProcess)]
    cuts = [each.at_ms for each in plan.faults if isinstance(each, CrashMachine)]
    if plan.finish == CrashMachine.kind:
        cuts.append(sys.maxsize)
    syncs_singly = dict(plan.broker)["penstock.sync.whole.file.system.from"] != "1"
    return syncs_singly and bool(kills and cuts) and min(kills) < max(cuts)


def stops_compacting(plan: Plan) -> bool:
    """A topic that was compacted is set to cleanup.policy=delete, and the broker crashes."""
    compacted = [topic.name for topic in plan.topics if topic.is_keyed]
    return any(
        isinstance(each, AlterTopic) and each.value == "delete" and each.topic in compacted
        for each in plan.operations
    ) and any(isinstance(each, CrashProcess | CrashMachine) for each in plan.faults)


def forgets_and_loses_power(plan: Plan) -> bool:
    """A topic deletes what is old, and promises to lose nothing else."""
    return loses_power(plan) and any(
        topic.configs["retention.ms"] != FOREVER and topic.configs.get("flush.messages") == "1"
        for topic in plan.topics
    )


def ends_in_a_crash(plan: Plan) -> bool:
    """And the recovery points on disk are old by then."""
    rarely = dict(plan.broker)["log.flush.offset.checkpoint.interval.ms"] == "60000"
    return rarely and plan.finish != Restart.kind


def flips_bits_of_indexes(plan: Plan) -> bool:
    return any(isinstance(each, FlipBit) and each.suffix == ".index" for each in plan.faults)


def has_foreign_directories(plan: Plan) -> bool:
    return any(isinstance(each, CopyForeignDirectory) for each in plan.faults)


# ---- faults


@planted_for(loses_power)
def no_fsync_at_roll(patch: pytest.MonkeyPatch) -> None:
    """A segment that is closed is forgotten: only the new one is synced."""
    patch.setattr(UnsyncedFiles, "add_segment", lambda self, segment: None)


@planted
def torn_tail_accepted(patch: pytest.MonkeyPatch) -> None:
    """After a crash a batch counts as whole if its header makes sense and its bytes are there."""
    for module in (batch_scan, checksums):
        patch.setattr(module, "crc_holds", lambda *_: True)


@planted_for(loses_power)
def index_trusted_after_a_crash(patch: pytest.MonkeyPatch) -> None:
    """The indexes say where a log ends, whether it was closed cleanly or not."""
    genuine_open, genuine_trust = recovery.load_log, recovery._Opening.trust_everything

    def trust(self: Any, indexed: Any) -> bool:
        return genuine_trust(self, indexed) or self.opened.end_offset > 0

    patch.setattr(
        recovery, "load_log", lambda *words, **more: genuine_open(*words, **{**more, "clean": True})
    )
    patch.setattr(recovery._Opening, "trust_everything", trust)


@planted
def producers_not_rebuilt(patch: pytest.MonkeyPatch) -> None:
    """A start after a crash knows the producers of the snapshot only, not of the batches behind it."""
    genuine = recovery._Opening.restore_state

    class Deaf:
        def __init__(self, producers: Any) -> None:
            self.restore, self.entries = producers.restore, producers.entries

        def replay(self, header: Any) -> None:
            pass

        def replay_marker(self, header: Any, marker: Any) -> None:
            pass

    patch.setattr(
        recovery._Opening,
        "restore_state",
        lambda self, producers, **more: genuine(self, Deaf(producers), **more),
    )


@planted
def tombstone_dropped_early(patch: pytest.MonkeyPatch) -> None:
    """Compaction drops a tombstone when it first meets it."""
    patch.setattr(CleaningRules, "keeps_tombstones", lambda self, header: False)


@planted
def retention_deletes_the_active_segment(patch: pytest.MonkeyPatch) -> None:
    """Retention by size takes the segment that is being written, too."""
    genuine = retention.count_expired_segments

    def greedy(log: Log, *, now_ms: int, high_watermark: int) -> int:
        count = genuine(log, now_ms=now_ms, high_watermark=high_watermark)
        everything = len(log.segments) if log.end_offset <= high_watermark else 0
        return max(count, everything) if log.config.retention_bytes >= 0 and log.segments[-1].size else count

    patch.setattr(retention, "count_expired_segments", greedy)


@planted
def fetch_past_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """A fetch returns records up to the log end offset, synced or not."""

    def read_cached(
        self: Replica, offset: int, max_bytes: int, *, upto_offset: int, whole_first_batch: bool
    ) -> Any:
        return self.log.read(
            offset,
            max_bytes=max_bytes,
            upto_offset=self.log.end_offset,
            whole_first_batch=whole_first_batch,
            cached_only=True,
        )

    patch.setattr(Replica, "read_cached", read_cached)


@planted
def duplicate_sequence_appended(patch: pytest.MonkeyPatch) -> None:
    """A batch that was sent before is appended again."""
    genuine = ProducerStates.check

    def forgetful(self: ProducerStates, header: Any, **more: Any) -> Any:
        verdict = genuine(self, header, **more)
        return ErrorCode.NONE if isinstance(verdict, Duplicate) else verdict

    patch.setattr(ProducerStates, "check", forgetful)


@planted
def deleted_data_served_to_its_namesake(patch: pytest.MonkeyPatch) -> None:
    """A deleted topic's directories stay, and the next topic with that name gets them."""

    async def keep(self: DirectoryRemoval, partitions: list[TopicPartition], delay_ms: int = 0) -> None:
        pass

    async def reuse(
        self: ReplicaOpener, topic: Any, index: int, config: Any, producers: Any, *_: Any, **more: Any
    ) -> Any:
        partition = TopicPartition(topic.name, index)
        now_ms = self._world.loop.now_ms()
        if not more["in_memory"] and self._world.disk.exists(str(partition)):
            found = await self._recover(partition, config, producers, now_ms)
            found.topic_id = topic.topic_id
            return found
        return await genuine(self, topic, index, config, producers, *_, **more)

    genuine = ReplicaOpener._log
    patch.setattr(DirectoryRemoval, "discard", keep)
    patch.setattr(ReplicaOpener, "_log", reuse)


@planted_for(loses_power)
def acknowledged_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    """With flush.messages=1 the answer comes as soon as the page cache has the batch."""

    def wait_for(self: Replica, offset: int, *, timeout_ms: int) -> Any:
        future = self.loop.create_future()
        future.set_result(ErrorCode.NONE)
        return future

    patch.setattr(Replica, "wait_for", wait_for)


@planted
def failed_sync_taken_for_a_good_one(patch: pytest.MonkeyPatch) -> None:
    """What the device could not write counts as written."""
    patch.setattr(Replica, "sync_failed", lambda self, error: self.synced(self.log.unsynced()))


@planted_for(loses_power)
def names_not_synced(patch: pytest.MonkeyPatch) -> None:
    """A new segment's data is synced, and its name is not."""

    def run(self: SyncPlan, disk: Any) -> None:
        genuine(self._replace(directories=()), disk)

    genuine = SyncPlan.run
    patch.setattr(SyncPlan, "run", run)


@planted_for(stops_compacting)
def compaction_leaves_no_mark(patch: pytest.MonkeyPatch) -> None:
    """A log that was compacted once looks damaged when its policy is `delete` again."""
    patch.setattr(compaction._Run, "_mark_compacted", lambda self: None)


@planted_for(forgets_and_loses_power)
def start_not_written_before_segments_go(patch: pytest.MonkeyPatch) -> None:
    """Retention deletes segments before the new log start offset is checkpointed."""

    async def nothing(self: CheckpointWriter) -> None:
        pass

    genuine = DataDirectory.note_offsets_stepwise

    def note_offsets(self: DataDirectory, logs: Any) -> Any:
        logs = list(logs)
        yield from genuine(self, logs)
        for partition, log in logs:
            if log.start_offset == log.segments[0].base_offset:
                self._start_offsets.pop(partition, None)

    patch.setattr(DataDirectory, "note_offsets_stepwise", note_offsets)
    patch.setattr(CheckpointWriter, "write_start_offsets", nothing)


@planted_for(stops_compacting)
def start_not_written_before_compaction(patch: pytest.MonkeyPatch) -> None:
    """Compaction takes what lies below the start, and a crash brings the start back to where records are missing."""

    async def nothing(self: Compactor, partition: Replica) -> None:
        pass

    as_it_is = property(lambda self: self._log.start_offset, lambda self, value: None)
    patch.setattr(Compactor, "_checkpoint_start_offset", nothing)
    patch.setattr(compaction._Run, "_start_offset", as_it_is, raising=False)


@planted_for(is_killed_and_loses_power)
def partition_metadata_not_synced_again(patch: pytest.MonkeyPatch) -> None:
    """A partition's id stays in the page cache if who created the partition died before its first sync."""
    genuine = recovery.load_log

    def forgetful(*words: Any, **more: Any) -> Any:
        opened = genuine(*words, **more)
        opened.unsynced_files = [
            file
            for file in opened.unsynced_files
            if not getattr(file, "path", "").endswith(file_names.PARTITION_METADATA)
        ]
        return opened

    patch.setattr(recovery, "load_log", forgetful)


@planted_for(ends_in_a_crash)
def served_before_it_is_synced(patch: pytest.MonkeyPatch) -> None:
    """After a crash the broker listens while the end of its logs is still being synced, and shown too low."""
    genuine = Flusher.settle

    async def settle(self: Any) -> None:
        if hasattr(self, "asked_before"):
            await genuine(self)
        self.asked_before = True

    patch.setattr(Flusher, "settle", settle)


@planted_for(flips_bits_of_indexes)
def damaged_index_hides_records(patch: pytest.MonkeyPatch) -> None:
    """A reader is led behind what it asked for by an index with a flipped bit, and takes it for a gap."""
    patch.setattr(segment_lookup, "begins_behind", lambda *_, **__: False)
    patch.setattr(OffsetIndex, "require_order", lambda self, loaded: None)
    patch.setattr(TimeIndex, "require_order", lambda self, loaded: None)


@planted
def compaction_keeps_the_oldest(patch: pytest.MonkeyPatch) -> None:
    """Of two records with one key the newer one goes."""

    def put(self: OffsetMap, key: bytes, offset: int) -> None:
        self._offsets.setdefault(key, offset)

    def supersedes(self: OffsetMap, key: bytes, offset: int) -> bool:
        return self._offsets.get(key, offset) < offset

    patch.setattr(OffsetMap, "put", put)
    patch.setattr(OffsetMap, "supersedes", supersedes)


@planted_for(has_foreign_directories)
def unknown_partitions_deleted(patch: pytest.MonkeyPatch) -> None:
    """A start deletes every partition that the metadata do not know."""

    def look(*words: Any, **more: Any) -> Others:
        found = genuine(*words, **more)
        unknown = [each for each in map(partition_of, found.unknown) if each is not None]
        return found._replace(deleted=found.deleted + unknown)

    genuine = other_directories.look_at_others
    patch.setattr(replica_manager, "look_at_others", look)


@planted_for(has_foreign_directories)
def namesake_deleted_instead_of_renamed(patch: pytest.MonkeyPatch) -> None:
    """Whatever has the name of a new partition is deleted."""

    async def vacate(self: ReplicaOpener, partition: TopicPartition, found: Any, topic: Any) -> None:
        await self._removal.discard([partition])

    patch.setattr(ReplicaOpener, "_vacate", vacate)


@planted_for(lambda plan: any(isinstance(each, StartWithoutMetadata) for each in plan.faults))
def partitions_without_metadata_taken_for_ones_own(patch: pytest.MonkeyPatch) -> None:
    """A standalone broker begins with empty metadata beside partitions."""
    patch.setattr(meta_properties, "refuse_without_metadata", lambda disk: None)


def planted_by_name(name: str, faults: Sequence[Planted] = PLANTED) -> Planted:
    return next(each for each in faults if each.name == name)


# A seed that detects each fault that has no plan of its own.
DETECTED_BY: dict[str, int] = {
    "no_fsync_at_roll": 244,
    "index_trusted_after_a_crash": 95,
    "producers_not_rebuilt": 5,
    "tombstone_dropped_early": 12,
    "retention_deletes_the_active_segment": 23,
    "fetch_past_the_high_watermark": 1,
    "duplicate_sequence_appended": 15,
    "deleted_data_served_to_its_namesake": 6,
    "acknowledged_before_the_sync": 7,
    "failed_sync_taken_for_a_good_one": 177,
    "names_not_synced": 1181,
    "start_not_written_before_segments_go": 491,
    "compaction_keeps_the_oldest": 8,
    "unknown_partitions_deleted": 70,
    "namesake_deleted_instead_of_renamed": 38,
    "partitions_without_metadata_taken_for_ones_own": 18,
}
