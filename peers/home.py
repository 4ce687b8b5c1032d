"""Where a process runs: on this machine's own network, or in a network namespace of its own."""

from typing import NamedTuple


class Home(NamedTuple):
    """The address to listen on, and what goes before a command to run it there."""

    host: str = "127.0.0.1"
    prefix: tuple[str, ...] = ()


HERE = Home()
