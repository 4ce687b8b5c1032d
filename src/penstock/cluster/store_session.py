"""The session state of a store that is reached over a network: its listeners, and the errors that it causes."""

from collections.abc import Callable

from penstock.world.loop import Loop
from penstock.world.store import ConnectionLossError, SessionExpiredError, SessionState


class StoreSession:
    """Starts suspended, alternates between connected and suspended; once it is expired, it stays so."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._callbacks: list[Callable[[SessionState], None]] = []
        self._over = ""
        self.state = SessionState.SUSPENDED

    def on_change(self, callback: Callable[[SessionState], None]) -> None:
        """Call `callback` soon with the current state, and then with each new state."""
        self._callbacks.append(callback)
        self._loop.call_soon(callback, self.state)

    def connected(self) -> None:
        self._move(SessionState.CONNECTED)

    def suspended(self) -> None:
        self._move(SessionState.SUSPENDED)

    def end(self, why: str) -> None:
        """Expire the session: further requests are refused. Only the first reason is kept."""
        self._over = self._over or why
        self._move(SessionState.EXPIRED)

    def check(self) -> None:
        """Raise unless requests can be sent."""
        if self.state is not SessionState.CONNECTED:
            raise self.broken()

    def broken(self) -> ConnectionLossError | SessionExpiredError:
        """The error for a request that was not answered."""
        if self.state is SessionState.EXPIRED:
            return SessionExpiredError(self._over)
        return ConnectionLossError("the link to the metadata store is broken")

    def _move(self, state: SessionState) -> None:
        if self.state in (state, SessionState.EXPIRED):
            return
        self.state = state
        for callback in self._callbacks:
            self._loop.call_soon(callback, state)
