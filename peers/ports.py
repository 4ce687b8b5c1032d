"""Free ports of this machine."""

import contextlib
import random
import socket

# Below those that systems hand out: a connection that any process opens might take one of them before it is used.
_FIRST, _LAST = 10_000, 32_000


def free_ports(count: int) -> list[int]:
    """So many ports of the loopback interface, one behind the other, that were free a moment ago."""
    while True:
        first = random.randrange(_FIRST, _LAST - count)
        ports = list(range(first, first + count))
        with contextlib.ExitStack() as held, contextlib.suppress(OSError):
            for port in ports:
                held.enter_context(socket.create_server(("127.0.0.1", port)))
            return ports
