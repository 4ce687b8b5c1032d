"""Settings, declared once as data: what a setting is, how a value is parsed, checked and shown, and its source.

Five nouns:

    Setting     a name, the kind of its value, a default, what is allowed, and a sentence about it
    Allowed     which values a setting takes, able to say so in words (module `allowed_values`)
    Catalogue   the settings of one kind of thing (a broker, a topic), by name
    Given       one configured value: its name and source
    Settings    a value for every setting of a catalogue, and the `Given`s it comes from

The settings themselves are in `broker_settings`, `topic_settings` and `group_settings`.
"""

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import IntEnum
from typing import Any, Generic, NamedTuple, TypeVar, cast

from penstock.base.allowed_values import Allowed
from penstock.base.errors import SettingError
from penstock.base.secret import Secret

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
DOUBLE_MAX = 1.7976931348623157e308

SECOND_MS = 1000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class SettingKind(IntEnum):
    """The kinds of value; the numbers are those of DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Source(IntEnum):
    """Where a value came from; the numbers are those of DescribeConfigs. The lower number wins."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    GROUP = 8  # the group's own configs, with no other source


class Synonym(NamedTuple):
    """A broker setting that gives a topic config its default; its unit is `factor` times the config's."""

    name: str
    factor: int = 1

    def convert(self, value: Any) -> Any:
        # A negative number means "no limit" in every unit.
        return value if self.factor == 1 or value < 0 else value * self.factor


@dataclass(frozen=True, eq=False)
class Setting(Generic[T_co]):
    """One setting. Made by `boolean`, `integer`, `long`, … below, which fix the type."""

    name: str
    kind: SettingKind
    default: T_co
    doc: str
    allowed: Allowed | None = None
    # None means that the setting is not configured, and another one applies.
    optional: bool = False
    # Settings whose values are used if this one is not configured, in this order.
    synonyms: tuple[Synonym, ...] = ()
    # May be changed while the broker runs.
    dynamic: bool = False
    # Why no value but the default is supported.
    refused: str | None = None
    # Can be set at creation only.
    fixed: bool = False
    # Known, but not listed: for tests and experiments.
    internal: bool = False

    @property
    def sensitive(self) -> bool:
        return self.kind is SettingKind.PASSWORD

    def parse(self, raw: object) -> T_co:
        """The value that `raw` (text, or what TOML gives) stands for; SettingError if it is not allowed."""
        value = _READERS[self.kind](self, raw)
        if self.allowed is not None and not self.allowed.accepts(value):
            raise self.error(raw, f"allowed is {self.allowed.describe()}")
        if self.refused is not None and value != self.default:
            default = self.render(self.default) or "''"
            raise self.error(raw, f"{self.refused}; only {default} is taken")
        return cast(T_co, value)

    def render(self, value: object) -> str | None:
        """The value as Kafka writes it: lists with commas, booleans in lower case; None stays None."""
        if value is None:
            return None
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, float):
            return render_double(value)
        if isinstance(value, tuple):
            return ",".join(value)
        return str(value)

    def show(self, value: object) -> str | None:
        """As `render`, with secrets left out."""
        return None if self.sensitive else self.render(value)

    def error(self, raw: object, problem: str) -> SettingError:
        shown = "a secret" if self.sensitive else repr(raw)
        return SettingError(f"{self.name} cannot be {shown}: {problem}")


def boolean(name: str, default: bool, doc: str, **more: Any) -> Setting[bool]:
    return Setting(name, SettingKind.BOOLEAN, default, doc, **more)


def text(name: str, default: str, doc: str, **more: Any) -> Setting[str]:
    return Setting(name, SettingKind.STRING, default, doc, **more)


def optional_text(name: str, doc: str, **more: Any) -> Setting[str | None]:
    return Setting(name, SettingKind.STRING, None, doc, optional=True, **more)


def optional_secret(name: str, doc: str, **more: Any) -> Setting[Secret | None]:
    return Setting(name, SettingKind.PASSWORD, None, doc, optional=True, **more)


