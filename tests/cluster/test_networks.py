"""The networks of the chaos tests: a cut link delivers nothing, a healed one continues, others are not affected.

Both kinds are shown: the proxy's links, and, where they can be had, network namespaces.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from peers.home import HERE, Home
from peers.ports import free_ports
from tests.chaos.cluster.links import Links
from tests.chaos.cluster.namespaces import OUTSIDE, Namespaces, NoNamespacesError

PATIENCE_S = 30
SILENCE_S = 0.5

ECHO = """
import socketserver, sys
class Echo(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            self.wfile.write(line)
server = socketserver.ThreadingTCPServer((sys.argv[1], int(sys.argv[2])), Echo)
server.daemon_threads = True
print("ready", flush=True)
server.serve_forever()
"""

# Sends each word of its stdin to a server and prints the answer, or "-" if it comes too late.
TALK = """
import socket, sys
talk = socket.create_connection((sys.argv[1], int(sys.argv[2])))
answers = talk.makefile()
for line in sys.stdin:
    word, seconds = line.split()
    talk.settimeout(None)
    talk.sendall(f"{word}\\n".encode())
    talk.settimeout(float(seconds))
    try:
        heard = talk.recv(4096).decode().split()
    except TimeoutError:
        heard = []
    print(" ".join(heard) or "-", flush=True)
"""


class Program:
    """A small program in a process, that answers line by line."""

    def __init__(self, text: str, home: Home, *arguments: object) -> None:
        command = [*home.prefix, sys.executable, "-c", text, *map(str, arguments)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def heard(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def say(self, word: str, *, patience_s: float = PATIENCE_S) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word} {patience_s}\n")
        self.process.stdin.flush()
        return self.heard()

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def start(stack: ExitStack, text: str, home: Home, *arguments: object) -> Program:
    program = Program(text, home, *arguments)
    stack.callback(program.close)
    return program


def test_links_are_silent_while_they_are_cut(stack: ExitStack):
    (port,) = free_ports(1)
    links = Links()
    own = links.add("server", port=port)
    stack.enter_context(links)
    assert start(stack, ECHO, HERE, "127.0.0.1", port).heard() == "ready"
    talker, other = (start(stack, TALK, HERE, "127.0.0.1", own) for _ in range(2))
    links.know("talker", lambda: talker.process.pid)
    links.know("other", lambda: other.process.pid)

    assert (talker.say("one"), other.say("one")) == ("one", "one")
    links.cut("talker", "server")
    assert (talker.say("two", patience_s=SILENCE_S), other.say("two")) == ("-", "two")
    links.mend()
    assert talker.say("three").split()[0] == "two", "what was under way arrives"


def test_namespaces_are_silent_while_they_are_cut_and_leave_nothing_behind(stack: ExitStack):
    try:
        namespaces = stack.enter_context(Namespaces(["server", "talker"]))
    except NoNamespacesError as error:
        pytest.skip(f"the proxy does it here: {error}")
    server, port = namespaces.home("server"), 7000
    assert start(stack, ECHO, server, server.host, port).heard() == "ready"
    talker = start(stack, TALK, namespaces.home("talker"), server.host, port)
    outside = start(stack, TALK, HERE, server.host, port)

    assert (talker.say("one"), outside.say("one")) == ("one", "one")
    namespaces.cut("talker", "server")
    assert (talker.say("two", patience_s=SILENCE_S), outside.say("two")) == ("-", "two")
    namespaces.cut("server", OUTSIDE)
    assert outside.say("three", patience_s=SILENCE_S) == "-"
    namespaces.mend()
    assert (talker.say("four").split()[0], outside.say("four").split()[0]) == ("two", "three")

    stack.close()
    left = [
        subprocess.run(["ip", *what], capture_output=True, text=True, check=True).stdout
        for what in (["link"], ["netns"])
    ]
    assert f"pstk{namespaces.owner}" not in "".join(left)
