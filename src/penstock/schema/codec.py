"""Decodes and encodes messages: `decode` and `encode`.

For any input, `decode` returns a message or raises PeerError. It trusts no size in the input, and it limits the number
of elements: 1 MB of tiny structs takes 20 MB of memory and a third of a second to read. Fields that a version lacks
have their defaults; unknown tagged fields are skipped. The reader or writer of a message and version is generated at
its first use.
"""

from collections.abc import Callable
from struct import error as StructError
from typing import Any, Final, TypeAlias, TypeVar

from penstock.base.buffers import Buffer
from penstock.base.errors import PeerError
from penstock.schema.reading import make_reader
from penstock.schema.words import Versioned
from penstock.schema.writing import make_writer

M = TypeVar("M", bound=Versioned)

Reader: TypeAlias = Callable[[Buffer, int, int], Any]
Writer: TypeAlias = Callable[[Any], list[Buffer]]

UNREADABLE: Final = (StructError, IndexError, UnicodeDecodeError)

# Array elements and tagged fields in one message. The metadata of a hundred thousand partitions has 700,000.
ELEMENTS_MAX: Final = 1_000_000

_readers: dict[tuple[type[Versioned], int], Reader] = {}
_writers: dict[tuple[type[Versioned], int], Writer] = {}


def decode(
    shape: type[M], version: int, buffer: Buffer, position: int = 0, *, elements_max: int = ELEMENTS_MAX
) -> M:
    """The message that `buffer` holds at `position`; PeerError if there is none. What follows it is ignored."""
    reader = _readers.get((shape, version)) or _new_reader(shape, version)
    try:
        message: M = reader(buffer, position, elements_max)
    except UNREADABLE as error:
        raise unreadable(shape, version, error) from None
    return message


def encode(message: Versioned, version: int) -> list[Buffer]:
    """The message's bytes as chunks, records not copied; ValueError if the version cannot carry it."""
    shape = type(message)
    writer = _writers.get((shape, version)) or _new_writer(shape, version)
    try:
        return writer(message)
    except StructError as error:
        raise ValueError(f"{shape.__name__} v{version}: {error}") from error


def reader_of(shape: type[Versioned], version: int) -> Reader:
    """The function that `decode` calls, for callers that keep it to avoid the lookup for each message.

    It may raise any of `UNREADABLE` besides PeerError: `unreadable` turns that into a PeerError.
    """
    return _readers.get((shape, version)) or _new_reader(shape, version)


def writer_of(shape: type[Versioned], version: int) -> Writer:
    """The function that `encode` calls; it raises struct.error if a value does not fit."""
    return _writers.get((shape, version)) or _new_writer(shape, version)


def unreadable(shape: type[Versioned], version: int, error: Exception) -> PeerError:
    """The PeerError to raise when a reader fails with one of `UNREADABLE`."""
    if isinstance(error, UnicodeDecodeError):
        return PeerError(f"{shape.__name__} v{version} has a string that is not UTF-8: {error.reason}")
    return PeerError(f"{shape.__name__} v{version} ends early")


def _new_reader(shape: type[Versioned], version: int) -> Reader:
    if not shape.has_version(version):
        raise PeerError(f"{shape.__name__} has no version {version}")
    reader = _readers[shape, version] = make_reader(shape, version)
    return reader


def _new_writer(shape: type[Versioned], version: int) -> Writer:
    if not shape.has_version(version):
        raise ValueError(f"{shape.__name__} has no version {version}")
    writer = _writers[shape, version] = make_writer(shape, version)
    return writer
