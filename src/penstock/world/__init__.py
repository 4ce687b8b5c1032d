"""The seam to everything outside the process.

The broker gets a `World` and touches nothing else: the loop (time, timers, servers, connections), the disk,
the metadata store, work off the loop, and entropy. `world.real` is the production world; tests and the
simulation bring their own. Nothing outside this package imports time, random, os, threading or socket.
"""

from dataclasses import dataclass

from penstock.world.disk import Disk
from penstock.world.entropy import Entropy
from penstock.world.loop import Loop
from penstock.world.store import Store
from penstock.world.work import Work

__all__ = ["Disk", "Entropy", "Loop", "Store", "Work", "World"]


@dataclass(frozen=True)
class World:
    """Everything outside, as one broker sees it."""

    loop: Loop
    disk: Disk
    store: Store
    work: Work
    entropy: Entropy
