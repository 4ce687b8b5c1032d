"""The values that a setting accepts, as data that can check a value and describe what is valid."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol


class Allowed(Protocol):
    """The values that a setting accepts."""

    def accepts(self, value: Any) -> bool: ...

    def describe(self) -> str:
        """The valid values, to follow the words 'allowed is'."""
        ...


@dataclass(frozen=True)
class Between:
    """Numbers from `low` to `high`, both included, and those in `also`."""

    low: float | None = None
    high: float | None = None
    also: tuple[int, ...] = ()

    def accepts(self, value: Any) -> bool:
        if value in self.also:
            return True
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)

    def describe(self) -> str:
        if self.high is None:
            text = f"{self.low} or more"
        else:
            text = f"{self.low} to {self.high}"
        return text + "".join(f", or {value}" for value in self.also)


@dataclass(frozen=True)
class OneOf:
    """A word out of a few; with `any_case`, in upper and lower case alike."""

    words: tuple[str, ...]
    any_case: bool = False

    def accepts(self, value: Any) -> bool:
        if self.any_case:
            return value.lower() in (word.lower() for word in self.words)
        return value in self.words

    def describe(self) -> str:
        return "one of: " + ", ".join(self.words)


@dataclass(frozen=True)
class EachOneOf:
    """A list made of a few words; empty is fine."""

    words: tuple[str, ...]

    def accepts(self, value: Any) -> bool:
        return all(word in self.words for word in value)

    def describe(self) -> str:
        return "a comma-separated list of: " + ", ".join(self.words)


@dataclass(frozen=True)
class Matching:
    """Values that a function accepts, with a description."""

    test: Callable[[Any], bool]
    description: str

    def accepts(self, value: Any) -> bool:
        return self.test(value)

    def describe(self) -> str:
        return self.description
