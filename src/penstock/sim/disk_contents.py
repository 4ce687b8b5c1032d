"""One file's bytes: as the page cache has them, and as the device would give them back after a power cut.

The device has the bytes of the last sync. Of the appends and truncations since then it has those up to some moment, in
their order, and any page appended since may be zeros: file systems grow a file before they write into it.
"""

from random import Random


class Content:
    """The bytes of a file. Every open handle reads `cached`."""

    def __init__(self) -> None:
        self.cached = bytearray()
        self.cold_upto = 0  # below, a read has to wait for the device
        self._synced_size = 0
        # Of the synced bytes the first `_shared` are those of `cached`; those behind were cut since, and stand here.
        self._shared = 0
        self._cut_off = b""
        self._changes: list[
            bytes | int
        ] = []  # since the last sync: what was appended, or the size it was cut to

    @property
    def size(self) -> int:
        return len(self.cached)

    @property
    def is_synced(self) -> bool:
        return not self._changes

    def append(self, data: bytes) -> None:
        self.cached += data
        self._changes.append(data)

    def read(self, position: int, count: int) -> bytes:
        return bytes(self.cached[position : position + count])

    def truncate(self, size: int) -> None:
        if size < self._shared:
            self._cut_off = bytes(self.cached[size : self._shared]) + self._cut_off
            self._shared = size
        # A new object: a reader in another thread may be looking at the old one.
        self.cached = self.cached[:size]
        self.cold_upto = min(self.cold_upto, size)
        self._changes.append(size)

    def sync(self) -> None:
        self._synced_size = self._shared = len(self.cached)
        self._cut_off = b""
        self._changes = []

    def flip_bit(self, position: int, bit: int) -> None:
        """Flip one bit, for readers, and on the device if the byte is synced."""
        self.cached[position] ^= 1 << bit

    def lose_power(self, random: Random, *, page_bytes: int) -> None:
        """Go back to the bytes of the device; `random` decides how many unsynced ones it has."""
        content = self.cached[: self._shared] + self._cut_off
        certain = len(content)
        for change in self._changes[: random.randint(0, len(self._changes))]:
            if isinstance(change, int):
                del content[change:]
                certain = min(certain, change)
            else:
                content += change
        if random.random() < 0.5:
            del content[random.randint(certain, len(content)) :]
        if random.random() < 0.5:
            _leave_holes(content, certain, random, page_bytes)
        self.cached = content
        self.cold_upto = len(content)
        self.sync()


def _leave_holes(content: bytearray, certain: int, random: Random, page_bytes: int) -> None:
    for start in range(certain - certain % page_bytes, len(content), page_bytes):
        if random.random() < 0.3:
            first, end = max(start, certain), min(start + page_bytes, len(content))
            content[first:end] = bytes(end - first)
