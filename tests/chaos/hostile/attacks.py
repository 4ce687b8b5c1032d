"""What attackers do: `python -m tests.chaos.hostile.attacks NAME HOST:PORT SECONDS`.

Each attack goes on until its time is over, opening again what the broker has closed. The first line it prints says
that it is under way.
"""

import contextlib
import os
import random
import selectors
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator

MIB = 1 << 20
CHUNK = bytes(MIB)
API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)
TINY = API_VERSIONS * 4096
TRICKLE_EVERY_S = 0.5
CONNECTIONS_PER_SECOND = 500
_NOT_NOW = (BlockingIOError, InterruptedError)

Address = tuple[str, int]


class Attacker:
    """Some connections that send given bytes as fast as the broker takes them, and never read."""

    def __init__(self, address: Address, until_s: float) -> None:
        self.address = address
        self.until_s = until_s
        self.opened = 0

    def goes_on(self) -> bool:
        return time.monotonic() < self.until_s

    def connect(self) -> socket.socket | None:
        try:
            connection = socket.create_connection(self.address, timeout=5)
        except OSError:
            time.sleep(0.01)
            return None
        connection.setblocking(False)
        self.opened += 1
        return connection

    def drive(self, count: int, contents: Callable[[], Iterator[bytes]]) -> None:
        """Keep `count` connections busy with `contents`, each on its own; an empty piece waits a moment."""
        selector = selectors.DefaultSelector()
        resting: list[tuple[float, socket.socket, Sender]] = []
        said = False
        while self.goes_on():
            while len(selector.get_map()) + len(resting) < count and self.goes_on():
                connection = self.connect()
                if connection is not None:
                    selector.register(connection, selectors.EVENT_WRITE, Sender(contents()))
            if not said:
                print("under way", flush=True)
                said = True
            for key, _ in selector.select(0.05):
                connection, sender = key.fileobj, key.data
                assert isinstance(connection, socket.socket)
                try:
                    goes_on = sender.send(connection)
                except OSError:
                    selector.unregister(connection)
                    connection.close()
                    continue
                if not goes_on:
                    selector.unregister(connection)
                    resting.append((time.monotonic() + TRICKLE_EVERY_S, connection, sender))
            now = time.monotonic()
            for entry in [entry for entry in resting if entry[0] <= now]:
                resting.remove(entry)
                selector.register(entry[1], selectors.EVENT_WRITE, entry[2])


class Sender:
    """What one connection sends."""

    def __init__(self, contents: Iterator[bytes]) -> None:
        self._contents = contents
        self._piece = memoryview(b"")

    def send(self, connection: socket.socket) -> bool:
        """Send a piece, or a part of it; False if it is time to wait."""
        if not self._piece:
            self._piece = memoryview(next(self._contents, b""))
            if not self._piece:
                return False
        with contextlib.suppress(*_NOT_NOW):
            self._piece = self._piece[connection.send(self._piece) :]
        return True


def slow_large_requests(attacker: Attacker) -> None:
    """Seven requests of 85 MB: all but a megabyte at once, then a byte now and then."""

    def contents() -> Iterator[bytes]:
        yield struct.pack(">i", 85 * MIB)
        for _ in range(84):
            yield CHUNK
        while True:
            yield b""
            yield b"x"

    attacker.drive(7, contents)


def announced_only(attacker: Attacker) -> None:
    """Four hundred requests of 2 MB that are announced, and of which next to nothing comes."""

    def contents() -> Iterator[bytes]:
        yield struct.pack(">i", 2 * MIB - 100) + b"x" * 5000
        while True:
            yield b""
            yield b"x"

    attacker.drive(400, contents)


def many_large_requests(attacker: Attacker) -> None:
    """Thirty requests of 80 MB at once, over and over."""

    def contents() -> Iterator[bytes]:
        while True:
            # A produce request with acks=1 to a topic that is not there: taken in whole, and answered with an error.
            head = struct.pack(">hhih", 0, 3, 1, -1) + struct.pack(">hhii", -1, 1, 1000, 1)
            head += struct.pack(">h", 4) + b"none" + struct.pack(">iii", 1, 0, 80 * MIB)
            yield struct.pack(">i", len(head) + 80 * MIB) + head
            for _ in range(80):
                yield CHUNK

    attacker.drive(30, contents)


def pipelining(count: int) -> Callable[[Attacker], None]:
    def attack(attacker: Attacker) -> None:
        def contents() -> Iterator[bytes]:
            while True:
                yield TINY

        attacker.drive(count, contents)

    attack.__doc__ = (
        f"Tiny requests from {count} connections, as many as the broker takes, no answer ever read."
    )
    return attack


def pipelining_and_reading(attacker: Attacker) -> None:
    """Tiny requests from two connections, as many as the broker takes, all answers read."""
    selector = selectors.DefaultSelector()
    for _ in range(2):
        connection = socket.create_connection(attacker.address, timeout=5)
        connection.setblocking(False)
        selector.register(connection, selectors.EVENT_WRITE | selectors.EVENT_READ)
    print("under way", flush=True)
    while attacker.goes_on():
        for key, events in selector.select(0.05):
            assert isinstance(key.fileobj, socket.socket)
            with contextlib.suppress(*_NOT_NOW):
                if events & selectors.EVENT_READ:
                    key.fileobj.recv(MIB)
                if events & selectors.EVENT_WRITE:
                    key.fileobj.send(TINY)


def connection_flood(attacker: Attacker) -> None:
    """Connections that come and go, or stay and say nothing, five hundred a second."""
    kept: list[socket.socket] = []
    print("under way", flush=True)
    began = time.monotonic()
    while attacker.goes_on():
        connection = attacker.connect()
        if connection is not None:
            kept.append(connection)
        if len(kept) > 500:
            for connection in kept:
                connection.close()
            kept.clear()
        time.sleep(max(0.0, began + attacker.opened / CONNECTIONS_PER_SECOND - time.monotonic()))


def garbage(attacker: Attacker) -> None:
    """Frames of random bytes, announced soundly, and bytes that are no frames at all."""
    chance = random.Random(1)
    sent = 0
    print("under way", flush=True)
    began = time.monotonic()
    while attacker.goes_on():
        connection = attacker.connect()
        if connection is None:
            continue
        body = chance.randbytes(chance.choice([1, 8, 14, 40, 3000, 60_000]))
        if chance.random() < 0.5:  # sounds like a request of some API
            body = struct.pack(">hhih", chance.randrange(80), chance.randrange(14), 1, -1) + body
        with contextlib.suppress(OSError):
            connection.send(struct.pack(">i", len(body)) + body if chance.random() < 0.8 else body)
        connection.close()
        sent += 1
        time.sleep(max(0.0, began + sent / CONNECTIONS_PER_SECOND - time.monotonic()))


ATTACKS: dict[str, Callable[[Attacker], None]] = {
    "slow-large-requests": slow_large_requests,
    "announced-only": announced_only,
    "many-large-requests": many_large_requests,
    "pipelining-2": pipelining(2),
    "pipelining-100": pipelining(100),
    "pipelining-and-reading": pipelining_and_reading,
    "connection-flood": connection_flood,
    "garbage": garbage,
}


def main(words: list[str]) -> None:
    name, bootstrap, seconds = words
    os.nice(29)  # as low as it goes: its own CPU is not what is measured
    host, _, port = bootstrap.rpartition(":")
    ATTACKS[name](Attacker((host, int(port)), time.monotonic() + float(seconds)))


if __name__ == "__main__":
    main(sys.argv[1:])
