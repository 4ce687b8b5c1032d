"""What goes wrong below a log."""

from penstock.base.errors import StorageError


class CorruptionError(StorageError):
    """The log holds bytes at this place that nobody wrote. What lies elsewhere in it is still readable."""


class LogFailedError(StorageError):
    """The log met a disk error earlier and takes nothing more until the broker is started again."""


class NoRoomError(StorageError):
    """The disk is full. Nothing of the append is there, and the log goes on: there may be room later."""