def integer(name: str, default: int, doc: str, **more: Any) -> Setting[int]:
    return Setting(name, SettingKind.INT, default, doc, **more)


def optional_integer(name: str, doc: str, **more: Any) -> Setting[int | None]:
    return Setting(name, SettingKind.INT, None, doc, optional=True, **more)


def long(name: str, default: int, doc: str, **more: Any) -> Setting[int]:
    return Setting(name, SettingKind.LONG, default, doc, **more)


def optional_long(name: str, doc: str, **more: Any) -> Setting[int | None]:
    return Setting(name, SettingKind.LONG, None, doc, optional=True, **more)


def double(name: str, default: float, doc: str, **more: Any) -> Setting[float]:
    return Setting(name, SettingKind.DOUBLE, default, doc, **more)


def words(name: str, default: tuple[str, ...], doc: str, **more: Any) -> Setting[tuple[str, ...]]:
    return Setting(name, SettingKind.LIST, default, doc, **more)


# Python's int() and float() accept more than Kafka does: underscores, other alphabets' digits, 'nan'. Numbers of
# thousands of digits are slow to parse.
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,100}\Z")
_DECIMAL_NUMBER = re.compile(r"[+-]?([0-9]{1,400}\.?[0-9]{0,400}|\.[0-9]{1,400})([eE][+-]?[0-9]{1,5})?\Z")

_BITS = {SettingKind.SHORT: 16, SettingKind.INT: 32, SettingKind.LONG: 64}


def _read_boolean(setting: Setting[Any], raw: object) -> object:
    if isinstance(raw, bool):
        return raw
    word = raw.strip().lower() if isinstance(raw, str) else ""
    if word not in ("true", "false"):
        raise setting.error(raw, "allowed is true or false")
    return word == "true"


def _read_whole_number(setting: Setting[Any], raw: object) -> object:
    value = int(raw) if isinstance(raw, str) and _WHOLE_NUMBER.match(raw.strip()) else raw
    if isinstance(value, bool) or not isinstance(value, int):
        raise setting.error(raw, "a whole number is expected")
    bits = _BITS[setting.kind]
    if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise setting.error(raw, f"the number does not fit {bits} bits")
    return value


def _read_double(setting: Setting[Any], raw: object) -> object:
    value = float(raw) if isinstance(raw, str) and _DECIMAL_NUMBER.match(raw.strip()) else raw
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise setting.error(raw, "a number is expected")
    if not abs(value) <= DOUBLE_MAX:
        raise setting.error(raw, "a finite number is expected")
    return float(value)


def _read_text(setting: Setting[Any], raw: object) -> object:
    if not isinstance(raw, str):
        raise setting.error(raw, "text is expected")
    return raw.strip()


def _read_password(setting: Setting[Any], raw: object) -> object:
    if not isinstance(raw, str):
        raise setting.error(raw, "text is expected")
    return Secret(raw)


def _read_list(setting: Setting[Any], raw: object) -> object:
    if isinstance(raw, str):
        raw = raw.split(",") if raw.strip() else []
    if not isinstance(raw, list | tuple) or not all(isinstance(word, str) for word in raw):
        raise setting.error(raw, "a list of words is expected")
    return tuple(word.strip() for word in raw)


_READERS: dict[SettingKind, Callable[[Setting[Any], object], object]] = {
    SettingKind.BOOLEAN: _read_boolean,
    SettingKind.STRING: _read_text,
    SettingKind.INT: _read_whole_number,
    SettingKind.SHORT: _read_whole_number,
    SettingKind.LONG: _read_whole_number,
    SettingKind.DOUBLE: _read_double,
    SettingKind.LIST: _read_list,
    SettingKind.CLASS: _read_text,
    SettingKind.PASSWORD: _read_password,
}


