"""`penstock log`: shows and checks the files of a log. Needs no broker, changes nothing."""

from argparse import Namespace
from collections.abc import Iterable, Iterator
from pathlib import Path

from penstock.base.errors import UserError
from penstock.cli.consume_format import record_as_json
from penstock.cli.data_directory import FoundDirectory, directories_in, is_unknown
from penstock.cli.log_files import (
    FoundBatch,
    Trouble,
    files_to_describe,
    kind_of,
    read_offset_index,
    read_snapshot,
    read_time_index,
    records_of,
    walk_segment,
)
from penstock.cli.output import count_of, format_bytes, format_time, json_line, print_lines, readable, table
from penstock.cli.parsing import Parser, add_json, add_verb, add_verbs
from penstock.records.batch import BatchHeader
from penstock.records.errors import CorruptBatchError
from penstock.records.record import Record
from penstock.storage import file_names

_BATCH_TITLES = ("POSITION", "OFFSETS", "RECORDS", "SIZE", "CODEC", "NEWEST", "PRODUCER", "EPOCH", "NOTES")
_RECORD_TITLES = ("OFFSET", "TIMESTAMP", "KEY", "VALUE", "HEADERS")
_PRODUCER_TITLES = ("PRODUCER", "EPOCH", "LAST SEQUENCE", "LAST OFFSET", "TIMESTAMP", "OPEN TRANSACTION")
_DIRECTORY_TITLES = ("DIRECTORY", "TOPIC ID", "SEGMENTS", "SIZE", "STATE")
_UNKNOWN = (
    "the metadata did not know this partition when the broker last started; it leaves the directory alone"
)
_STATES = {
    None: None,
    "unknown": "the metadata do not know it; the broker leaves it alone",
    "stray": "renamed because a new partition needed its name; the broker leaves it alone",
    "deleted": "deleted; the broker removes the files if the metadata record the deletion",
}
_SHOWN_MAX = 60  # characters of a key or value in a table


def add_arguments(parser: Parser) -> None:
    parser.usage = f"{parser.prog} VERB [options]"
    verb = add_verb(
        add_verbs(parser),
        "describe",
        "show the batches, index entries or producers in a log's files, and check them",
        "PATH ... [options]",
    )
    verb.add_argument(
        "paths",
        metavar="PATH",
        nargs="+",
        type=Path,
        help="a .log, .index, .timeindex or .snapshot file, a partition's directory, or a whole data directory",
    )
    verb.add_argument("--records", action="store_true", help="show the records in each batch")
    add_json(verb, "print a JSON object per line")
    verb.epilog = "The exit code is 1 if anything is wrong with a file."


def run(arguments: Namespace) -> int:
    trouble_count = 0
    whole = {path: found for path in arguments.paths if (found := directories_in(path))}
    for path, found in whole.items():
        _describe_data_directory(path, found, as_json=arguments.json)
    paths = [path for path in arguments.paths if path not in whole]
    if not arguments.json:
        print_lines(f"{path}: {_UNKNOWN}" for path in paths if is_unknown(path))
    files = [file for path in paths for file in files_to_describe(path)]
    for number, path in enumerate(files):
        description = _description(path, records=arguments.records)
        if arguments.json:
            print_lines(json_line({"file": str(path), **line}) for line in description.as_json())
        else:
            print_lines([*([""] if number else []), f"{path} ({format_bytes(path.stat().st_size)})"])
            print_lines(description.as_text())
            for trouble in description.troubles:
                print_lines([f"  WRONG at position {trouble.position}: {trouble.problem}"])
        trouble_count += len(description.troubles)
    if trouble_count:
        raise UserError(f"{count_of(trouble_count, 'problem')} found in {count_of(len(files), 'file')}")
    return 0


def _describe_data_directory(path: Path, found: list[FoundDirectory], *, as_json: bool) -> None:
    if as_json:
        print_lines(
            json_line({"file": str(path), "kind": "partition directory", **each._asdict()}) for each in found
        )
        return
    print_lines([f"{path} ({count_of(len(found), 'partition')})"])
    rows = [(*each[:-2], format_bytes(each.size), _STATES[each.state]) for each in found]
    print_lines(table(_DIRECTORY_TITLES, rows, indent="  "))


