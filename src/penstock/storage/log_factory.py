"""Creates logs, and opens existing ones."""

from penstock.base.errors import StorageError
from penstock.base.ids import TopicId, format_id
from penstock.storage import file_names, recovery
from penstock.storage.leader_epoch_checkpoint import LeaderEpochs
from penstock.storage.log import Log
from penstock.storage.log_config import LogConfig
from penstock.storage.producer_snapshots import ProducerMemory, ProducerSnapshots
from penstock.storage.recovery import OpenedLog, RecoveryReport
from penstock.storage.segment import Segment
from penstock.world.disk import Disk


def create_log(
    disk: Disk,
    path: str,
    *,
    topic_id: TopicId,
    config: LogConfig,
    producers: ProducerMemory,
    now_ms: int,
    start_offset: int = 0,
) -> Log:
    """Create an empty log. Nothing of it is synced before its first batch is."""
    producers.restore(())  # an empty log has none
    try:
        disk.make_dir(path)
        metadata = disk.open(f"{path}/{file_names.PARTITION_METADATA}", create=True)
        metadata.append([f"version: 0\ntopic_id: {format_id(topic_id)}\n".encode("ascii")])
        segment = Segment.create(disk, path, start_offset, now_ms=now_ms)
    except OSError as error:
        raise StorageError(f"cannot create {path}: {error}") from error
    opened = OpenedLog(
        topic_id=topic_id,
        segments=[segment],
        start_offset=start_offset,
        end_offset=start_offset,
        recovery_point=start_offset,
        epochs=LeaderEpochs(),
        snapshots=ProducerSnapshots(disk, path),
        unsynced_files=[metadata],
        unsynced_directories=(path, path.rpartition("/")[0]),
        report=RecoveryReport(path),
    )
    return Log(disk, path, opened, config=config, producers=producers)


def open_log(
    disk: Disk,
    path: str,
    *,
    config: LogConfig,
    producers: ProducerMemory,
    recovery_point: int,
    log_start_offset: int,
    clean: bool,
    now_ms: int,
) -> tuple[Log, RecoveryReport]:
    """Open the log at `path`; it is recovered unless it was closed cleanly. May block; see `recovery`."""
    try:
        opened = recovery.load_log(
            disk,
            path,
            config=config,
            producers=producers,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            clean=clean,
            now_ms=now_ms,
        )
    except OSError as error:
        raise StorageError(f"cannot open {path}: {error}") from error
    return Log(disk, path, opened, config=config, producers=producers), opened.report
