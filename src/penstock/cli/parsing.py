"""Arguments that several commands have, and a parser whose help fits a screen and whose errors fit a line."""

import argparse
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from penstock.base.errors import UserError

BOOTSTRAP_VARIABLE = "PENSTOCK_BOOTSTRAP_SERVERS"
COMMAND_CONFIG_VARIABLE = "PENSTOCK_COMMAND_CONFIG"
_BOOTSTRAP_DEFAULT = "localhost:9092"
_HELP_WIDTH_MAX = 100
_PARTITIONS_MAX = 1_000_000  # in a range, more than any topic has


class UsageError(UserError):
    """The command was called the wrong way: exit code 2."""


class Parser(argparse.ArgumentParser):
    """argparse with one-line errors, and with values that may begin with a minus sign."""

    def __init__(self, **more: Any) -> None:
        super().__init__(formatter_class=_HelpFormatter, allow_abbrev=False, **more)
        self.signed_options: set[str] = set()
        self._is_intermixing = False

    def add_signed_argument(self, *names: str, **more: Any) -> None:
        """An option that takes values like -1h, which argparse alone would read as another option."""
        self.signed_options.update(names)
        self.add_argument(*names, **more)

    def with_values_attached(self, words: Iterable[str]) -> list[str]:
        """`--from -1h` as `--from=-1h`, for signed options."""
        attached: list[str] = []
        for word in words:
            if attached and attached[-1] in self.signed_options and word[:1] == "-" and word[1:2].isdigit():
                attached[-1] += f"={word}"
            else:
                attached.append(word)
        return attached

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Accept arguments and options in any order, as `produce TOPIC --whole FILE`; argparse alone does not."""
        if args is not None:
            args = self.with_values_attached(args)
        if self._subparsers is not None or self._is_intermixing:
            return super().parse_known_args(args, namespace)
        self._is_intermixing = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._is_intermixing = False

    def error(self, message: str) -> NoReturn:
        sys.stderr.write(f"{self.prog}: {message}; see `{self.prog} --help`\n")
        sys.exit(2)


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        width = min(shutil.get_terminal_size().columns, _HELP_WIDTH_MAX) - 1
        super().__init__(prog, max_help_position=34, width=width)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        """`-b, --bootstrap-server ADDRESS`: the value's name once, not after each of the option's names."""
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        value = self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{', '.join(action.option_strings)} {value}"


def new_parser(prog: str) -> Parser:
    return Parser(prog=prog)


def add_verb(verbs: "argparse._SubParsersAction[Parser]", name: str, summary: str, usage: str) -> Parser:
    """A verb of a noun: `penstock NOUN VERB`; `usage` is what comes after these words."""
    verb = verbs.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
    verb.usage = f"{verb.prog} {usage}".rstrip()
    return verb


def add_verbs(parser: Parser) -> "argparse._SubParsersAction[Parser]":
    return parser.add_subparsers(
        dest="verb", required=True, metavar="VERB", title="verbs", parser_class=Parser, prog=parser.prog
    )


def add_connection(parser: argparse.ArgumentParser) -> None:
    default = os.environ.get(BOOTSTRAP_VARIABLE) or _BOOTSTRAP_DEFAULT
    parser.add_argument(
        "-b",
        "--bootstrap-server",
        metavar="ADDRESS",
        default=default,
        help=f"host:port of a broker (default {default})",
    )
    parser.add_argument(
        "--command-config",
        metavar="FILE",
        default=os.environ.get(COMMAND_CONFIG_VARIABLE),
        help="properties with TLS and SASL settings",
    )


def add_json(parser: argparse.ArgumentParser, text: str = "print JSON instead of a table") -> None:
    parser.add_argument("--json", action="store_true", help=text)


def finish_verb(verb: Parser, act: Callable[[argparse.Namespace], int]) -> None:
    """Add the options of every verb, and set the function that `run_verb` calls."""
    add_connection(verb)
    add_json(verb)
    verb.set_defaults(act=act)


def run_verb(arguments: argparse.Namespace) -> int:
    code: int = arguments.act(arguments)
    return code


def name_and_value(text: str) -> tuple[str, str]:
    """Name and value, separated by the first equals sign."""
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form name=value")
    return name, value


def positive(text: str) -> int:
    return _whole_number(text, at_least=1)


def not_negative(text: str) -> int:
    return _whole_number(text, at_least=0)


def one_of(text: str, what: str, names: Sequence[str]) -> str:
    """`text` in the spelling of `names`; a broker answers an unknown filter with an empty list, not an error."""
    for name in names:
        if name.lower() == text.lower():
            return name
    kind = what.rpartition(" ")[2]
    raise argparse.ArgumentTypeError(f"there is no {what} {text!r}; the {kind}s are {', '.join(names)}")


def partition_list(text: str) -> list[int]:
    """Partitions as in 0,2,5-7."""
    partitions: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        try:
            low, high = int(first), int(last if dash else first)
        except ValueError:
            low, high = 1, 0
        # An empty range must not count as no choice, which would mean all partitions.
        if not low <= high < low + _PARTITIONS_MAX:
            raise argparse.ArgumentTypeError(f"{text!r} is no list of partitions like 0,2,5-7")
        partitions += range(low, high + 1)
    return partitions


def unescaped(text: str) -> str:
    r"""A separator as typed in a shell, with the escapes \t, \n, \0 and \\."""
    for typed, meant in (("\\t", "\t"), ("\\n", "\n"), ("\\0", "\0"), ("\\\\", "\\")):
        text = text.replace(typed, meant)
    if not text:
        raise argparse.ArgumentTypeError("a separator cannot be empty")
    return text


def _whole_number(text: str, *, at_least: int) -> int:
    try:
        number = int(text)
    except ValueError:
        number = at_least - 1
    if number < at_least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of {at_least} or more")
    return number
