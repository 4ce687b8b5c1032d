"""The tree of a regular expression."""

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias


class ExpressionError(Exception):
    """What was given is not a regular expression in RE2's sense; `where` is the part that made no sense."""

    def __init__(self, reason: str, where: str) -> None:
        super().__init__(f"{reason}: `{where}`")
        self.reason = reason
        self.where = where


class Assertion(Enum):
    """Assertions: they take no character, they hold or don't at a place in the text."""

    TEXT_START = "\\A"
    TEXT_END = "\\z"
    LINE_START = "(?m)^"
    LINE_END = "(?m)$"
    WORD_BOUNDARY = "\\b"
    NO_WORD_BOUNDARY = "\\B"


@dataclass(frozen=True, slots=True)
class Character:
    """One character out of a set (bits of `character_sets`)."""

    choices: int


@dataclass(frozen=True, slots=True)
class Sequence:
    """One part after the other; without parts it matches the empty text."""

    parts: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """Any one of the parts."""

    parts: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Repetition:
    """The part `at_least` to `at_most` times; None: without end."""

    part: "Node"
    at_least: int
    at_most: int | None


Node: TypeAlias = Character | Assertion | Sequence | Choice | Repetition
