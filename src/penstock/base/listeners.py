"""The addresses that a broker binds and those that clients connect to: `listeners`, `advertised.listeners`.

A listener has a name, and the name a protocol (`listener.security.protocol.map`). Only PLAINTEXT is supported.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from penstock.base.errors import SettingError

PLAINTEXT = "PLAINTEXT"
# Kafka's other protocols. A listener with such a name has that protocol, unless the map says otherwise.
_NOT_SPOKEN = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")

_LISTENER = re.compile(r"(?P<name>[A-Za-z0-9_]+)://(?P<address>.*)\Z")
_ADDRESS = re.compile(r"(\[(?P<v6>[0-9a-fA-F:.%a-z]+)\]|(?P<host>[^:\[\]/\s]*)):(?P<port>[0-9]{1,5})\Z")
_PORT_MAX = 65535

# Addresses to bind, to which no client can connect.
_EVERY_ADDRESS = ("", "0.0.0.0", "::")


class Listener(NamedTuple):
    """One endpoint. An empty host binds every address; port 0 lets the system choose."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.name}://{render_address(self.host, self.port)}"


def render_address(host: str, port: int) -> str:
    """HOST:PORT, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_address(text: str) -> tuple[str, int]:
    """HOST:PORT or [IPv6]:PORT in its parts; SettingError if it is neither."""
    match = _ADDRESS.match(text)
    if match is None or int(match["port"]) > _PORT_MAX:
        raise SettingError(
            f"{text!r} is not an address: HOST:PORT or [IPv6]:PORT is expected, PORT up to 65535"
        )
    return match["v6"] or match["host"], int(match["port"])


def parse_listener(text: str) -> Listener:
    """NAME://HOST:PORT in its parts; names are compared in upper case, as in Kafka."""
    match = _LISTENER.match(text)
    if match is None:
        raise SettingError(f"{text!r} is not a listener: NAME://HOST:PORT is expected")
    host, port = parse_address(match["address"])
    return Listener(match["name"].upper(), host, port)


def bound_listeners(texts: Sequence[str], protocols: Sequence[str]) -> tuple[Listener, ...]:
    """The endpoints to bind. `protocols` is the map from listener names to protocols, NAME:PROTOCOL each."""
    listeners = tuple(parse_listener(text) for text in texts)
    if not listeners:
        raise SettingError("listeners is empty: a broker needs one listener at least")
    _check_names("listeners", listeners)
    spoken = _protocol_map(protocols)
    taken: dict[tuple[str, int], Listener] = {}
    for listener in listeners:
        if listener.name not in spoken and listener.name in _NOT_SPOKEN:
            raise SettingError(_not_spoken(f"listener {listener}", listener.name))
        if spoken.get(listener.name) != PLAINTEXT:
            raise SettingError(
                f"listener {listener} has no protocol: listener.security.protocol.map has to say "
                f"{listener.name}:{PLAINTEXT}"
            )
        twin = taken.setdefault((listener.host, listener.port), listener)
        if listener.port and twin is not listener:
            raise SettingError(f"listeners {twin} and {listener} have the same address")
    return listeners


def advertised_listeners(texts: Sequence[str], bound: Sequence[Listener]) -> tuple[Listener, ...]:
    """The addresses for clients; if none are configured, the bound endpoints themselves."""
    advertised = tuple(parse_listener(text) for text in texts) or tuple(bound)
    _check_names("advertised.listeners", advertised)
    for listener in advertised:
        if listener.name not in [other.name for other in bound]:
            raise SettingError(f"advertised.listeners has {listener}, but listeners has no {listener.name}")
        if listener.host in _EVERY_ADDRESS:
            raise SettingError(
                f"no client can connect to {listener}: advertised.listeners has to name the host under which "
                f"clients reach this broker, for example {listener.name}://localhost:{listener.port}"
            )
    return advertised


def _protocol_map(pairs: Sequence[str]) -> dict[str, str]:
    protocols = {}
    for pair in pairs:
        name, colon, protocol = pair.partition(":")
        if colon and protocol.strip().upper() in _NOT_SPOKEN:
            raise SettingError(
                _not_spoken(f"listener.security.protocol.map has {pair.strip()}", protocol.strip().upper())
            )
        if not colon or protocol.strip().upper() != PLAINTEXT:
            raise SettingError(
                f"listener.security.protocol.map cannot have {pair!r}: NAME:{PLAINTEXT} is expected, as no "
                "other protocol is spoken yet"
            )
        protocols[name.strip().upper()] = PLAINTEXT
    return protocols


def _not_spoken(what: str, protocol: str) -> str:
    return (
        f"{what}: {protocol} is not supported yet; this broker supports {PLAINTEXT} only, without authentication. Use "
        f"a {PLAINTEXT} listener in a trusted network, or behind a proxy that terminates TLS"
    )


def _check_names(setting: str, listeners: Sequence[Listener]) -> None:
    names = [listener.name for listener in listeners]
    for name in names:
        if names.count(name) > 1:
            raise SettingError(f"{setting} has {name} more than once: each listener needs a name of its own")