class _Segment:
    """A segment's batches; `troubles` is complete when all of them have been read."""

    def __init__(self, path: Path, *, records: bool) -> None:
        self.troubles: list[Trouble] = []
        self._path = path
        self._records = records

    def as_text(self) -> Iterator[str]:
        if not self._records:
            yield from table(_BATCH_TITLES, (_batch_row(batch) for batch in self._batches()), indent="  ")
            return
        for batch in self._batches():
            yield from table(_BATCH_TITLES, [_batch_row(batch)], indent="  ")
            yield from table(_RECORD_TITLES, self._record_rows(batch), indent="      ")

    def as_json(self) -> Iterator[dict[str, object]]:
        for batch in self._batches():
            line = {"kind": "batch", **_batch_as_json(batch)}
            if self._records:
                line["records"] = [record_as_json(record) for record in self._readable(batch)]
            yield line
        yield from _troubles_as_json(self.troubles)

    def _batches(self) -> Iterator[FoundBatch]:
        for found in walk_segment(self._path):
            if isinstance(found, Trouble):
                self.troubles.append(found)
                continue
            if found.problem is not None:
                self.troubles.append(Trouble(found.position, found.problem))
            yield found

    def _record_rows(self, batch: FoundBatch) -> list[tuple[object, ...]]:
        return [
            (
                record.offset,
                format_time(record.timestamp),
                _shortened(record.key),
                _shortened(record.value),
                ",".join(f"{name}={_shortened(value)}" for name, value in record.headers) or None,
            )
            for record in self._readable(batch)
        ]

    def _readable(self, batch: FoundBatch) -> list[Record]:
        """The records up to the first one that cannot be read."""
        records = []
        try:
            for record in records_of(batch):
                records.append(record)
        except CorruptBatchError as error:
            if batch.problem is None:
                self.troubles.append(Trouble(batch.position, f"its records cannot be read: {error}"))
        return records


class _Entries:
    """A file that is a list of entries: an index or a snapshot."""

    def __init__(
        self,
        kind: str,
        titles: tuple[str, ...],
        rows: Iterable[tuple[object, ...]],
        entries: Iterable[dict[str, object]],
        troubles: list[Trouble],
    ) -> None:
        self.troubles = troubles
        self._kind = kind
        self._titles = titles
        self._rows = rows
        self._entries = entries

    def as_text(self) -> Iterator[str]:
        return table(self._titles, self._rows, indent="  ")

    def as_json(self) -> Iterator[dict[str, object]]:
        for entry in self._entries:
            yield {"kind": self._kind, **entry}
        yield from _troubles_as_json(self.troubles)


def _offset_index(path: Path) -> _Entries:
    entries, troubles = read_offset_index(path)
    fields = (entry._asdict() for entry in entries)
    return _Entries("index entry", ("OFFSET", "POSITION"), entries, fields, troubles)


def _time_index(path: Path) -> _Entries:
    entries, troubles = read_time_index(path)
    rows = ((format_time(entry.timestamp), entry.offset) for entry in entries)
    fields = (entry._asdict() for entry in entries)
    return _Entries("time index entry", ("TIMESTAMP", "OFFSET"), rows, fields, troubles)


def _snapshot(path: Path) -> _Entries:
    entries, troubles = read_snapshot(path)
    rows = (
        (
            entry.producer_id,
            entry.producer_epoch,
            entry.last_sequence,
            entry.last_offset,
            format_time(entry.timestamp),
            entry.current_txn_first_offset if entry.current_txn_first_offset >= 0 else None,
        )
        for entry in entries
    )
    return _Entries("producer", _PRODUCER_TITLES, rows, (entry._asdict() for entry in entries), troubles)


def _description(path: Path, *, records: bool) -> _Segment | _Entries:
    kind = kind_of(path)
    if kind == file_names.INDEX:
        return _offset_index(path)
    if kind == file_names.TIME_INDEX:
        return _time_index(path)
    if kind == file_names.SNAPSHOT:
        return _snapshot(path)
    return _Segment(path, records=records)


def _batch_row(batch: FoundBatch) -> tuple[object, ...]:
    header = batch.header
    return (
        batch.position,
        f"{header.base_offset}-{header.last_offset}",
        header.record_count,
        header.size,
        _codec(header),
        format_time(header.max_timestamp),
        f"{header.producer_id}/{header.producer_epoch}/{header.base_sequence}"
        if header.has_producer
        else None,
        header.leader_epoch,
        _notes(header) + ([] if batch.problem is None else ["WRONG"]),
    )


def _batch_as_json(batch: FoundBatch) -> dict[str, object]:
    header = batch.header
    return {
        "position": batch.position,
        "size": header.size,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "record_count": header.record_count,
        "codec": _codec(header),
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "leader_epoch": header.leader_epoch,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "notes": _notes(header),
        "crc": header.crc,
        "problem": batch.problem,
    }


def _codec(header: BatchHeader) -> str:
    try:
        return header.codec.name.lower()
    except CorruptBatchError:
        return f"unknown ({header.attributes & 7})"


def _notes(header: BatchHeader) -> list[str]:
    notes = {
        "control": header.is_control,
        "transactional": header.is_transactional,
        "append time": header.log_append_time,
        "delete horizon": header.delete_horizon_ms is not None,
    }
    return [note for note, holds in notes.items() if holds]


def _troubles_as_json(troubles: Iterable[Trouble]) -> Iterator[dict[str, object]]:
    for trouble in troubles:
        yield {"kind": "problem", **trouble._asdict()}


def _shortened(data: bytes | None) -> str:
    text = readable(data).replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")
    return text if len(text) <= _SHOWN_MAX else f"{text[: _SHOWN_MAX - 1]}…"
