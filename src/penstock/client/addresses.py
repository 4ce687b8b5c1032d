"""Where brokers listen: "host:port", several separated by commas."""

from typing import NamedTuple

from penstock.base.errors import UserError

DEFAULT_PORT = 9092
_PORT_MAX = 65535


class Address(NamedTuple):
    """A host and a port; printed the way it is written."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_addresses(text: str) -> tuple[Address, ...]:
    """The addresses in "one:9092,two:9092"; a port may be left out, an IPv6 host is in brackets."""
    addresses = tuple(_parse_address(part.strip()) for part in text.split(",") if part.strip())
    if not addresses:
        raise UserError("no broker address was given; write one as host:port, for example localhost:9092")
    return addresses


def _parse_address(text: str) -> Address:
    host, port = _split(text)
    if not host:
        raise UserError(f"{text!r} has no host; write a broker address as host:port")
    if not port:
        return Address(host, DEFAULT_PORT)
    if not port.isdecimal() or not 0 < int(port) <= _PORT_MAX:
        raise UserError(f"{text!r} has no valid port; write a broker address as host:port")
    return Address(host, int(port))


def _split(text: str) -> tuple[str, str]:
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        return host, rest.removeprefix(":")
    if text.count(":") > 1:
        return text, ""  # an IPv6 address on its own
    host, _, port = text.partition(":")
    return host, port
