"""Finds the command and runs it: the one place where errors become a line on stderr and an exit code.

A command's module is imported only when it is called, and `--version` imports none, to keep start-up fast.
"""

import errno
import io
import sys
from collections.abc import Sequence
from importlib import import_module

from penstock.base.version import describe_version
from penstock.cli.streams import explain_closed, replace_closed_streams

OK = 0
FAILED = 1
USAGE = 2
INTERRUPTED = 130

COMMANDS = {
    "serve": "run a broker",
    "cluster": "describe and upgrade a cluster, or run one here for development",
    "broker": "list, describe, configure and drain brokers",
    "topic": "list, describe, create, alter, purge, move and delete topics",
    "produce": "send lines of text, files or JSON as records",
    "consume": "read records from an offset, a time or the beginning",
    "group": "list, describe, reset and delete consumer groups",
    "txn": "list, describe and abort transactions",
    "table": "list, describe, create, refresh, query and drop tables of topics",
    "pipeline": "run flows from topics to topics and tables on Spark",
    "log": "show and check the files of a log, without a broker",
    "sim": "run the broker in a simulation with injected faults",
    "completion": "print a completion script for bash, zsh or fish",
}

_HELP = """usage: penstock COMMAND [options]

A message queue that speaks Kafka's protocol; the commands work with Apache
Kafka too.

{commands}

`penstock COMMAND --help` shows a command's options; `penstock --version` prints
the version, and whether the hot path is compiled.
A broker's address is taken from -b, else from PENSTOCK_BOOTSTRAP_SERVERS, else
it is localhost:9092.
Exit codes: 0 done, 1 failed, 2 wrong arguments, 130 interrupted."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line; the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    replace_closed_streams()
    _escape_unprintable()
    try:
        try:
            code = _dispatch(words)
        except SystemExit as end:  # argparse exits this way, after help and for wrong arguments
            code = end.code if isinstance(end.code, int) else FAILED
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader of stdout has closed it, as `| head` does: not a failure.
        _discard_stdout()
        return OK
    except OSError as error:  # the last output could not be written: a full disk, or a closed stdout
        return _complain(_system_error(error), FAILED)
    except KeyboardInterrupt:
        return INTERRUPTED


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(_help())
        return OK if words else USAGE
    if words[0] in ("-V", "--version"):
        print(f"penstock {describe_version()}")
        return OK
    name = words[0]
    if name not in COMMANDS:
        return _complain(_unknown_command(name), USAGE)
    return _run(name, words[1:])


def _run(name: str, words: list[str]) -> int:
    from penstock.base.errors import PenstockError
    from penstock.cli.confirm import UnconfirmedError
    from penstock.cli.parsing import UsageError, new_parser

    module = import_module(f"penstock.cli.{name}")
    parser = new_parser(f"penstock {name}")
    module.add_arguments(parser)
    arguments = parser.parse_args(words)
    try:
        code: int = module.run(arguments)
        return code
    except UsageError as error:
        return _complain(f"{error}; see `penstock {name} --help`", USAGE)
    except UnconfirmedError as error:
        return _complain(str(error), USAGE)
    except PenstockError as error:
        return _complain(str(error), FAILED)
    except BrokenPipeError:
        raise
    except OSError as error:
        return _complain(_system_error(error), FAILED)


def _complain(message: str, code: int) -> int:
    try:
        sys.stdout.flush()
    except OSError:
        _discard_stdout()
    print(f"penstock: {message}", file=sys.stderr)
    return code


def _system_error(error: OSError) -> str:
    if error.errno == errno.EBADF and error.filename is None:
        why = explain_closed()
        if why is not None:
            return why
    reason = (error.strerror or str(error)).lower()
    return f"{error.filename}: {reason}" if error.filename is not None else reason


def _unknown_command(name: str) -> str:
    import difflib

    if name.startswith("-"):
        return f"there is no option {name}; options come after the command, see `penstock --help`"
    nearest = difflib.get_close_matches(name, COMMANDS, n=1, cutoff=0.6)
    hint = f"did you mean {nearest[0]!r}?" if nearest else "see `penstock --help`"
    return f"there is no command {name!r}; {hint}"


def _help() -> str:
    width = max(map(len, COMMANDS))
    lines = (f"  {name:<{width}}  {text}" for name, text in COMMANDS.items())
    return _HELP.format(commands="\n".join(lines))


def _escape_unprintable() -> None:
    """Print characters that the terminal's encoding lacks as escapes, so that no record's content stops a command."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _discard_stdout() -> None:
    """Redirect stdout to /dev/null, so that Python's flush at exit does not fail."""
    import os

    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        return  # not a real file, as in tests: then there is nothing to flush at the end
