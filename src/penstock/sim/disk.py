"""A simulated disk: it outlives its broker's process, and after a crash has what the contract in `world.disk` says.

    disk = SimDisk(random)
    mounted = disk.mount()        # `world.Disk`, for one process of a node
    disk.faults.full = True       # injects a fault
    disk.crash_machine()          # revokes `mounted`; the next `mount` has what the device had

A process crash keeps everything that was written: the page cache is the kernel's. A machine crash keeps what was synced
of each file and directory, and a part of the rest, chosen by the seeded `random`. A mounted disk of a killed process
raises `Revoked` at any use.
"""

from collections.abc import Mapping
from random import Random

from penstock.sim.bit_rot import is_detectable
from penstock.sim.disk_device import Device, DirectoryNode, FileNode, path_of
from penstock.sim.disk_faults import DiskFaults
from penstock.sim.disk_operations import DiskOperation, Watcher
from penstock.sim.mounted_disk import MountedDisk

PAGE_BYTES = 4096


def _no_watcher(operation: DiskOperation, path: str, count: int) -> None:
    pass


class SimDisk:
    """One machine's disk."""

    def __init__(
        self,
        random: Random,
        *,
        watcher: Watcher = _no_watcher,
        page_bytes: int = PAGE_BYTES,
        size_max: int | None = None,
        can_sync_all: bool = True,
    ) -> None:
        """`watcher` is called for every operation; `can_sync_all`: the system has syncfs."""
        self.faults = DiskFaults()
        self.watcher = watcher
        self.random = random
        self._page_bytes = page_bytes
        self._size_max = size_max
        self._can_sync_all = can_sync_all
        self._device = Device()
        self._mounted: MountedDisk | None = None
        # Directories that the node did not create, with their files.
        self.foreign: list[tuple[str, Mapping[str, bytes]]] = []
        self._foreign_files: set[FileNode] = set()

    def mount(self) -> MountedDisk:
        """Mount the disk for a new process of the node; revokes the mounted disk of the one before."""
        if self._mounted is not None:
            self.crash_process()
        self._mounted = MountedDisk(
            self._device,
            self.faults,
            self.random,
            self._notify_watcher,
            size_max=self._size_max,
            can_sync_all=self._can_sync_all,
        )
        return self._mounted

    def _notify_watcher(self, operation: DiskOperation, path: str, count: int) -> None:
        self.watcher(operation, path, count)

    # ---- crashes

    def crash_process(self) -> None:
        """The node's process was killed; the page cache keeps what it wrote."""
        self.faults.call_off_strike()
        if self._mounted is not None:
            self._mounted.revoke()
            self._mounted = None

    def crash_machine(self) -> None:
        """The machine lost power; the device has what was synced, and some of the rest."""
        self.crash_process()
        self._device.root.lose_power(self.random, page_bytes=self._page_bytes)

    # ---- bit rot

    def flip_bit(self, *, suffix: str = "", spare: str | None = None) -> str | None:
        """Flip one bit of a synced file; its path, or None if there is no such file.

        Only files whose names end with `suffix` are chosen, none in the directory `spare`, and no foreign files.
        """
        settled = [
            file
            for file in self._device.files()
            if file.content.size
            and file not in self._foreign_files
            and file.content.is_synced
            and file.name.endswith(suffix)
            and (spare is None or not path_of(file).startswith(f"{spare}/"))
        ]
        if not settled:
            return None
        file = self.random.choice(settled)
        content = file.content
        position = self.random.randrange(content.size)
        while not is_detectable(file.name, content.cached, position):
            position = self.random.randrange(content.size)
        content.flip_bit(position, self.random.randrange(8))
        return path_of(file)

    def content(self, path: str) -> bytes:
        """The current content of a file, for tests and checkers; not noted in the history."""
        node = self._device.find(path)
        assert isinstance(node, FileNode), f"{path} is not a file"
        return bytes(node.content.cached)

    def names(self, path: str) -> list[str]:
        """The current names in a directory, synced or not."""
        return sorted(self._device.directory(path).entries)

    def paths(self) -> list[str]:
        """The paths of all current files, synced or not."""
        return [path_of(file) for file in self._device.files()]

    # ---- changes from outside of the node

    def put(self, directory: str, files: Mapping[str, bytes]) -> None:
        """Put a foreign directory with files on the disk, synced."""
        for name, content in files.items():
            self._foreign_files.add(self._device.put(f"{directory}/{name}", content))
        self.foreign.append((directory, files))

    def take_away(self, name: str) -> object:
        """Remove a directory from the disk; pass the result to `put_back` to restore it."""
        return self._device.root.take_away(name)

    def put_back(self, taken: object) -> None:
        assert isinstance(taken, DirectoryNode)
        self._device.root.put(taken)
