"""The connection between a simulated store and its server: delays messages, keeps their order, and may break."""

import random
from collections import deque
from collections.abc import Callable
from functools import partial

from penstock.world.loop import Loop

DELAY_S_MAX = 0.005

# Some messages are delayed much longer, so that watches fire late.
HELD_UP_ONE_IN = 50
HELD_UP_S_MAX = 0.5


class Direction:
    """Carries calls to one side, where they run as a part of the receiving process."""

    def __init__(self, receiver: Loop, chance: random.Random) -> None:
        self._receiver = receiver
        self._chance = chance
        self._in_flight: deque[Callable[[], None]] = deque()
        self._last_due = 0.0  # on the receiver's clock
        self._is_broken = False

    def send(self, function: Callable[..., None], *arguments: object) -> None:
        if self._is_broken:
            return
        now = self._receiver.time()
        self._last_due = max(self._last_due, now + self._delay_s())
        self._in_flight.append(partial(function, *arguments))
        self._receiver.call_later(self._last_due - now, self._deliver)

    def break_off(self) -> None:
        """Break the link; messages in flight are lost."""
        self._is_broken = True
        self._in_flight.clear()

    def _deliver(self) -> None:
        if not self._is_broken:
            self._in_flight.popleft()()

    def _delay_s(self) -> float:
        held_up = self._chance.randrange(HELD_UP_ONE_IN) == 0
        return self._chance.uniform(0, HELD_UP_S_MAX if held_up else DELAY_S_MAX)


class StoreLink:
    """One connection; the order of calls is kept in each direction."""

    def __init__(self, *, store: Loop, server: Loop, chance: random.Random) -> None:
        self.to_store = Direction(store, chance)
        self.to_server = Direction(server, chance)

    def ringing(self, ring: Callable[[int], None], watch: int) -> Callable[[], None]:
        """The callback that the server keeps for a watch of the store; no effect once this link is broken."""
        return partial(self.to_store.send, ring, watch)

    def break_off(self) -> None:
        self.to_store.break_off()
        self.to_server.break_off()
