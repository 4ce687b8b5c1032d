"""A pipeline project: reads and checks a directory's `pipeline.toml`, before Spark is started. Errors name the file,
the place in it and, for an unknown name, the nearest known one.

    name = "shop"
    bootstrap_servers = "localhost:9092"
    state = "state"

    [flows.totals]
    from = "orders"
    transform = "shop.totals:by_hour"
    to = { table = "order_hours", key = ["hour"] }
    output_mode = "update"

`[kafka]` has settings of the client (for source, sink and the lag display), `[spark]` of the session; a flow may add
to the latter.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from penstock.base.allowed_values import Between, OneOf
from penstock.base.errors import SettingError, UserError
from penstock.base.settings import (
    INT_MAX,
    Catalogue,
    Settings,
    Source,
    group_by_name,
    integer,
    optional_text,
    text,
    unknown_name,
)
from penstock.spark import options

FILE_NAME: Final = "pipeline.toml"

NAME = optional_text("name", "The project's name; by default that of its directory.")
BOOTSTRAP_SERVERS = text("bootstrap_servers", "localhost:9092", "Bootstrap brokers, separated by commas.")
STATE = text(
    "state",
    "state",
    "The directory for checkpoints and tables, relative to the project. On a Spark cluster: one that all machines see.",
)
RESTARTS_MAX = integer(
    "restarts_max",
    8,
    "How often in a row a failed flow is restarted before it stays failed; a finished batch resets the count.",
    allowed=Between(0, INT_MAX),
)
RESTART_DELAY_MS = integer(
    "restart_delay_ms",
    1_000,
    "How long to wait before a failed flow is restarted; doubled each time.",
    allowed=Between(1, INT_MAX),
)
RESTART_DELAY_MS_MAX = integer(
    "restart_delay_ms_max", 60_000, "The longest wait before a restart.", allowed=Between(1, INT_MAX)
)
PROJECT_SETTINGS: Final = Catalogue(
    "project", (NAME, BOOTSTRAP_SERVERS, STATE, RESTARTS_MAX, RESTART_DELAY_MS, RESTART_DELAY_MS_MAX)
)

FROM = text("from", "", "The topics to read, separated by commas.")
TRANSFORM = text("transform", "", "The function from DataFrame to DataFrame, as module:function.")
OUTPUT_MODE = text(
    "output_mode",
    "append",
    "Spark's output mode: append writes rows when they are final, update whenever they change.",
    allowed=OneOf(("append", "update")),
)
TRIGGER = text("trigger", "1 second", "The shortest time between two batches: a number and a unit.")
GROUP = optional_text(
    "group",
    "The consumer group that the flow commits its progress to; by default PROJECT.FLOW.",
)
FLOW_SETTINGS: Final = Catalogue("flow", (FROM, TRANSFORM, OUTPUT_MODE, TRIGGER, GROUP))

_PROJECT_TABLES: Final = ("flows", "spark", "kafka")
_FLOW_TABLES: Final = ("to", "options", "spark")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_TRIGGER: Final = re.compile(r"\d{1,9} (millisecond|second|minute|hour)s?")
_TRANSFORM: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
# Settings of the flow itself.
_OPTIONS_TAKEN: Final = (
    options.BOOTSTRAP_SERVERS,
    options.SUBSCRIBE,
    options.SUBSCRIBE_PATTERN,
    options.ASSIGN,
    options.INCLUDE_HEADERS,
    options.COMMIT_GROUP,
    options.GROUP_ID,
)


@dataclass(frozen=True)
class TopicTarget:
    """Rows become records: columns key, value and headers."""

    topic: str
    options: Mapping[str, str]

    def __str__(self) -> str:
        return f"topic {self.topic}"


@dataclass(frozen=True)
class TableTarget:
    """Rows go to a table below the project's state: one per key if there is a key, else all."""

    table: str
    key: tuple[str, ...]

    def __str__(self) -> str:
        return f"table {self.table}"


Target = TopicTarget | TableTarget


@dataclass(frozen=True)
class Flow:
    """One streaming query: from topics through a function to a target."""

    name: str
    topics: tuple[str, ...]
    transform: str
    to: Target
    output_mode: str
    trigger: str
    group: str
    options: Mapping[str, str]


