"""From the text of a regular expression to its tree, by RE2's rules.

What is an error, and by which words, was asked of re2j 1.8, the library in Apache Kafka. Two bounds are ours,
because the text comes from a client: how deep groups may nest, and (in `program`) how large the program may get.
"""

import string
from dataclasses import dataclass
from typing import Final, NoReturn

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

REPETITIONS_MAX: Final = 1000
NESTING_MAX: Final = 100

_CODE_MAX: Final = 0x10FFFF
_ESCAPED_PLACES: Final = {
    "A": Assertion.TEXT_START,
    "z": Assertion.TEXT_END,
    "b": Assertion.WORD_BOUNDARY,
    "B": Assertion.NO_WORD_BOUNDARY,
}
_ESCAPED_CONTROLS: Final = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_OCTAL: Final = frozenset("01234567")
_DIGITS: Final = frozenset(string.digits)
_HEXADECIMAL: Final = frozenset(string.hexdigits)
_NAME: Final = frozenset(string.ascii_letters + string.digits + "_")


def parse(text: str) -> Node:
    """The tree of the expression `text`; raises ExpressionError."""
    return _Parser(text).parse()


@dataclass(frozen=True, slots=True)
class _Flags:
    """What `(?ims)` sets; `U` swaps greediness, which has no effect on whether a name matches."""

    ignore_case: bool = False
    many_lines: bool = False
    dot_takes_newline: bool = False

    def changed(self, letters: str, *, to: bool) -> "_Flags":
        return _Flags(
            ignore_case=to if "i" in letters else self.ignore_case,
            many_lines=to if "m" in letters else self.many_lines,
            dot_takes_newline=to if "s" in letters else self.dot_takes_newline,
        )


