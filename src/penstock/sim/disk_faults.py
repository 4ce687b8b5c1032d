"""The faults of a simulated disk besides crashes: checked before each operation.

A fault is set from outside, and stays until it is used up or removed; a crash removes only the strike.
"""

import errno
from collections.abc import Callable
from typing import NoReturn

from penstock.sim.disk_device import error
from penstock.sim.disk_operations import CHANGES, DiskOperation


class Revoked(BaseException):
    """The process was killed, and its code uses the disk once more; nothing of the node may catch this.

    No OSError: a killed node must not handle it as a disk error.
    """


class DiskFaults:
    """The faults of one disk."""

    def __init__(self) -> None:
        self.full = False  # every append fails with ENOSPC
        self.nothing_is_cached = False  # every read waits for the device
        self.sync_delay_s = 0.0  # how long a sync takes
        self.syncs_fail = False  # all syncs fail
        self._append_error: int | None = None
        self._append_errors_left = 0
        self._sync_errors_left = 0
        self._steps_left: int | None = None
        self._on_strike: Callable[[], None] | None = None

    # ---- set from outside

    def fail_appends(self, number: int = errno.EIO, *, count: int = 1) -> None:
        """Refuse the next appends with this error; each leaves its file as it was."""
        self._append_error, self._append_errors_left = number, count

    def fail_syncs(self, count: int = 1) -> None:
        """Let the next syncs fail. A file whose sync failed fails again until the disk is mounted again."""
        self._sync_errors_left = count

    def strike_after(self, changes: int, strike: Callable[[], None]) -> None:
        """Crash in the middle of a change, after `changes` further ones: call `strike`, then raise Revoked.

        Of an append a part has reached the file by then; anything else has not begun.
        """
        self._steps_left, self._on_strike = changes, strike

    def call_off_strike(self) -> None:
        self._steps_left, self._on_strike = None, None

    @property
    def strike_is_pending(self) -> bool:
        return self._steps_left is not None

    # ---- asked by the mounted disk

    def strikes_now(self, operation: DiskOperation) -> bool:
        """Count a change; whether the strike has come."""
        if self._steps_left is None or operation not in CHANGES:
            return False
        self._steps_left -= 1
        return self._steps_left < 0

    def strike(self) -> NoReturn:
        """Let the crash happen; does not return."""
        on_strike = self._on_strike
        self.call_off_strike()
        if on_strike is not None:
            on_strike()
        raise Revoked

    def refuse_append(self, path: str, *, has_room: bool) -> None:
        if self._append_errors_left:
            self._append_errors_left -= 1
            assert self._append_error is not None
            raise error(self._append_error, path)
        if self.full or not has_room:
            raise error(errno.ENOSPC, path)

    def sync_fails(self) -> bool:
        if self._sync_errors_left:
            self._sync_errors_left -= 1
            return True
        return self.syncs_fail
