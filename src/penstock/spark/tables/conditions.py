"""Parses conditions on rows for `penstock table query --where`: a small part of SQL. Pure.

    total >= 100 and (name like 'A%' or name in ('Bob', 'Eve')) and not cancelled is null

Comparisons are between a column and a value. Values are numbers, 'text', true and false; times are text:
'2026-11-16T08:30'.
"""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from penstock.base.errors import UserError

Value: TypeAlias = int | float | str | bool


class Comparison(NamedTuple):
    """`operator` is one of =, !=, <, <=, >, >=, in, like."""

    column: str
    operator: str
    values: tuple[Value, ...]


class IsNull(NamedTuple):
    column: str


class Not(NamedTuple):
    condition: "Condition"


class All(NamedTuple):
    conditions: "tuple[Condition, ...]"


class Any(NamedTuple):
    conditions: "tuple[Condition, ...]"


Condition: TypeAlias = Comparison | IsNull | Not | All | Any

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<number>-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)|(?P<text>'(?:[^']|'')*')|(?P<quoted>`[^`]+`)"
    r"|(?P<word>[A-Za-z_][\w.]*)|(?P<sign><=|>=|<>|!=|==|[=<>(),]))"
)
_SIGNS: Final = {"==": "=", "<>": "!="}
_COMPARISONS: Final = ("=", "!=", "<", "<=", ">", ">=")


def parse_condition(text: str) -> Condition:
    """Parse a condition; UserError, with the position, if it is invalid."""
    reader = _Reader(text)
    condition = _any(reader)
    if reader.token is not None:
        raise reader.trouble("and, or, or the end")
    return condition


class _Reader:
    """The tokens one after the other: (kind, text), None at the end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self.token: tuple[str, str] | None = None
        self._start = 0
        self.advance()

    def advance(self) -> None:
        self._start = self._position
        match = _TOKEN.match(self._text, self._position)
        if match is None:
            self.token = None
            if self._text[self._position :].strip():
                raise self.trouble("a column, a value or an operator")
            return
        assert match.lastgroup is not None
        self._position = match.end()
        self.token = (match.lastgroup, match[match.lastgroup])

    def takes(self, word: str) -> bool:
        """Whether the next token is this keyword or sign; if so, it is consumed."""
        if self.token is None or self.token[0] not in ("word", "sign") or self.token[1].lower() != word:
            return False
        self.advance()
        return True

    def expect(self, word: str) -> None:
        if not self.takes(word):
            raise self.trouble(word)

    def trouble(self, expected: str) -> UserError:
        rest = self._text[self._start :].strip()
        where = f"before {rest!r}" if rest else "at its end"
        return UserError(f"the condition {self._text!r} cannot be read: {expected} was expected {where}")


def _any(reader: _Reader) -> Condition:
    conditions = [_all(reader)]
    while reader.takes("or"):
        conditions.append(_all(reader))
    return conditions[0] if len(conditions) == 1 else Any(tuple(conditions))


def _all(reader: _Reader) -> Condition:
    conditions = [_term(reader)]
    while reader.takes("and"):
        conditions.append(_term(reader))
    return conditions[0] if len(conditions) == 1 else All(tuple(conditions))


def _term(reader: _Reader) -> Condition:
    if reader.takes("not"):
        return Not(_term(reader))
    if reader.takes("("):
        inner = _any(reader)
        reader.expect(")")
        return inner
    column = _column(reader)
    if reader.takes("is"):
        negated = reader.takes("not")
        reader.expect("null")
        return Not(IsNull(column)) if negated else IsNull(column)
    negated = reader.takes("not")
    condition = _comparison(reader, column, only_words=negated)
    return Not(condition) if negated else condition


def _comparison(reader: _Reader, column: str, *, only_words: bool) -> Condition:
    if reader.takes("in"):
        reader.expect("(")
        values = [_value(reader)]
        while reader.takes(","):
            values.append(_value(reader))
        reader.expect(")")
        return Comparison(column, "in", tuple(values))
    if reader.takes("like"):
        return Comparison(column, "like", (_value(reader),))
    if not only_words and reader.token is not None and reader.token[0] == "sign":
        sign = _SIGNS.get(reader.token[1], reader.token[1])
        if sign in _COMPARISONS:
            reader.advance()
            return Comparison(column, sign, (_value(reader),))
    raise reader.trouble("one of =, !=, <, <=, >, >=, in, like, is null")


def _column(reader: _Reader) -> str:
    if reader.token is None or reader.token[0] not in ("word", "quoted"):
        raise reader.trouble("a column")
    name = reader.token[1].strip("`")
    reader.advance()
    return name


def _value(reader: _Reader) -> Value:
    kind, text = reader.token or ("", "")
    value: Value
    if kind == "number":
        value = float(text) if re.search(r"[.eE]", text) else int(text)
    elif kind == "text":
        value = text[1:-1].replace("''", "'")
    elif kind == "word" and text.lower() in ("true", "false"):
        value = text.lower() == "true"
    else:
        raise reader.trouble("a number, 'text', true or false")
    reader.advance()
    return value


def columns_of(condition: Condition) -> Sequence[str]:
    """The columns that a condition uses."""
    match condition:
        case Comparison(column) | IsNull(column):
            return [column]
        case Not(inner):
            return columns_of(inner)
        case All(conditions) | Any(conditions):
            return [column for each in conditions for column in columns_of(each)]