def render_double(value: float) -> str:
    """A double as Java prints it: plain from 0.001 up to 10,000,000, else with an exponent."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(float(value))
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int), "settings are finite numbers"
    first, rest = digits[0], "".join(map(str, digits[1:])) or "0"
    return f"{'-' * sign}{first}.{rest}E{exponent + len(digits) - 1}"


class Given(NamedTuple):
    """One configured value."""

    name: str
    value: Any
    source: Source
    # For people: "--set", "environment variable PENSTOCK_NODE_ID", a file's name.
    origin: str


class Shown(NamedTuple):
    """One candidate for a setting's value, as DescribeConfigs lists it: a name, the value as text, and its source."""

    name: str
    value: str | None
    source: Source


@dataclass(frozen=True)
class Catalogue:
    """The settings of one kind of thing, in the order of their names."""

    # What the settings are of, for messages: "broker", "topic".
    noun: str
    members: tuple[Setting[Any], ...]
    _by_name: dict[str, Setting[Any]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        by_name = {setting.name: setting for setting in sorted(self.members, key=lambda member: member.name)}
        assert len(by_name) == len(self.members), "a setting is declared twice"
        object.__setattr__(self, "_by_name", by_name)

    def __iter__(self) -> Iterator[Setting[Any]]:
        return iter(self._by_name.values())

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def __getitem__(self, name: str) -> Setting[Any]:
        """The setting of that name; SettingError with the nearest known name if there is none."""
        setting = self._by_name.get(name)
        if setting is None:
            raise unknown_name(f"{self.noun} setting", name, self.names())
        return setting

    def names(self) -> list[str]:
        return [setting.name for setting in self if not setting.internal]

    def give(self, name: str, raw: object, *, source: Source, origin: str) -> Given:
        """Look the name up, read and check the value."""
        return Given(name, self[name].parse(raw), source, origin)


def unknown_name(what: str, name: str, known: Iterable[str]) -> SettingError:
    """The error for an unknown name, with the most similar known one."""
    nearest = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    hint = f"; did you mean {nearest[0]}?" if nearest else ""
    return SettingError(f"unknown {what} {name!r}{hint}")


@dataclass(frozen=True)
class Settings:
    """A value for every setting of a catalogue. `settings[RETENTION_MS]` is an int, and mypy knows."""

    catalogue: Catalogue
    # By name; settings that are not configured are absent. The effective value comes first.
    given: Mapping[str, Sequence[Given]]
    _values: dict[str, Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        values = {}
        for setting in self.catalogue:
            behind = self.given.get(setting.name)
            values[setting.name] = _decide(setting, behind[0]) if behind else setting.default
        object.__setattr__(self, "_values", values)

    def __getitem__(self, setting: Setting[T]) -> T:
        return cast(T, self._values[setting.name])

    def source(self, setting: Setting[Any]) -> Source:
        behind = self.given.get(setting.name)
        return behind[0].source if behind else Source.DEFAULT

    def origin(self, setting: Setting[Any]) -> str:
        """Where the value came from, for people."""
        behind = self.given.get(setting.name)
        return behind[0].origin if behind else "default"

    def behind(self, setting: Setting[Any], default_name: str | None) -> list[Shown]:
        """All configured values of a setting, the effective one first, and last the default under `default_name`."""
        lines = [
            Shown(given.name, setting.show(given.value), given.source)
            for given in self.given.get(setting.name, ())
        ]
        if default_name is not None and setting.default is not None:
            lines.append(Shown(default_name, setting.show(setting.default), Source.DEFAULT))
        return lines

    def rendered(self, setting: Setting[Any]) -> str | None:
        """The value as Kafka writes it; None for a secret, or if there is none."""
        return setting.show(self._values[setting.name])


def _decide(setting: Setting[Any], given: Given) -> Any:
    if given.name == setting.name:
        return given.value
    for synonym in setting.synonyms:
        if synonym.name == given.name:
            return synonym.convert(given.value)
    raise AssertionError(f"{given.name} does not stand in for {setting.name}")


def group_by_name(given: Iterable[Given]) -> dict[str, tuple[Given, ...]]:
    """Configured values by name; for each name, the strongest source first, and the latest within a source."""
    groups: dict[str, list[Given]] = {}
    for one in given:
        groups.setdefault(one.name, []).insert(0, one)
    return {name: tuple(sorted(group, key=lambda one: one.source)) for name, group in groups.items()}
