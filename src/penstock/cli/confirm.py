"""The question before something is destroyed, the same for every command that destroys."""

import sys
from argparse import Namespace

from penstock.base.errors import UserError
from penstock.cli.parsing import Parser


class UnconfirmedError(UserError):
    """There is no terminal to ask on, and --yes was not given: nothing was changed, exit code 2."""


def add_yes(verb: Parser) -> None:
    verb.add_argument(
        "-y", "--yes", action="store_true", help="do not ask; without a terminal it has to be given"
    )


def confirm(arguments: Namespace, what: str) -> None:
    """Return if `what` may be done: --yes was given, or a person on the terminal says so.

    UserError if the answer is no, UnconfirmedError if there is no terminal to ask on. Input that is
    no terminal is never read, for what comes over a pipe was not written as an answer to this question.
    """
    if arguments.yes:
        return
    if sys.stdin is None or not sys.stdin.isatty():
        raise UnconfirmedError(f"this would {what}; nothing was changed. --yes does it without asking")
    sys.stdout.flush()
    sys.stderr.write(f"{what}? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UserError("nothing was changed")
