"""The session of a store that is reached over a network: what is known of it, who wants to hear, what is refused."""

from collections.abc import Callable

from penstock.world.loop import Loop
from penstock.world.store import ConnectionLossError, SessionExpiredError, SessionState


class StoreSession:
    """Begins suspended, is connected and suspended in turn, and stays expired."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._callbacks: list[Callable[[SessionState], None]] = []
        self._over = ""
        self.state = SessionState.SUSPENDED

    def on_change(self, callback: Callable[[SessionState], None]) -> None:
        """Call with the state as it is, soon, and with every other from then on."""
        self._callbacks.append(callback)
        self._loop.call_soon(callback, self.state)

    def connected(self) -> None:
        self._move(SessionState.CONNECTED)

    def suspended(self) -> None:
        self._move(SessionState.SUSPENDED)

    def end(self, why: str) -> None:
        """Nothing is accepted any more; only the first reason counts."""
        self._over = self._over or why
        self._move(SessionState.EXPIRED)

    def check(self) -> None:
        """Raise unless requests can be sent."""
        if self.state is not SessionState.CONNECTED:
            raise self.broken()

    def broken(self) -> ConnectionLossError | SessionExpiredError:
        """What a request gets that was not answered."""
        if self.state is SessionState.EXPIRED:
            return SessionExpiredError(self._over)
        return ConnectionLossError("the link to the metadata store is broken")

    def _move(self, state: SessionState) -> None:
        if self.state in (state, SessionState.EXPIRED):
            return
        self.state = state
        for callback in self._callbacks:
            self._loop.call_soon(callback, state)
