"""Which phase a node is in, told from the calls that pass its disk and network."""

from random import Random

import pytest

from penstock.sim.disk import SimDisk
from penstock.sim.disk_operations import DiskOperation
from penstock.sim.phases import NodePhases, Phase, phase_of
from tests.storage.helpers import NOW_MS, append, batch, create_log

SEGMENT = "topic-0/00000000000000000042"


@pytest.mark.parametrize(
    ("operation", "path", "phase"),
    [
        (DiskOperation.APPEND, f"{SEGMENT}.log", Phase.APPEND),
        (DiskOperation.CREATE, f"{SEGMENT}.log", Phase.ROLL),
        (DiskOperation.APPEND, f"{SEGMENT}.index", Phase.ROLL),
        (DiskOperation.APPEND, f"{SEGMENT}.timeindex", Phase.ROLL),
        (DiskOperation.APPEND, f"{SEGMENT}.snapshot", Phase.ROLL),
        (DiskOperation.SYNC, f"{SEGMENT}.log", Phase.FLUSH),
        (DiskOperation.SYNC_DIR, "topic-0", Phase.FLUSH),
        (DiskOperation.SYNC_ALL, "", Phase.FLUSH),
        (DiskOperation.APPEND, f"{SEGMENT}.log.cleaned", Phase.COMPACTION),
        (DiskOperation.SYNC, f"{SEGMENT}.log.cleaned", Phase.COMPACTION),
        (DiskOperation.RENAME, f"{SEGMENT}.log.swap", Phase.COMPACTION),
        (DiskOperation.RENAME, f"{SEGMENT}.log.deleted", Phase.REMOVAL),
        (DiskOperation.REMOVE, f"{SEGMENT}.log.deleted", Phase.REMOVAL),
        (DiskOperation.RENAME, "topic-0.00ff-delete", Phase.REMOVAL),
        (DiskOperation.REMOVE_TREE, "topic-0.00ff-delete", Phase.REMOVAL),
        (DiskOperation.APPEND, "recovery-point-offset-checkpoint.tmp", Phase.CHECKPOINT),
        (DiskOperation.RENAME, "recovery-point-offset-checkpoint", Phase.CHECKPOINT),
        (DiskOperation.APPEND, "topic-0/leader-epoch-checkpoint.tmp", Phase.FLUSH),
        (DiskOperation.CREATE, ".kafka_cleanshutdown.tmp", Phase.CHECKPOINT),
        (DiskOperation.APPEND, "__metadata/00000000000000000001.log", Phase.METADATA),
        (DiskOperation.CREATE, "meta.properties.tmp", Phase.METADATA),
        (DiskOperation.APPEND, "topic-0/partition.metadata", Phase.METADATA),
        (DiskOperation.READ, f"{SEGMENT}.log", Phase.READ),
        (DiskOperation.READ_CACHED, f"{SEGMENT}.log", Phase.READ),
        (DiskOperation.LIST, "topic-0", None),
        (DiskOperation.LOCK, ".lock", None),
        (DiskOperation.OPEN, f"{SEGMENT}.log", None),
        (DiskOperation.MAKE_DIR, "topic-0", None),
    ],
)
def test_an_operation_on_the_disk_tells_the_phase(
    operation: DiskOperation, path: str, phase: Phase | None
) -> None:
    assert phase_of(operation, path) is phase


def test_a_life_goes_from_recovery_over_serving_and_stopping_to_being_down() -> None:
    node = NodePhases()
    assert node.now is Phase.DOWN
    node.starts()
    node.watch(DiskOperation.APPEND, f"{SEGMENT}.log", 10)
    assert node.now is Phase.RECOVERY
    node.serves()
    node.on_received()
    assert node.now is Phase.REQUEST
    node.watch(DiskOperation.APPEND, f"{SEGMENT}.log", 10)
    node.watch(DiskOperation.LIST, "", 0)
    assert node.now is Phase.APPEND
    node.on_sent()
    assert node.now is Phase.REPLY
    node.on_idle()
    assert node.now is Phase.IDLE
    node.on_received()
    node.stops()
    node.watch(DiskOperation.SYNC, f"{SEGMENT}.log", 0)
    assert node.now is Phase.STOP
    node.is_down()
    assert node.now is Phase.DOWN
    node.starts()
    node.serves()
    assert node.now is Phase.IDLE, "what the last life did is forgotten"


def test_a_real_log_walks_through_its_phases() -> None:
    node = NodePhases()
    node.starts()
    node.serves()
    seen: list[Phase] = []

    def watch(operation: DiskOperation, path: str, count: int) -> None:
        node.watch(operation, path, count)
        if seen[-1:] != [node.now]:
            seen.append(node.now)

    disk = SimDisk(Random(1), watcher=watch).mount()
    log = create_log(disk)
    seen.clear()
    append(log, batch(0))
    log.roll(now_ms=NOW_MS)
    plan = log.unsynced()
    plan.run(disk)
    log.synced(plan)
    log.read(0, max_bytes=1000, upto_offset=1)
    assert seen == [Phase.APPEND, Phase.ROLL, Phase.FLUSH, Phase.READ]
