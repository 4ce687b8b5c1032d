"""The interfaces to everything outside the process.

The broker gets a `World` and uses nothing else: the event loop (time, timers, servers, connections), the disk, the
metadata store, worker threads, and entropy. The modules `real_*` implement it for production; tests and the simulation
have implementations of their own. Nothing outside this package imports time, random, os, threading or socket.
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
    """All interfaces to the outside that one broker uses."""

    loop: Loop
    disk: Disk
    store: Store
    work: Work
    entropy: Entropy
