"""The declaration of a table: `table.json` in its folder, written once when the table is created."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from penstock.base.errors import SettingError, UserError
from penstock.base.settings import Given, Settings, Source, group_by_name, unknown_name
from penstock.spark.tables.manifest import DATA, replace_file
from penstock.spark.tables.settings import TABLE_SETTINGS

DECLARATION: Final = "table.json"
APPEND: Final = "append"
LATEST: Final = "latest"
KINDS: Final = (APPEND, LATEST)

_FORMAT: Final = 1
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,248}")


@dataclass(frozen=True)
class TopicFeed:
    """The topic of a table, and how its records become columns (`decoding`)."""

    topic: str
    bootstrap_servers: str
    schema: Mapping[str, Any]  # {"kind": "json", ...}
    options: Mapping[str, str] = field(
        default_factory=dict
    )  # further options of the source, security for instance


@dataclass(frozen=True)
class Declaration:
    """The kind of a table and, for a latest table, its key columns and the order of rows with the same key."""

    kind: str
    keys: tuple[str, ...] = ()
    # Of two rows with the same key the one with the greater values here is kept; without any, the later one.
    order: tuple[str, ...] = ()
    # Rows with the same value in this column are in order already, whatever `order` says: a topic's partition.
    origin: str | None = None
    feed: TopicFeed | None = None
    settings: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise unknown_name("kind of table", self.kind, KINDS)
        if bool(self.keys) != (self.kind == LATEST):
            raise SettingError("a latest table has key columns, and an append table has none")

    def to_json(self) -> dict[str, Any]:
        feed = self.feed
        return {
            "penstock-table": _FORMAT,
            "kind": self.kind,
            "keys": list(self.keys),
            "order": list(self.order),
            "origin": self.origin,
            "feed": None
            if feed is None
            else {
                "topic": feed.topic,
                "bootstrap_servers": feed.bootstrap_servers,
                "schema": dict(feed.schema),
                "options": dict(feed.options),
            },
            "settings": dict(self.settings),
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "Declaration":
        if content["penstock-table"] > _FORMAT:
            raise UserError("the table was made by a newer Penstock")
        feed = content["feed"]
        return cls(
            content["kind"],
            tuple(content["keys"]),
            tuple(content["order"]),
            content["origin"],
            None if feed is None else TopicFeed(**feed),
            content["settings"],
        )


class Table(NamedTuple):
    """A table's folder and declaration. Small, and can be pickled."""

    folder: Path
    declaration: Declaration

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def settings(self) -> Settings:
        return table_settings(self.declaration.settings)


def table_settings(values: Mapping[str, str]) -> Settings:
    """The settings of a table; SettingError for an unknown name or an invalid value."""
    given = [
        Given(name, TABLE_SETTINGS[name].parse(value), Source.STATIC_BROKER, DECLARATION)
        for name, value in values.items()
    ]
    return Settings(TABLE_SETTINGS, group_by_name(given))


def create_table(warehouse: str | Path, name: str, declaration: Declaration) -> Table:
    """Create a table; UserError if there is one with that name."""
    if not _NAME.fullmatch(name):
        raise SettingError(
            f"a table cannot be called {name!r}: letters, digits, '.', '_' and '-' are allowed"
        )
    table_settings(declaration.settings)
    folder = Path(warehouse).resolve() / name
    if (folder / DECLARATION).exists():
        raise UserError(f"there is a table {name} in {warehouse} already")
    (folder / DATA).mkdir(parents=True, exist_ok=True)
    replace_file(folder / DECLARATION, json.dumps(declaration.to_json(), indent=2) + "\n")
    return Table(folder, declaration)


def open_table(warehouse: str | Path, name: str) -> Table:
    """Open a table; UserError, with the nearest name, if there is none."""
    folder = Path(warehouse).resolve() / name
    path = folder / DECLARATION
    try:
        return Table(folder, Declaration.from_json(json.loads(path.read_text())))
    except FileNotFoundError:
        hint = str(unknown_name("table", name, table_names(warehouse))).partition(";")[2]
        raise UserError(f"there is no table {name} in {warehouse}{';' + hint if hint else ''}") from None
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} declares no table: {error}") from None


def ensure_table(
    warehouse: str | Path,
    name: str,
    *,
    keys: Sequence[str] = (),
    order: Sequence[str] = (),
    settings: Mapping[str, str] | None = None,
) -> Table:
    """The table with that name, created if there is none: latest if there are key columns, else append."""
    wanted = Declaration(LATEST if keys else APPEND, tuple(keys), tuple(order), settings=dict(settings or {}))
    if not (Path(warehouse) / name / DECLARATION).exists():
        return create_table(warehouse, name, wanted)
    table = open_table(warehouse, name)
    there = table.declaration
    if (there.kind, there.keys, there.order) != (wanted.kind, wanted.keys, wanted.order):
        raise UserError(
            f"table {name} in {warehouse} is {_described(there)}, and {_described(wanted)} is wanted: "
            "choose another name, or remove the table's folder"
        )
    return table


def table_names(warehouse: str | Path) -> list[str]:
    """The tables in a folder, by name."""
    return sorted(path.parent.name for path in Path(warehouse).glob(f"*/{DECLARATION}"))


def _described(declaration: Declaration) -> str:
    if declaration.kind == APPEND:
        return "an append table"
    return f"a latest table by {', '.join(declaration.keys)}"
