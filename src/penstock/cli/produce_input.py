"""Parses the input of `penstock produce`: bytes into lines, lines into records. `produce` reads the bytes.

A JSON line has what `penstock consume --json` prints: "key", "value", "headers" as [name, value] pairs (or an
object), "timestamp" in ms and "partition", all optional. "topic" and "offset" are ignored; any other field is an
error. Bytes that are not UTF-8 are {"base64": "..."}.
"""

import base64
import binascii
import difflib
import json
from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from penstock.base.errors import UserError
from penstock.client.producer import NewRecord
from penstock.records.record import Headers


class LineError(UserError):
    """A line that cannot be parsed as a record."""


class LineFormat(Protocol):
    """How a line becomes a record."""

    def record(self, line: bytes) -> NewRecord: ...


class TextLines(NamedTuple):
    """A line is a value, or a key and a value with a separator in between."""

    key_separator: bytes | None = None
    null_value: bytes | None = None  # a value equal to this is null, a tombstone
    headers: Headers = ()
    partition: int | None = None

    def record(self, line: bytes) -> NewRecord:
        key, value = None, line
        if self.key_separator is not None:
            key, found, value = line.partition(self.key_separator)
            if not found:
                raise LineError(f"there is no key separator {self.key_separator.decode()!r} in it")
        return NewRecord(key, None if value == self.null_value else value, self.headers, None, self.partition)


class JsonLines(NamedTuple):
    """A line is a JSON object."""

    headers: Headers = ()
    partition: int | None = None  # for records without a partition

    def record(self, line: bytes) -> NewRecord:
        try:
            fields = json.loads(line)
        except ValueError as error:
            raise LineError(f"it is not JSON: {error}") from error
        if not isinstance(fields, dict):
            raise LineError('it is JSON, but no object like {"key": "k", "value": "v"}')
        for name in fields:
            if name not in _FIELDS:
                raise LineError(f'a record has no field "{name}"; {_nearest_field(name)}')
        partition = _optional_number(fields, "partition")
        return NewRecord(
            _optional_bytes(fields, "key"),
            _optional_bytes(fields, "value"),
            (*self.headers, *_headers(fields.get("headers"))),
            _optional_number(fields, "timestamp"),
            self.partition if partition is None else partition,
        )


_FIELDS: Final = ("key", "value", "headers", "timestamp", "partition", "topic", "offset")


def _nearest_field(name: str) -> str:
    if nearest := difflib.get_close_matches(name, _FIELDS, n=1):
        return f'did you mean "{nearest[0]}"?'
    return f"it has {', '.join(_FIELDS[:-1])} and {_FIELDS[-1]}"


class LineCutter:
    """Cuts a stream into lines; they end with a line feed, which is not part of them."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []  # the beginning of an incomplete line, in pieces

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that `data` completes."""
        *lines, rest = data.split(b"\n")
        if lines:
            lines[0] = b"".join([*self._rest, lines[0]])
            self._rest.clear()
        if rest:
            self._rest.append(rest)
        return lines

    def finish(self) -> list[bytes]:
        """The rest after the last line feed, if there is any."""
        return [b"".join(self._rest)] if self._rest else []


def _headers(given: object) -> Headers:
    if given is None:
        return ()
    pairs = list(given.items()) if isinstance(given, Mapping) else given
    if not isinstance(pairs, list) or not all(_is_pair(pair) for pair in pairs):
        raise LineError('its "headers" are no list of [name, value] pairs')
    return tuple((name, _bytes(value, f'the header "{name}"')) for name, value in pairs)


def _is_pair(pair: object) -> bool:
    return isinstance(pair, list | tuple) and len(pair) == 2 and isinstance(pair[0], str)


def _optional_bytes(fields: Mapping[str, object], name: str) -> bytes | None:
    return _bytes(fields.get(name), f'its "{name}"')


def _bytes(value: object, what: str) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, Mapping) and list(value) == ["base64"]:
        try:
            return base64.b64decode(value["base64"], validate=True)
        except (binascii.Error, ValueError, TypeError):
            raise LineError(f"{what} is not valid base64") from None
    raise LineError(f'{what} is neither a string nor null nor {{"base64": "..."}}')


def _optional_number(fields: Mapping[str, object], name: str) -> int | None:
    value = fields.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise LineError(f'its "{name}" is no whole number of 0 or more')
    return value
