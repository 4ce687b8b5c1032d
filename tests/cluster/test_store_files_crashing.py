"""The embedded store's files on a disk whose machine loses its power."""

from random import Random

import pytest

from penstock.cluster.node_tree import NodeTree, Put
from penstock.cluster.store_files import StoreFiles
from penstock.sim.disk import SimDisk
from penstock.sim.disk_faults import Revoked
from penstock.world.store import StoreNode

SEEDS = range(30)


def recover(disk: SimDisk) -> tuple[StoreFiles, NodeTree]:
    files, tree = StoreFiles(disk.mount(), "store"), NodeTree()
    files.recover(tree)
    return files, tree


def put(path: str) -> Put:
    return Put(path, StoreNode(b"", 0), False)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_store_that_was_just_made_keeps_what_was_synced(seed: int) -> None:
    disk = SimDisk(Random(seed))
    files, _ = recover(disk)
    files.append([put("/a")])
    files.sync()
    disk.crash_machine()
    _, tree = recover(disk)
    assert "/a" in tree


@pytest.mark.parametrize("seed", SEEDS)
def test_a_store_whose_making_was_cut_short_keeps_what_is_synced_later(seed: int) -> None:
    disk = SimDisk(Random(seed))
    files = StoreFiles(disk.mount(), "store")
    disk.faults.strike_after(seed % 4, disk.crash_process)
    with pytest.raises(Revoked):
        files.recover(NodeTree())
    files, _ = recover(disk)
    files.append([put("/a")])
    files.sync()
    disk.crash_machine()
    _, tree = recover(disk)
    assert "/a" in tree


@pytest.mark.parametrize("seed", SEEDS)
def test_changes_visible_after_a_process_crash_survive_a_power_cut(seed: int) -> None:
    disk = SimDisk(Random(seed))
    files, _ = recover(disk)
    files.append([put("/a")])
    disk.crash_process()
    _, shown = recover(disk)
    disk.crash_machine()
    _, tree = recover(disk)
    assert "/a" in shown
    assert "/a" in tree
