"""What goes wrong below a log."""

from penstock.base.errors import StorageError


class CorruptionError(StorageError):
    """The log holds bytes at this place that nobody wrote. What lies elsewhere in it is still readable."""


class DamagedBatchError(CorruptionError):
    """No valid batch stands at this position of a segment's file, where one should."""

    def __init__(self, path: str, position: int, why: str) -> None:
        super().__init__(f"{path} is damaged at position {position}: {why}")
        self.path = path
        self.position = position


class DamagedIndexError(CorruptionError):
    """An index says what the batches do not bear out. It can be made again from them."""

    def __init__(self, path: str, why: str, *, base_offset: int) -> None:
        super().__init__(f"{path} is damaged: {why}")
        self.base_offset = base_offset  # of its segment


class LogFailedError(StorageError):
    """The log met a disk error earlier and takes nothing more until the broker is started again."""


class NoRoomError(StorageError):
    """The disk is full. What was to be written is not there, and the log goes on: there may be room later."""
