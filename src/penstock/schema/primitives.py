"""Functions that generated readers and writers call: varints, skipping unknown tags, errors."""

from typing import NoReturn

from penstock.base.buffers import Buffer
from penstock.base.errors import PeerError


def read_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """An unsigned 32-bit varint and the position after it."""
    value = shift = 0
    while True:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                raise PeerError("a varint does not fit 32 bits")
            return value, position
        shift += 7
        if shift > 28:
            raise PeerError("a varint is longer than five bytes")


def varint(value: int) -> bytes:
    """`value`, not negative, as an unsigned varint."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def skip_tags(buffer: Buffer, position: int, end: int, room: int) -> tuple[int, int]:
    """Skips a section of tagged fields, none of which is known.

    Returns the position after it, and the rest of `room`, the number of elements that may still follow.
    """
    count, position = read_varint(buffer, position)
    if count > room:
        refuse("tagged fields", f"{count} of them are too many")
    for _ in range(count):
        _, position = read_varint(buffer, position)
        size, position = read_varint(buffer, position)
        position += size
        if position > end:
            refuse("tagged fields", "reach past the end")
    return position, room - count


def refuse(what: str, why: str) -> NoReturn:
    """Raise PeerError: the peer violated the protocol."""
    raise PeerError(f"{what}: {why}")


def unwritable(what: str, version: int) -> NoReturn:
    """Raise ValueError: this version cannot encode the value."""
    raise ValueError(f"{what} cannot be written in version {version}")
