"""Ports of this machine that nobody listens on."""

import socket


def free_ports(count: int) -> list[int]:
    """So many different ports of the loopback interface that were free a moment ago."""
    # All are held at once, so that they differ.
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