class _Parser:
    """Reads left to right; `_at` is the index of the next character."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._flags = _Flags()
        self._names: set[str] = set()
        self._depth = 0

    def parse(self) -> Node:
        node = self._choice()
        if self._at < len(self._text):
            _refuse("unexpected )", self._text)
        return node

    # Groups and sequences

    def _choice(self) -> Node:
        """Up to the end or the closing parenthesis, which stays unread."""
        branches = [self._sequence()]
        while self._skip("|"):
            branches.append(self._sequence())
        return branches[0] if len(branches) == 1 else Choice(tuple(branches))

    def _sequence(self) -> Node:
        parts: list[Node] = []
        repetition_before = -1  # where the repetition operator began that ends right here
        while self._at < len(self._text) and self._peek() not in "|)":
            began = self._at
            times = self._repetition()
            if times is not None:
                if repetition_before >= 0:
                    _refuse("invalid nested repetition operator", self._text[repetition_before : self._at])
                if not parts:
                    _refuse("missing argument to repetition operator", self._text[began : self._at])
                parts[-1] = Repetition(parts[-1], *times)
                repetition_before = began
            else:
                self._add_part(parts)
                repetition_before = -1
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _add_part(self, parts: list[Node]) -> None:
        if self._text.startswith("\\Q", self._at):
            parts.extend(self._quoted())
        elif self._peek() == "(":
            group = self._group()
            if group is not None:
                parts.append(group)
        else:
            parts.append(self._single())

    def _group(self) -> Node | None:
        """What stands in parentheses; None for `(?flags)`, which changes what follows and is no part itself."""
        flags = self._flags
        began = self._at
        self._at += 1
        if self._skip("?") and self._group_start(began):
            return None
        self._depth += 1
        if self._depth > NESTING_MAX:
            _refuse("expression nests too deeply", self._text)
        node = self._choice()
        self._depth -= 1
        if not self._skip(")"):
            _refuse("missing closing )", self._text)
        self._flags = flags
        return node

    def _group_start(self, began: int) -> bool:
        """Read what follows `(?`; True if that was flags and the closing parenthesis."""
        if self._skip("P<") or self._skip("<"):
            self._name(began)
            return False
        sign, letters = True, ""
        while self._at < len(self._text):
            letter = self._next()
            if letter in "imsU":
                letters += letter
            elif letter == "-" and sign:
                self._flags = self._flags.changed(letters, to=True)
                sign, letters = False, ""
            elif letter in ":)" and (sign or letters):
                self._flags = self._flags.changed(letters, to=sign)
                return letter == ")"
            else:
                break
        raise ExpressionError("invalid or unsupported Perl syntax", self._text[began : self._at])

    def _name(self, began: int) -> None:
        end = self._text.find(">", self._at)
        name = self._text[self._at : end] if end >= 0 else ""
        if not name or not _NAME.issuperset(name):
            _refuse("invalid named capture", self._text[began : end + 1 if end >= 0 else None])
        if name in self._names:
            _refuse("duplicate capture group name", name)
        self._names.add(name)
        self._at = end + 1

    # Repetitions

    def _repetition(self) -> tuple[int, int | None] | None:
        """How often what stands before may come, if a repetition operator stands here."""
        began = self._at
        letter = self._next()
        times: tuple[int, int | None] | None
        if letter == "*":
            times = 0, None
        elif letter == "+":
            times = 1, None
        elif letter == "?":
            times = 0, 1
        else:
            times = self._counted() if letter == "{" else None
        if times is None:
            self._at = began
            return None
        self._skip("?")  # not greedy: makes no difference to whether a whole name matches
        at_least, at_most = times
        if max(at_least, at_most or 0) > REPETITIONS_MAX or (at_most is not None and at_most < at_least):
            _refuse("invalid repeat count", self._text[began : self._at])
        return times

    def _counted(self) -> tuple[int, int | None] | None:
        """`2}`, `2,}` or `2,3}`; None if it is something else: the brace is then a brace."""
        at_least = self._number()
        if at_least is None:
            return None
        at_most: int | None = at_least
        if self._skip(","):
            at_most = None
            if self._peek() != "}":
                at_most = self._number()
                if at_most is None:
                    return None
        return (at_least, at_most) if self._skip("}") else None

    def _number(self) -> int | None:
        digits = self._run_of(_DIGITS, at_most=len(self._text))
        if not digits or (len(digits) > 1 and digits[0] == "0"):
            return None
        return int(digits) if len(digits) < 9 else REPETITIONS_MAX + 1

    # Single characters and places

    def _single(self) -> Node:
        letter = self._peek()
        if letter == "[":
            return Character(self._bracket())
        if letter == "\\":
            return self._escaped()
        self._at += 1
        if letter == ".":
            return Character(sets.ALL if self._flags.dot_takes_newline else sets.complement(sets.NEWLINE))
        if letter == "^":
            return Assertion.LINE_START if self._flags.many_lines else Assertion.TEXT_START
        if letter == "$":
            return Assertion.LINE_END if self._flags.many_lines else Assertion.TEXT_END
        return Character(self._between(ord(letter), ord(letter)))

    def _escaped(self) -> Node:
        place = _ESCAPED_PLACES.get(self._text[self._at + 1 : self._at + 2])
        if place is not None:
            self._at += 2
            return place
        named = self._named_class()
        if named is not None:
            return Character(named)
        code = self._escaped_code()
        return Character(self._between(code, code))

    def _quoted(self) -> list[Node]:
        """`\\Q...\\E`, or to the end: every character stands for itself."""
        end = self._text.find("\\E", self._at)
        quoted = self._text[self._at + 2 : end if end >= 0 else None]
        self._at = end + 2 if end >= 0 else len(self._text)
        return [Character(self._between(ord(letter), ord(letter))) for letter in quoted]

    def _escaped_code(self) -> int:
        """The character that a backslash and what follows stand for."""
        began = self._at
        self._at += 1
        if self._at == len(self._text):
            _refuse("trailing backslash at end of expression", "")
        letter = self._next()
        if letter in _OCTAL and (letter == "0" or self._peek() in _OCTAL):
            # `\1` alone would be a reference to a group, which no linear-time engine has.
            return int(letter + self._run_of(_OCTAL, at_most=2), 8)
        if letter == "x":
            return self._hexadecimal(began)
        if letter in _ESCAPED_CONTROLS:
            return _ESCAPED_CONTROLS[letter]
        if letter.isascii() and not letter.isalnum():
            return ord(letter)
        raise ExpressionError("invalid escape sequence", self._text[began : self._at])

    def _hexadecimal(self, began: int) -> int:
        if self._skip("{"):
            digits = self._run_of(_HEXADECIMAL, at_most=8)
            closed = self._skip("}")
        else:
            digits = self._run_of(_HEXADECIMAL, at_most=2)
            closed = len(digits) == 2
        if not closed or not digits or int(digits, 16) > _CODE_MAX:
            _refuse("invalid escape sequence", self._text[began : self._at])
        return int(digits, 16)

    # Classes

    def _named_class(self) -> int | None:
        """`\\d`, `\\pN`, `\\p{Greek}` and the like, if one stands here."""
        letter = self._text[self._at + 1 : self._at + 2]
        if letter.lower() in ("d", "s", "w") and letter:
            self._at += 2
            bits = sets.PERL[letter.lower()]
            return bits if letter.islower() else sets.complement(bits)
        if letter in ("p", "P"):
            return self._unicode_class()
        return None

    def _unicode_class(self) -> int:
        began = self._at
        negative = self._text[self._at + 1] == "P"
        self._at += 2
        if self._skip("{"):
            end = self._text.find("}", self._at)
            name = self._text[self._at : end] if end >= 0 else ""
            self._at = end + 1 if end >= 0 else len(self._text)
        else:
            name = self._next() if self._at < len(self._text) else ""
        if name.startswith("^"):
            name, negative = name[1:], not negative
        bits = sets.UNICODE.get(name)
        if bits is None:
            _refuse("invalid character class range", self._text[began : self._at])
        if self._flags.ignore_case:
            bits = sets.ignoring_case(bits)
        return sets.complement(bits) if negative else bits

    def _bracket(self) -> int:
        began = self._at
        self._at += 1
        negative = self._skip("^")
        bits, first = sets.NONE, True
        while first or self._peek() != "]":
            if self._at >= len(self._text):
                _refuse("missing closing ]", self._text[began:])
            bits |= self._bracket_item(began)
            first = False
        self._at += 1
        return sets.complement(bits) if negative else bits

    def _bracket_item(self, began: int) -> int:
        if self._text.startswith("[:", self._at):
            end = self._text.find(":]", self._at + 2)
            if end >= 0:
                return self._posix_class(end)
        if self._peek() == "\\":
            named = self._named_class()
            if named is not None:
                return named
        item = self._at
        first = last = self._bracket_code(began)
        if self._peek() == "-" and self._text[self._at + 1 : self._at + 2] not in ("]", ""):
            self._at += 1
            last = self._bracket_code(began)
            if last < first:
                _refuse("invalid character class range", self._text[item : self._at])
        return self._between(first, last)

    def _bracket_code(self, began: int) -> int:
        if self._at >= len(self._text):
            _refuse("missing closing ]", self._text[began:])
        return self._escaped_code() if self._peek() == "\\" else ord(self._next())

    def _posix_class(self, end: int) -> int:
        name = self._text[self._at + 2 : end]
        negative = name.startswith("^")
        bits = sets.POSIX.get(name.removeprefix("^"))
        if bits is None:
            _refuse("invalid character class range", self._text[self._at : end + 2])
        self._at = end + 2
        if self._flags.ignore_case:
            bits = sets.ignoring_case(bits)
        return sets.complement(bits) if negative else bits

    def _between(self, first: int, last: int) -> int:
        if self._flags.ignore_case:
            return sets.between_ignoring_case(first, last)
        return sets.between(first, last)

    # Reading

    def _peek(self) -> str:
        """The next character, and "" at the end."""
        return self._text[self._at : self._at + 1]

    def _next(self) -> str:
        self._at += 1
        return self._text[self._at - 1]

    def _skip(self, expected: str) -> bool:
        found = self._text.startswith(expected, self._at)
        if found:
            self._at += len(expected)
        return found

    def _run_of(self, letters: frozenset[str], *, at_most: int) -> str:
        began = self._at
        while self._at - began < at_most and self._peek() in letters and self._peek():
            self._at += 1
        return self._text[began : self._at]


def _refuse(reason: str, where: str) -> NoReturn:
    raise ExpressionError(reason, where)
