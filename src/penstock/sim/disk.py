"""A simulated disk: outlives the node that uses it, crashes with it, and keeps what `world.disk` says a disk keeps.

    disk = SimDisk(random)
    mounted = disk.mount()        # `world.Disk`, for one life of a node
    disk.faults.full = True       # what goes wrong while it is used
    disk.crash_machine()          # revokes `mounted`; the next `mount` finds what the device had

A process crash keeps everything that was written: the page cache is the kernel's. A machine crash keeps of each file
and directory what was synced, and of the rest what the seeded `random` leaves of it. Any use of what was killed
raises `Revoked`.
"""

from collections.abc import Mapping
from random import Random

from penstock.sim.bit_rot import is_detectable
from penstock.sim.disk_device import Device, DirectoryNode, FileNode, path_of
from penstock.sim.disk_faults import DiskFaults
from penstock.sim.disk_operations import DiskOperation, Watcher
from penstock.sim.mounted_disk import MountedDisk

PAGE_BYTES = 4096


def _nobody_watches(operation: DiskOperation, path: str, count: int) -> None:
    pass


class SimDisk:
    """One machine's disk."""

    def __init__(
        self,
        random: Random,
        *,
        watcher: Watcher = _nobody_watches,
        page_bytes: int = PAGE_BYTES,
        size_max: int | None = None,
        can_sync_all: bool = True,
    ) -> None:
        """`watcher` is called for every operation; `can_sync_all` is whether the system has a call for that."""
        self.faults = DiskFaults()
        self.watcher = watcher
        self.random = random
        self._page_bytes = page_bytes
        self._size_max = size_max
        self._can_sync_all = can_sync_all
        self._device = Device()
        self._mounted: MountedDisk | None = None
        # Directories that others than the node have put there, with their files.
        self.foreign: list[tuple[str, Mapping[str, bytes]]] = []
        self._foreign_files: set[FileNode] = set()

    def mount(self) -> MountedDisk:
        """The disk for a node that starts; revokes what an earlier one had."""
        if self._mounted is not None:
            self.crash_process()
        self._mounted = MountedDisk(
            self._device,
            self.faults,
            self.random,
            self._tell,
            size_max=self._size_max,
            can_sync_all=self._can_sync_all,
        )
        return self._mounted

    def _tell(self, operation: DiskOperation, path: str, count: int) -> None:
        self.watcher(operation, path, count)

    # ---- crashes

    def crash_process(self) -> None:
        """The node is gone; the kernel has what it wrote."""
        self.faults.call_off_strike()
        if self._mounted is not None:
            self._mounted.revoke()
            self._mounted = None

    def crash_machine(self) -> None:
        """The power is gone; the device has what was synced, and some of the rest."""
        self.crash_process()
        self._device.root.lose_power(self.random, page_bytes=self._page_bytes)

    # ---- decay

    def flip_bit(self, *, suffix: str = "", spare: str | None = None) -> str | None:
        """Flip one bit of a file that lies safely on the device; its path, or None where there is none.

        `suffix` narrows the choice to names that end so; what lies in the directory `spare` is left alone,
        and so is what others put there.
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
        """What a file holds at this moment, for tests and checkers; nothing is noted."""
        node = self._device.find(path)
        assert isinstance(node, FileNode), f"{path} is not a file"
        return bytes(node.content.cached)

    def names(self, path: str) -> list[str]:
        """What a directory holds at this moment, synced or not."""
        return sorted(self._device.directory(path).entries)

    def paths(self) -> list[str]:
        """Every file at this moment, synced or not."""
        return [path_of(file) for file in self._device.files()]

    # ---- what others do with it

    def put(self, directory: str, files: Mapping[str, bytes]) -> None:
        """Put a foreign directory with files on the disk, synced."""
        for name, content in files.items():
            self._foreign_files.add(self._device.put(f"{directory}/{name}", content))
        self.foreign.append((directory, files))

    def take_away(self, name: str) -> object:
        """Take a directory away; `put_back` takes what this returns."""
        return self._device.root.take_away(name)

    def put_back(self, taken: object) -> None:
        assert isinstance(taken, DirectoryNode)
        self._device.root.put(taken)