@dataclass(frozen=True)
class Project:
    """The content of a checked `pipeline.toml`."""

    directory: Path
    name: str
    bootstrap_servers: str
    state: Path
    settings: Settings
    flows: Mapping[str, Flow]
    kafka: Mapping[str, str]
    spark: Mapping[str, str]

    def flow(self, name: str) -> Flow:
        """The flow with that name; UserError that names the nearest one if there is none."""
        found = self.flows.get(name)
        if found is None:
            raise UserError(f"{unknown_name('flow', name, self.flows)}; there are {', '.join(self.flows)}")
        return found

    def only(self, names: Iterable[str]) -> "Project":
        """The same project with these flows only; with all if none is named."""
        wanted = list(names)
        if not wanted:
            return self
        return replace(self, flows={name: self.flow(name) for name in wanted})

    def source_options(self, flow: Flow) -> dict[str, str]:
        """Options for `readStream.format("penstock")`; startingOffsets is earliest unless the flow sets it."""
        return {
            options.STARTING_OFFSETS.name: "earliest",
            **self._client_options(),
            **flow.options,
            options.SUBSCRIBE.name: ",".join(flow.topics),
            options.INCLUDE_HEADERS.name: "true",
            options.COMMIT_GROUP.name: flow.group,
        }

    def sink_options(self, target: TopicTarget) -> dict[str, str]:
        """Options for `writeStream.format("penstock")`."""
        return {**self._client_options(), **target.options, "topic": target.topic}

    def _client_options(self) -> dict[str, str]:
        client = {f"kafka.{name}": value for name, value in self.kafka.items()}
        return {**client, options.BOOTSTRAP_SERVERS.name: self.bootstrap_servers}


def read_project(directory: Path, *, bootstrap_servers: str | None = None) -> Project:
    """Read a directory's `pipeline.toml`; UserError if there is none, or it is invalid."""
    file = directory / FILE_NAME
    try:
        written = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(
            f"there is no {FILE_NAME} in {directory}: `penstock pipeline init NAME` writes a project, and the "
            "directory of one is given as in `penstock pipeline run DIR`"
        ) from None
    except UnicodeDecodeError as error:
        raise UserError(f"{file} is not UTF-8: {error.reason}") from None
    return parse_project(written, directory=directory, bootstrap_servers=bootstrap_servers)


def parse_project(written: str, *, directory: Path, bootstrap_servers: str | None = None) -> Project:
    """The project that a file's text describes."""
    try:
        return _Reader(directory, bootstrap_servers).read(tomllib.loads(written))
    except tomllib.TOMLDecodeError as error:
        raise SettingError(f"{directory / FILE_NAME} is not TOML: {error}") from None
    except SettingError as error:
        raise SettingError(f"{directory / FILE_NAME}: {error}") from None


class _Reader:
    def __init__(self, directory: Path, bootstrap_servers: str | None) -> None:
        self._directory = directory
        self._bootstrap_servers = bootstrap_servers

    def read(self, document: Mapping[str, Any]) -> Project:
        settings = _settings(PROJECT_SETTINGS, _PROJECT_TABLES, document)
        if "://" in settings[STATE]:
            raise STATE.error(
                settings[STATE], "a directory is expected; on a cluster, one that all machines see"
            )
        name = settings[NAME] or self._directory.resolve().name
        _check_name("name", name)
        sections = _table("flows", document.get("flows", {}))
        if not sections:
            raise SettingError(
                "there are no flows; [flows.NAME] with from, transform and to says what to run"
            )
        project = Project(
            directory=self._directory,
            name=name,
            bootstrap_servers=self._bootstrap_servers or settings[BOOTSTRAP_SERVERS],
            state=self._directory / settings[STATE],
            settings=settings,
            flows={each: _flow(each, _table(f"flows.{each}", body), name) for each, body in sections.items()},
            kafka=_flat("kafka", document.get("kafka", {})),
            spark=self._session(document, sections),
        )
        _check_targets(project)
        for flow in project.flows.values():
            _check_options(project, flow)
        return project

    def _session(self, document: Mapping[str, Any], sections: Mapping[str, Any]) -> dict[str, str]:
        """The settings of the session that all flows share; SettingError if two flows contradict each other."""
        merged = _flat("spark", document.get("spark", {}))
        for flow, body in sections.items():
            for name, value in _flat(f"flows.{flow}.spark", body.get("spark", {})).items():
                if merged.setdefault(name, value) != value:
                    raise SettingError(
                        f"flows.{flow}.spark: {name} is {value!r} here and {merged[name]!r} elsewhere, "
                        "and all flows share one Spark session"
                    )
        return merged


