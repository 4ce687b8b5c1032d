"""Which phase a node is in, told from the calls that pass its disk and network."""

from random import Random

import pytest

from penstock.sim.disk import SimDisk
from penstock.sim.disk_operations import Operation
from penstock.sim.phases import NodePhases, Phase, phase_of
from tests.storage.helpers import NOW_MS, append, batch, create_log

SEGMENT = "topic-0/00000000000000000042"


@pytest.mark.parametrize(
    ("operation", "path", "phase"),
    [
        (Operation.APPEND, f"{SEGMENT}.log", Phase.APPEND),
        (Operation.CREATE, f"{SEGMENT}.log", Phase.ROLL),
        (Operation.APPEND, f"{SEGMENT}.index", Phase.ROLL),
        (Operation.APPEND, f"{SEGMENT}.timeindex", Phase.ROLL),
        (Operation.APPEND, f"{SEGMENT}.snapshot", Phase.ROLL),
        (Operation.SYNC, f"{SEGMENT}.log", Phase.FLUSH),
        (Operation.SYNC_DIR, "topic-0", Phase.FLUSH),
        (Operation.SYNC_ALL, "", Phase.FLUSH),
        (Operation.APPEND, f"{SEGMENT}.log.cleaned", Phase.COMPACTION),
        (Operation.SYNC, f"{SEGMENT}.log.cleaned", Phase.COMPACTION),
        (Operation.RENAME, f"{SEGMENT}.log.swap", Phase.COMPACTION),
        (Operation.RENAME, f"{SEGMENT}.log.deleted", Phase.REMOVAL),
        (Operation.REMOVE, f"{SEGMENT}.log.deleted", Phase.REMOVAL),
        (Operation.RENAME, "topic-0.00ff-delete", Phase.REMOVAL),
        (Operation.REMOVE_TREE, "topic-0.00ff-delete", Phase.REMOVAL),
        (Operation.APPEND, "recovery-point-offset-checkpoint.tmp", Phase.CHECKPOINT),
        (Operation.RENAME, "recovery-point-offset-checkpoint", Phase.CHECKPOINT),
        (Operation.APPEND, "topic-0/leader-epoch-checkpoint.tmp", Phase.FLUSH),
        (Operation.CREATE, ".kafka_cleanshutdown.tmp", Phase.CHECKPOINT),
        (Operation.APPEND, "__metadata/00000000000000000001.log", Phase.METADATA),
        (Operation.CREATE, "meta.properties.tmp", Phase.METADATA),
        (Operation.APPEND, "topic-0/partition.metadata", Phase.METADATA),
        (Operation.READ, f"{SEGMENT}.log", Phase.READ),
        (Operation.READ_CACHED, f"{SEGMENT}.log", Phase.READ),
        (Operation.LIST, "topic-0", None),
        (Operation.LOCK, ".lock", None),
        (Operation.OPEN, f"{SEGMENT}.log", None),
        (Operation.MAKE_DIR, "topic-0", None),
    ],
)
def test_an_operation_on_the_disk_tells_the_phase(
    operation: Operation, path: str, phase: Phase | None
) -> None:
    assert phase_of(operation, path) is phase


def test_a_life_goes_from_recovery_over_serving_and_stopping_to_being_down() -> None:
    node = NodePhases()
    assert node.now is Phase.DOWN
    node.starts()
    node.watch(Operation.APPEND, f"{SEGMENT}.log", 10)
    assert node.now is Phase.RECOVERY
    node.serves()
    node.hears()
    assert node.now is Phase.REQUEST
    node.watch(Operation.APPEND, f"{SEGMENT}.log", 10)
    node.watch(Operation.LIST, "", 0)
    assert node.now is Phase.APPEND
    node.answers()
    assert node.now is Phase.REPLY
    node.rests()
    assert node.now is Phase.IDLE
    node.hears()
    node.stops()
    node.watch(Operation.SYNC, f"{SEGMENT}.log", 0)
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

    def watch(operation: Operation, path: str, count: int) -> None:
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
