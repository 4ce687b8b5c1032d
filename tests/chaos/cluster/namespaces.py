"""Network namespaces on one bridge: every process has a network of its own, as if it had a machine of its own.

A cut is silent, as when a cable is pulled: each side gets a neighbour entry that maps the other's address to a MAC
address that no interface has, so what they send is lost on the bridge. No firewall is needed, and established
connections break only when TCP times out. The addresses are of the block that RFC 2544 reserves for tests of networks.

Names carry the number of the process that made them: what one that was killed left behind, the next one removes.
"""

import contextlib
import os
import subprocess
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from peers.home import Home

OUTSIDE = "outside"  # processes in no namespace: clients
_PREFIX = "pstk"
_UNUSED_MAC = "02:00:00:00:00:99"
_NETWORKS = 256


class NoNamespacesError(Exception):
    """This machine, or this user, cannot have network namespaces."""


class Namespaces:
    """One for each name, and the bridge between them, from here until `close`."""

    def __init__(self, names: Sequence[str]) -> None:
        _remove_what_the_dead_left()
        self.owner = os.getpid()
        self._own = f"{_PREFIX}{self.owner}"
        self._names = list(names)
        self._cut: set[tuple[str, str]] = set()
        try:
            network = self._make_bridge()
            self._addresses = {name: f"{network}.{number}" for number, name in enumerate(names, start=2)}
            self._addresses[OUTSIDE] = f"{network}.1"
            for number, name in enumerate(names):
                self._make(number, name)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def home(self, name: str) -> Home:
        return Home(self._addresses[name], ("ip", "netns", "exec", self._namespace(name)))

    def cut(self, one: str, other: str) -> None:
        for near, far in ((one, other), (other, one)):
            if (near, far) not in self._cut:
                self._cut.add((near, far))
                self._neighbour(near, "replace", far, "lladdr", _UNUSED_MAC, "nud", "permanent")

    def mend(self) -> None:
        """All that was cut."""
        for near, far in sorted(self._cut):
            self._neighbour(near, "del", far)
        self._cut.clear()

    def close(self) -> None:
        _remove(self._own)

    def _make_bridge(self) -> str:
        """The first three numbers of the addresses on it."""
        _ip("link", "add", self._own, "type", "bridge")
        _ip("link", "set", self._own, "up")
        taken = _ip("-4", "-oneline", "address")
        network = next(
            each for number in range(_NETWORKS) if f" {(each := f'198.18.{number}')}." not in taken
        )
        _ip("address", "add", f"{network}.1/24", "dev", self._own)
        return network

    def _make(self, number: int, name: str) -> None:
        namespace, outer = self._namespace(name), f"{self._own}v{number}"
        _ip("netns", "add", namespace)
        _ip("link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", namespace)
        _ip("link", "set", outer, "master", self._own, "up")
        _ip("-n", namespace, "address", "add", f"{self._addresses[name]}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            _ip("-n", namespace, "link", "set", device, "up")

    def _neighbour(self, near: str, change: str, far: str, *more: str) -> None:
        where = ("-n", self._namespace(near)) if near != OUTSIDE else ()
        device = "eth0" if near != OUTSIDE else self._own
        _ip(*where, "neighbour", change, self._addresses[far], *more, "dev", device)

    def _namespace(self, name: str) -> str:
        return f"{self._own}-{name}"


def _remove_what_the_dead_left() -> None:
    owners = {
        line.split()[1].rstrip(":") for line in _ip("-oneline", "link", "show", "type", "bridge").splitlines()
    }
    owners |= {line.split()[0].partition("-")[0] for line in _ip("netns", "list").splitlines()}
    for owner in owners:
        pid = owner.removeprefix(_PREFIX)
        if owner.startswith(_PREFIX) and pid.isdigit() and not os.path.exists(f"/proc/{pid}"):
            _remove(owner)


def _remove(owner: str) -> None:
    """The namespaces, cards and bridge of an owner. Cards would go with their namespace, but some time later."""
    with contextlib.suppress(NoNamespacesError):
        for line in _ip("netns", "list").splitlines():
            if line.startswith(f"{owner}-"):
                _ip("netns", "del", line.split()[0])
        for line in _ip("-oneline", "link", "show", "master", owner).splitlines():
            _ip("link", "del", line.split()[1].partition("@")[0])
    with contextlib.suppress(NoNamespacesError):
        _ip("link", "del", owner)


def _ip(*arguments: str) -> str:
    try:
        done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=True)
    except FileNotFoundError as error:
        raise NoNamespacesError("there is no `ip` on this machine (iproute2)") from error
    except subprocess.CalledProcessError as error:
        raise NoNamespacesError(f"`ip {' '.join(arguments)}`: {error.stderr.strip()}") from error
    return done.stdout
