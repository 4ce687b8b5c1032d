"""The confirmation that every destructive command asks for."""

import sys
from argparse import Namespace

from penstock.base.errors import UserError
from penstock.cli.parsing import Parser


class UnconfirmedError(UserError):
    """There is no terminal to ask on, and --yes was not given: nothing is changed, exit code 2."""


def add_yes(verb: Parser) -> None:
    verb.add_argument("-y", "--yes", action="store_true", help="do not ask; required without a terminal")


def confirm(arguments: Namespace, what: str) -> None:
    """Return if `what` is confirmed: --yes was given, or the user on the terminal answers y.

    UserError if the answer is no, UnconfirmedError if there is no terminal to ask on. A pipe is never read: its
    content was not written as an answer to this question.
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
