"""Formats of the commands' output: tables, JSON, bytes and times as text."""

import base64
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain, islice

# The widths of a table's columns come from this many rows; later rows may be wider.
_ROWS_MEASURED = 1000
_GAP = "  "


def print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        sys.stdout.write(line + "\n")


def table(titles: Sequence[str], rows: Iterable[Sequence[object]], *, indent: str = "") -> Iterator[str]:
    """The lines of a table: numbers to the right, the rest to the left, nothing after the last column."""
    later = iter(rows)
    first = [[_cell(value) for value in row] for row in islice(later, _ROWS_MEASURED)]
    widths = [max(map(len, column)) for column in zip(titles, *first, strict=True)]
    to_the_right = [
        bool(first) and all(row[column][:1].isdigit() or row[column] == "-" for row in first)
        for column in range(len(titles))
    ]
    for row in chain([list(titles)], first, ([_cell(value) for value in row] for row in later)):
        cells = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, to_the_right, strict=True)
        )
        yield (indent + _GAP.join(cells)).rstrip()


def print_json(value: object) -> None:
    """Print one JSON document, indented."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def json_line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def json_bytes(data: bytes | None) -> str | dict[str, str] | None:
    """UTF-8 as a string, other bytes as {"base64": ...}, as `produce --json-lines` reads them."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}


def readable(data: bytes | None) -> str:
    """Bytes as text for a terminal: bytes that are not UTF-8 become U+FFFD, null becomes "null"."""
    return "null" if data is None else data.decode("utf-8", "replace")


def format_time(timestamp_ms: int) -> str:
    """A record's timestamp in UTC, to the millisecond; a dash for none."""
    if timestamp_ms < 0:
        return "-"
    try:
        moment = datetime.fromtimestamp(timestamp_ms // 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{timestamp_ms} ms"
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{timestamp_ms % 1000:03d}Z"


def format_bytes(size: int) -> str:
    if size < 1024:
        return f"{size} B"
    amount = float(size)
    for unit in ("KiB", "MiB", "GiB"):
        amount /= 1024
        if amount < 1024:
            return f"{amount:.1f} {unit}"
    return f"{amount / 1024:.1f} TiB"


def count_of(number: int, what: str) -> str:
    """A number with its noun: "1 record", "2,000 records"."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value)) or "-"
    return str(value)
