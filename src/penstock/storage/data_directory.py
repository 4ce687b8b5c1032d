"""The data directory of a broker: its owner, its logs, and their offset checkpoints.

One disk is one data directory. Next to the directories of the partitions it holds Kafka's files:
`meta.properties`, the checkpoints of recovery points, start offsets, high watermarks and compaction,
`.kafka_cleanshutdown` after a clean shutdown, and `.lock` while a broker runs. Other files are not touched.

The order of steps matters. A deleted partition is removed from the checkpoints before one of the same name is created,
or the new one would get the old one's recovery point. A recovery point or high watermark is lowered on disk before the
log is truncated, and a log start offset is raised on disk before the segments below it are deleted.

Methods that may block run through `Work`, one at a time. A failure of the directory itself is final: see
`storage.log_dir_failure`.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress

from penstock.base.errors import StorageError, UserError
from penstock.base.features import PENSTOCK_VERSION, SUPPORTED
from penstock.base.ids import TopicId, TopicPartition
from penstock.storage import log_factory, offset_checkpoints, truncation
from penstock.storage.errors import NoRoomError
from penstock.storage.file_names import PARTITION_METADATA
from penstock.storage.log import Log, ProducerMemory, RecoveryReport
from penstock.storage.log_config import LogConfig
from penstock.storage.log_dir_failure import WatchedDisk
from penstock.storage.meta_properties import MetaProperties, read_or_create, with_data_version
from penstock.storage.partition_directories import (
    DELETE,
    STRAY,
    has_no_records,
    has_segments,
    is_of_log,
    parse_removed_name,
    partition_of,
    read_topic_id,
    removed_name,
)
from penstock.world.disk import Disk, Lock, found_no_room, write_file_atomically
from penstock.world.entropy import Entropy

LOCK = ".lock"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
_CLEAN_SHUTDOWN_CONTENT = b'{"version":0,"brokerEpoch":-1}'
UNKNOWN_PARTITIONS = "unknown-partitions"

# Each checkpoint, and the attribute with its offsets.
_OFFSETS = {
    offset_checkpoints.RECOVERY_POINTS: "_recovery_points",
    offset_checkpoints.START_OFFSETS: "_start_offsets",
    offset_checkpoints.CLEANER_OFFSETS: "cleaner_offsets",
    offset_checkpoints.HIGH_WATERMARKS: "_high_watermarks",
}


class DataDirectory:
    """The logs below one disk's root."""

    def __init__(
        self,
        disk: WatchedDisk,
        *,
        lock: Lock,
        meta: MetaProperties,
        was_closed_cleanly: bool,
        names: list[str],
    ) -> None:
        self.disk = disk
        self.meta = meta
        self.was_closed_cleanly = was_closed_cleanly
        # Found by their names; the metadata tell which are partitions of this broker.
        self.partitions = [found for found in map(partition_of, names) if found is not None]
        self.removed_directories = {
            name: found for name in names if (found := parse_removed_name(name)) is not None
        }
        self.problems: list[str] = []
        self._lock = lock
        self._recovery_points = self._read(offset_checkpoints.RECOVERY_POINTS)
        self._start_offsets = self._read(offset_checkpoints.START_OFFSETS)
        self.cleaner_offsets = self._read(offset_checkpoints.CLEANER_OFFSETS)
        self._high_watermarks = self._read(offset_checkpoints.HIGH_WATERMARKS)
        self._has_new_high_watermarks = False

    @classmethod
    def open(
        cls,
        disk: Disk,
        *,
        node_id: int,
        entropy: Entropy,
        cluster_id: str | None = None,
        in_cluster: bool | None = None,
        data_version_max: int = SUPPORTED[PENSTOCK_VERSION].highest,
    ) -> "DataDirectory":
        """Lock and open the directory; UserError if that is impossible, and nothing was changed then. May block.

        `in_cluster`: whether the metadata are in ZooKeeper or in the directory; None: not checked.
        """
        watched = WatchedDisk(disk, is_of_log=is_of_log)
        try:
            watched.make_dir("")
            lock = watched.lock(LOCK)
        except BlockingIOError as error:
            raise UserError(
                "the data directory is in use by another broker: stop it, or choose another"
            ) from error
        except OSError as error:
            raise UserError(f"the data directory cannot be written to: {error}") from error
        try:
            meta = read_or_create(
                watched,
                node_id=node_id,
                cluster_id=cluster_id,
                in_cluster=in_cluster,
                entropy=entropy,
                data_version_max=data_version_max,
            )
            names = watched.list("")
            was_closed_cleanly = CLEAN_SHUTDOWN in names
            directory = cls(watched, lock=lock, meta=meta, was_closed_cleanly=was_closed_cleanly, names=names)
            # From here on a crash must not look like a clean shutdown.
            watched.remove(CLEAN_SHUTDOWN)
            watched.sync_dir("")
        except OSError as error:
            lock.release()
            raise UserError(f"the data directory cannot be used: {error}") from error
        except UserError:
            lock.release()
            raise
        return directory

    def set_data_version(self, data_version: int) -> None:
        """Record the data version of the directory; older programs refuse to open it then. May block."""
        self.meta = with_data_version(self.disk, self.meta, data_version)

    def _read(self, name: str) -> dict[TopicPartition, int]:
        offsets = offset_checkpoints.read_offsets(self.disk, name)
        if offsets is None:
            self.problems.append(f"{name} is damaged: its offsets are derived from the logs again")
            return {}
        return offsets

    # ---- logs

    def create_log(
        self,
        partition: TopicPartition,
        *,
        topic_id: TopicId,
        config: LogConfig,
        producers: ProducerMemory,
        now_ms: int,
    ) -> Log:
        """Create an empty log for a partition that no checkpoint has. If that fails, nothing of it is left."""
        assert not self.is_in_checkpoints(partition), "the new log would get its predecessor's offsets"
        try:
            return log_factory.create_log(
                self.disk,
                str(partition),
                topic_id=topic_id,
                config=config,
                producers=producers,
                now_ms=now_ms,
            )
        except StorageError:
            self.remove_created(partition)
            raise

    def remove_created(self, partition: TopicPartition) -> None:
        """Remove the directory of a log that was just created and has no records."""
        with suppress(OSError):
            self.disk.remove_tree(str(partition))

    def open_log(
        self, partition: TopicPartition, *, config: LogConfig, producers: ProducerMemory, now_ms: int
    ) -> tuple[Log, RecoveryReport]:
        """Open a log; it is recovered after a crash. May block."""
        return log_factory.open_log(
            self.disk,
            str(partition),
            config=config,
            producers=producers,
            recovery_point=self._recovery_points.get(partition, 0),
            log_start_offset=self._start_offsets.get(partition, 0),
            clean=self.was_closed_cleanly,
            now_ms=now_ms,
        )

    def high_watermark(self, partition: TopicPartition) -> int:
        """The high watermark in the checkpoint; after a crash the log may end below it."""
        return self._high_watermarks.get(partition, 0)

    def is_in_checkpoints(self, partition: TopicPartition) -> bool:
        """Whether a checkpoint has a partition, perhaps an earlier one of the same name."""
        return any(partition in getattr(self, attribute) for attribute in _OFFSETS.values())

    # ---- directories of partitions

    def topic_id(self, name: str) -> TopicId:
        """The topic id of a partition's directory; the zero id if there is none. May block."""
        return read_topic_id(self.disk, name)

    def has_segments(self, name: str) -> bool:
        """Whether a directory has segments. May block."""
        return has_segments(self.disk, name)

    def clear_without_records(self, name: str) -> bool:
        """Empty a directory that has neither records nor a topic id; False if it has. May block."""
        try:
            if not has_no_records(self.disk, name):
                return False
        except NotADirectoryError:
            return False
        for each in self.disk.list(name):
            self.disk.remove(f"{name}/{each}")
        return True

    def write_unknown_partitions(self, directories: list[str]) -> None:
        """Write the list of partition directories that the metadata do not have, for `penstock log describe`.

        May block.
        """
        content = json.dumps(directories, indent=1).encode()
        try:
            if directories:
                write_file_atomically(self.disk, UNKNOWN_PARTITIONS, content)
            elif self.disk.exists(UNKNOWN_PARTITIONS):
                self.disk.remove(UNKNOWN_PARTITIONS)
        except OSError as error:
            raise StorageError(f"cannot write {UNKNOWN_PARTITIONS}: {error}") from error

    # ---- removing partitions

    def rename_removed(
        self, partitions: Mapping[TopicPartition, bytes], *, suffix: str = DELETE
    ) -> list[str]:
        """Rename the directories of partitions whose logs are closed, and sync; returns the new names. May block.

        With `DELETE`, `remove_deleted` frees their space later; with `STRAY` they stay. Each partition comes with
        bytes that make its new name unique.
        """
        assert suffix in (DELETE, STRAY)
        self.remove_from_checkpoints(frozenset(partitions))
        names = []
        try:
            for partition, unique in partitions.items():
                name = removed_name(partition, unique, suffix)
                self.disk.rename(str(partition), name)
                names.append(name)
            if names:
                self.disk.sync_dir("")
        except OSError as error:
            raise StorageError(f"renaming partition directories failed: {error}") from error
        return names

    def remove_deleted(self, name: str) -> None:
        """Remove the files of a deleted partition. May block."""
        assert name.endswith(DELETE)
        # partition.metadata is removed last: after a crash the rest can be told from directories that are not ours.
        for each in self.disk.list(name) if self.disk.exists(name) else ():
            if each != PARTITION_METADATA:
                with suppress(IsADirectoryError, PermissionError):  # a directory, which none of ours has
                    self.disk.remove(f"{name}/{each}")
        self.disk.remove_tree(name)

    def truncate(self, partition: TopicPartition, log: Log, offset: int) -> None:
        """Truncate a log; the checkpoints are lowered first, for a crash in between. May block."""
        self._lower_checkpoints(partition, truncation.end_after_truncation(log, offset))
        log.truncate_to(offset)

    def truncate_fully(self, partition: TopicPartition, log: Log, start_offset: int, *, now_ms: int) -> None:
        """Truncate a log fully, to continue at `start_offset`, in the same order. May block."""
        self._lower_checkpoints(partition, start_offset)
        log.truncate_fully(start_offset, now_ms=now_ms)

    def _lower_checkpoints(self, partition: TopicPartition, offset: int) -> None:
        if self._recovery_points.get(partition, 0) > offset:
            self._recovery_points = {**self._recovery_points, partition: offset}
            offset_checkpoints.write_offsets(
                self.disk, offset_checkpoints.RECOVERY_POINTS, self._recovery_points
            )
        if self._start_offsets.get(partition, 0) > offset:
            self._start_offsets = {**self._start_offsets, partition: offset}
            self.write_start_offsets()
        if self._high_watermarks.get(partition, 0) > offset:
            self.note_high_watermarks({partition: offset})
            self.write_high_watermarks()

    def remove_from_checkpoints(self, partitions: Collection[TopicPartition]) -> None:
        """Remove partitions from the checkpoints. May block."""
        for name, attribute in _OFFSETS.items():
            known: dict[TopicPartition, int] = getattr(self, attribute)
            if any(partition in known for partition in partitions):
                left = {known_one: known[known_one] for known_one in known if known_one not in partitions}
                setattr(self, attribute, left)
                try:
                    offset_checkpoints.write_offsets(self.disk, name, left)
                except OSError as error:
                    # The file still has them, and the other offsets may have changed meanwhile: put them back, so that
                    # the next call removes them.
                    kept = {partition: known[partition] for partition in partitions if partition in known}
                    setattr(self, attribute, {**kept, **getattr(self, attribute)})
                    raise StorageError(f"cannot write {name}: {error}") from error

    # ---- checkpoints

    def note_offsets(self, logs: Mapping[TopicPartition, Log]) -> None:
        """Collect the offsets of all logs for the next `write_checkpoints`."""
        for _ in self.note_offsets_stepwise(logs.items()):
            pass

    def note_offsets_stepwise(self, logs: Iterable[tuple[TopicPartition, Log]]) -> Iterator[None]:
        """The same in steps of one log. The collected offsets must not be changed before the last step."""
        recovery_points, start_offsets = dict(self._recovery_points), dict(self._start_offsets)
        for partition, log in logs:
            recovery_points[partition] = log.checkpoint_offset
            start_offsets.pop(partition, None)
            # Even if the first segment begins there: the removal of earlier segments may not be synced.
            if log.start_offset > 0:
                start_offsets[partition] = log.start_offset
            yield
        self._recovery_points, self._start_offsets = recovery_points, start_offsets

    def write_checkpoints(self) -> None:
        """Write the checkpoints of recovery points and log start offsets. May block."""
        offset_checkpoints.write_offsets(self.disk, offset_checkpoints.RECOVERY_POINTS, self._recovery_points)
        self.write_start_offsets()

    def write_start_offsets(self) -> None:
        """Write the checkpoint of log start offsets, before segments below them are deleted. May block."""
        offset_checkpoints.write_offsets(self.disk, offset_checkpoints.START_OFFSETS, self._start_offsets)

    def note_high_watermarks(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Collect high watermarks for the next `write_high_watermarks`."""
        noted = {**self._high_watermarks, **offsets}
        if noted != self._high_watermarks:
            self._high_watermarks = noted
            self._has_new_high_watermarks = True

    def write_high_watermarks(self) -> None:
        """Write the checkpoint of high watermarks, if any has changed. May block."""
        if self._has_new_high_watermarks:
            offset_checkpoints.write_offsets(
                self.disk, offset_checkpoints.HIGH_WATERMARKS, self._high_watermarks
            )
            self._has_new_high_watermarks = False

    def write_cleaner_offset(self, partition: TopicPartition, log: Log, offset: int) -> None:
        """Record in the checkpoint how far a log is compacted. May block.

        The recovery point is written first: a scan behind it would take gaps between offsets for damage.
        """
        self._recovery_points = {**self._recovery_points, partition: log.checkpoint_offset}
        offset_checkpoints.write_offsets(self.disk, offset_checkpoints.RECOVERY_POINTS, self._recovery_points)
        self.cleaner_offsets = {**self.cleaner_offsets, partition: offset}
        offset_checkpoints.write_offsets(self.disk, offset_checkpoints.CLEANER_OFFSETS, self.cleaner_offsets)

    # ---- stopping

    def close_cleanly(self, logs: Mapping[TopicPartition, Log]) -> NoRoomError | None:
        """Sync everything and write `.kafka_cleanshutdown`, so that the next start needs no recovery. May block.

        The file is not written if a log has failed or fails now, if a log has damage at which the next start may
        truncate it, or if the disk is full: that error is returned.
        """
        usable = {partition: log for partition, log in logs.items() if log.failed is None}
        clean = len(usable) == len(logs) and not any(
            log.may_be_truncated_at_damage for log in usable.values()
        )
        problem: NoRoomError | None = None
        try:
            for log in usable.values():
                try:
                    log.finish()
                except NoRoomError as error:
                    problem = error
            plans = [(log, log.unsynced()) for log in usable.values()]
            synced_at_once = self.disk.sync_all()
            for log, plan in plans:
                if not synced_at_once:
                    plan.run(self.disk)
                log.synced(plan)
            self.note_offsets(logs)
            self.write_checkpoints()
            self.write_high_watermarks()
            for log in usable.values():
                if log.epochs.changed:
                    problem = NoRoomError(f"{log.path}: there is no room for the leader epochs")
            if clean and problem is None:
                write_file_atomically(self.disk, CLEAN_SHUTDOWN, _CLEAN_SHUTDOWN_CONTENT)
        except OSError as error:
            if not found_no_room(error):
                raise
            problem = NoRoomError(f"there is no room in the data directory: {error}")
        finally:
            self.close(logs)
        return problem

    def restore_clean_shutdown_file(self) -> None:
        """Write `.kafka_cleanshutdown` again, before any log was opened: nothing has changed. May block."""
        if self.was_closed_cleanly:
            write_file_atomically(self.disk, CLEAN_SHUTDOWN, _CLEAN_SHUTDOWN_CONTENT)

    def close(self, logs: Mapping[TopicPartition, Log]) -> None:
        """Close all logs and release the lock, without `.kafka_cleanshutdown`."""
        for log in logs.values():
            log.close()
        self._lock.release()