def _flow(name: str, body: Mapping[str, Any], project: str) -> Flow:
    place = f"flows.{name}"
    _check_name("flows", name)
    try:
        settings = _settings(FLOW_SETTINGS, _FLOW_TABLES, body)
        topics = tuple(dict.fromkeys(word.strip() for word in settings[FROM].split(",") if word.strip()))
        if not topics:
            raise SettingError("from is missing: it names the topics to read")
        if not _TRANSFORM.fullmatch(settings[TRANSFORM]):
            raise TRANSFORM.error(settings[TRANSFORM], "it has to be of the form module:function")
        if not _TRIGGER.fullmatch(settings[TRIGGER]):
            raise TRIGGER.error(settings[TRIGGER], 'a number and a unit are expected, as in "5 seconds"')
        if "to" not in body:
            raise SettingError('to is missing: { topic = "NAME" } or { table = "NAME" }')
        return Flow(
            name=name,
            topics=topics,
            transform=settings[TRANSFORM],
            to=_target(_table("to", body["to"])),
            output_mode=settings[OUTPUT_MODE],
            trigger=settings[TRIGGER],
            group=settings[GROUP] or f"{project}.{name}",
            options=_flat("options", body.get("options", {})),
        )
    except SettingError as error:
        raise SettingError(f"{place}: {error}") from None


def _target(body: Mapping[str, Any]) -> Target:
    for name in body:
        if name not in ("topic", "table", "key", "options"):
            raise unknown_name("setting of to", name, ("topic", "table", "key", "options"))
    if ("topic" in body) == ("table" in body):
        raise SettingError("to names either a topic or a table")
    if "topic" in body:
        if "key" in body:
            raise SettingError("to: a key is for tables; a topic's records have the column key")
        return TopicTarget(_word("to.topic", body["topic"]), _flat("to.options", body.get("options", {})))
    if "options" in body:
        raise SettingError("to: options are for topics")
    key = body.get("key", [])
    if not isinstance(key, list) or not all(isinstance(each, str) and each for each in key):
        raise SettingError(f"to.key cannot be {key!r}: a list of column names is expected")
    table = _word("to.table", body["table"])
    _check_name("to.table", table)
    return TableTarget(table, tuple(key))


def _check_targets(project: Project) -> None:
    """Check that each table is written by one flow: reset removes it, and two writers would undo each other."""
    owners: dict[str, str] = {}
    groups: dict[str, str] = {}
    for flow in project.flows.values():
        if isinstance(flow.to, TableTarget):
            first = owners.setdefault(flow.to.table, flow.name)
            if first != flow.name:
                raise SettingError(
                    f"flows.{flow.name}: table {flow.to.table} is written by flow {first} already"
                )
        elif flow.to.topic in flow.topics:
            raise SettingError(f"flows.{flow.name}: it reads what it writes, topic {flow.to.topic}")
        first = groups.setdefault(flow.group, flow.name)
        if first != flow.name:
            raise SettingError(f"flows.{flow.name}: group {flow.group} shows flow {first} already")


def _check_options(project: Project, flow: Flow) -> None:
    taken = {each.name.lower(): each.name for each in _OPTIONS_TAKEN}
    for name in flow.options:
        if name.lower() in taken:
            raise SettingError(
                f"flows.{flow.name}: options has {taken[name.lower()]}, which follows from bootstrap_servers, "
                "from and group"
            )
    try:
        options.read_settings(project.source_options(flow))
    except SettingError as error:
        raise SettingError(f"flows.{flow.name}: options: {error}") from None


def _settings(catalogue: Catalogue, tables: Iterable[str], body: Mapping[str, Any]) -> Settings:
    known = [*catalogue.names(), *tables]
    given = []
    for name, value in body.items():
        if name in tables:
            continue
        if name not in catalogue:
            raise unknown_name(f"{catalogue.noun} setting", name, known)
        given.append(catalogue.give(name, value, source=Source.STATIC_BROKER, origin=FILE_NAME))
    return Settings(catalogue, group_by_name(given))


def _table(place: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise SettingError(f"{place} cannot be {value!r}: a table is expected")
    return value


def _flat(place: str, value: object) -> dict[str, str]:
    """Names with dots, from names with dots or nested tables."""
    flat: dict[str, str] = {}
    for name, inner in _table(place, value).items():
        if isinstance(inner, dict):
            flat |= {f"{name}.{rest}": each for rest, each in _flat(f"{place}.{name}", inner).items()}
        elif isinstance(inner, bool):
            flat[name] = str(inner).lower()
        elif isinstance(inner, str | int | float):
            flat[name] = str(inner)
        else:
            raise SettingError(f"{place}.{name} cannot be {inner!r}: text or a number is expected")
    return flat


def _word(place: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise SettingError(f"{place} cannot be {value!r}: a name is expected")
    return value.strip()


def _check_name(place: str, name: str) -> None:
    """Names of projects, flows and tables become parts of paths and groups."""
    if not _NAME.fullmatch(name):
        raise SettingError(f"{place}: {name!r} is no name; letters, digits, - and _ make one")
