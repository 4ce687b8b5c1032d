"""The first things a person meets: help, versions, and errors in one line."""

import pytest

from penstock.base.version import describe_version
from tests.cli.running import Penstock

COMMANDS = [
    [],
    ["serve"],
    ["broker"],
    ["broker", "list"],
    ["broker", "config"],
    ["broker", "drain"],
    ["topic"],
    ["topic", "list"],
    ["topic", "describe"],
    ["topic", "create"],
    ["topic", "alter"],
    ["topic", "config"],
    ["topic", "purge"],
    ["topic", "move"],
    ["topic", "delete"],
    ["produce"],
    ["consume"],
    ["table", "query"],
    ["table", "drop"],
    ["completion"],
    ["log"],
    ["log", "describe"],
    ["pipeline"],
    ["pipeline", "init"],
    ["pipeline", "run"],
    ["pipeline", "describe"],
    ["pipeline", "reset"],
    ["sim"],
    ["sim", "run"],
    ["sim", "describe"],
]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_fits_a_screen_of_80_by_24(offline: Penstock, words: list[str]) -> None:
    outcome = offline(*words, "--help")
    assert outcome.code == 0
    assert outcome.err == ""
    assert len(outcome.lines) <= 24
    assert max(map(len, outcome.lines)) <= 80
    assert outcome.lines[0].startswith(" ".join(["usage: penstock", *words]))


def test_help_tells_the_exit_codes_and_where_the_address_comes_from(offline: Penstock) -> None:
    text = offline("--help").out
    assert "Exit codes: 0 done, 1 failed, 2 wrong arguments, 130 interrupted" in text
    assert "PENSTOCK_BOOTSTRAP_SERVERS" in text


def test_the_version_is_one_line(offline: Penstock) -> None:
    assert offline("--version") == (0, f"penstock {describe_version()}\n", "")


def test_no_command_is_a_wrong_call_that_shows_help(offline: Penstock) -> None:
    outcome = offline()
    assert outcome.code == 2
    assert outcome.out.startswith("usage: penstock COMMAND")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["consum"], "penstock: there is no command 'consum'; did you mean 'consume'?"),
        (
            ["produce"],
            "penstock produce: the following arguments are required: TOPIC; see `penstock produce --help`",
        ),
        (["zzz"], "penstock: there is no command 'zzz'; see `penstock --help`"),
        (
            ["-b", "x"],
            "penstock: there is no option -b; options come after the command, see `penstock --help`",
        ),
        (
            ["consume"],
            "penstock consume: the following arguments are required: TOPIC; see `penstock consume --help`",
        ),
        (
            ["consume", "t", "-n", "0"],
            "penstock consume: argument -n/--max-messages: '0' is not a whole number of 1 or more; "
            "see `penstock consume --help`",
        ),
        (
            ["topic", "purge", "t", "-p", "5-2"],
            "penstock topic purge: argument -p/--partition: '5-2' is no list of partitions like 0,2,5-7; "
            "see `penstock topic purge --help`",
        ),
        (
            ["consume", "t", "-p", "0-99999999999"],
            "penstock consume: argument -p/--partition: '0-99999999999' is no list of partitions like 0,2,5-7; "
            "see `penstock consume --help`",
        ),
        (
            ["topic", "create", "t", "--config", "oops"],
            "penstock topic create: argument --config: 'oops' is not of the form name=value; "
            "see `penstock topic create --help`",
        ),
        (
            ["consume", "t", "--print", "key,colour"],
            "penstock consume: argument --print: 'colour' is none of topic, partition, offset, timestamp, key, "
            "value, headers; see `penstock consume --help`",
        ),
        (
            ["topic", "alter", "t"],
            "penstock: nothing to alter: give --partitions, --config or --delete-config; "
            "see `penstock topic --help`",
        ),
        (
            ["consume", "t", "--follow", "--to", "5"],
            "penstock: --follow and --to exclude each other; see `penstock consume --help`",
        ),
    ],
)
def test_a_wrong_call_is_answered_in_one_line_and_code_2(
    offline: Penstock, words: list[str], message: str
) -> None:
    assert offline(*words) == (2, "", message + "\n")


@pytest.mark.parametrize("words", [["topic", "list"], ["produce", "t"], ["consume", "t"]], ids=" ".join)
def test_the_error_for_an_unreachable_broker_says_how_to_start_one(
    offline: Penstock, words: list[str]
) -> None:
    outcome = offline(*words)
    assert outcome == (
        1,
        "",
        "penstock: cannot reach localhost:1: connection refused; is a broker running there? "
        "start one with `penstock serve`\n",
    )


def test_the_option_goes_before_the_environment(offline: Penstock) -> None:
    assert "cannot reach localhost:2:" in offline("topic", "list", "-b", "localhost:2").err
