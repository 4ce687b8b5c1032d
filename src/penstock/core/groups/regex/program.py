"""The program of a regular expression, and running it: all ways through it at once, character by character.

A program is a list of instructions; the state of a run is the set of instructions that a character may meet next. What
a set becomes by a character depends on nothing but the set, the character, and the kind of character before, so it is
worked out once and remembered: a name then costs one look-up per character. The memory is bounded; when it is full it
is emptied.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Final, TypeAlias

from penstock.core.groups.regex import character_sets as sets
from penstock.core.groups.regex.syntax import (
    Assertion,
    Character,
    Choice,
    ExpressionError,
    Node,
    Repetition,
    Sequence,
)

INSTRUCTIONS_MAX: Final = 5_000
TRANSITIONS_REMEMBERED: Final = 4_096
# In all transitions that are remembered together: some megabytes.
INSTRUCTIONS_REMEMBERED: Final = 100_000
# Instructions visited between two yields: about 1 ms.
_INSTRUCTIONS_IN_ONE_GO: Final = 1_000


@dataclass(frozen=True, slots=True)
class _Take:
    """Go to `following` by a character out of `choices`."""

    choices: int
    following: int


@dataclass(frozen=True, slots=True)
class _Hold:
    """Go to `following` at once, if the place is such."""

    place: Assertion
    following: int


@dataclass(frozen=True, slots=True)
class _Split:
    """Go to all of them at once."""

    following: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Matched:
    """The end."""


_Instruction: TypeAlias = _Take | _Hold | _Split | _Matched
_Key: TypeAlias = tuple[frozenset[int], int, str]


class Expression:
    """A regular expression ready to be asked."""

    def __init__(self, instructions: list[_Instruction], start: int) -> None:
        self._instructions = instructions
        self._start = frozenset((start,))
        self._transitions: dict[_Key, frozenset[int]] = {}
        self._remembered = 0  # instructions in all transitions together

    def matches(self, name: str) -> bool:
        """Does the expression match the whole of this name?"""
        steps = self.matching(name)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return bool(end.value)

    def matching(self, name: str) -> Generator[None, None, bool]:
        """As `matches`, with a yield where a large expression makes a name long work."""
        waiting = self._start
        before = ""
        looked_at = 0
        for character in name:
            key = (waiting, _kind(before), character)
            following = self._transitions.get(key)
            if following is None:
                reached = self._reached(waiting, before, character)
                following = self._taken(reached, character)
                self._remember(key, following)
                looked_at += len(reached)
                if looked_at >= _INSTRUCTIONS_IN_ONE_GO:
                    looked_at = 0
                    yield
            if not following:
                return False
            waiting = following
            before = character
        return any(isinstance(self._instructions[at], _Matched) for at in self._reached(waiting, before, ""))

    def _taken(self, reached: set[int], character: str) -> frozenset[int]:
        bit = sets.of(character)
        instructions = self._instructions
        return frozenset(
            instruction.following
            for at in reached
            if isinstance(instruction := instructions[at], _Take) and instruction.choices & bit
        )

    def _remember(self, key: _Key, following: frozenset[int]) -> None:
        self._remembered += len(following)
        if len(self._transitions) >= TRANSITIONS_REMEMBERED or self._remembered > INSTRUCTIONS_REMEMBERED:
            self._transitions.clear()
            self._remembered = len(following)
        self._transitions[key] = following

    def _reached(self, waiting: frozenset[int], before: str, after: str) -> set[int]:
        """All instructions that are reached from the waiting ones between these two characters."""
        reached = set(waiting)
        open_ends = sorted(waiting)
        while open_ends:
            instruction = self._instructions[open_ends.pop()]
            following: tuple[int, ...] = ()
            if isinstance(instruction, _Split):
                following = instruction.following
            elif isinstance(instruction, _Hold) and _holds(instruction.place, before, after):
                following = (instruction.following,)
            for at in following:
                if at not in reached:
                    reached.add(at)
                    open_ends.append(at)
        return reached


def assemble(node: Node) -> Expression:
    """The program of a tree; raises ExpressionError if it got too large."""
    assembler = _Assembler()
    start = assembler.add(node, assembler.put(_Matched()))
    return Expression(assembler.instructions, start)


class _Assembler:
    """Writes a program from its end to its start: every instruction knows what follows it when it is made."""

    def __init__(self) -> None:
        self.instructions: list[_Instruction] = []

    def put(self, instruction: _Instruction) -> int:
        if len(self.instructions) >= INSTRUCTIONS_MAX:
            raise ExpressionError("expression too large", f"more than {INSTRUCTIONS_MAX} instructions")
        self.instructions.append(instruction)
        return len(self.instructions) - 1

    def add(self, node: Node, following: int) -> int:
        """Add the instructions of `node`, which continue at `following`; returns the first one."""
        if isinstance(node, Character):
            return self.put(_Take(node.choices, following))
        if isinstance(node, Assertion):
            return self.put(_Hold(node, following))
        if isinstance(node, Sequence):
            for part in reversed(node.parts):
                following = self.add(part, following)
            return following
        if isinstance(node, Choice):
            return self.put(_Split(tuple(self.add(part, following) for part in node.parts)))
        return self._add_repetition(node, following)

    def _add_repetition(self, node: Repetition, following: int) -> int:
        if node.at_most is None:
            following = self._add_loop(node.part, following)
        else:
            end = following
            for _ in range(node.at_most - node.at_least):
                following = self.put(_Split((self.add(node.part, following), end)))
        for _ in range(node.at_least):
            following = self.add(node.part, following)
        return following

    def _add_loop(self, part: Node, following: int) -> int:
        loop = self.put(_Split(()))
        body = self.add(part, loop)
        self.instructions[loop] = _Split((body, following))
        return loop


_NOTHING, _NEWLINE, _WORD, _OTHER = range(4)


def _kind(character: str) -> int:
    """All that places can tell of a character."""
    if not character:
        return _NOTHING
    if character == "\n":
        return _NEWLINE
    return _WORD if sets.of(character) & sets.WORD else _OTHER


def _holds(place: Assertion, before: str, after: str) -> bool:
    if place is Assertion.TEXT_START:
        return not before
    if place is Assertion.TEXT_END:
        return not after
    if place is Assertion.LINE_START:
        return before in ("", "\n")
    if place is Assertion.LINE_END:
        return after in ("", "\n")
    boundary = (_kind(before) == _WORD) != (_kind(after) == _WORD)
    return boundary == (place is Assertion.WORD_BOUNDARY)
