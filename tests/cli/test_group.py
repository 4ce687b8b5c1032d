"""`penstock group` and `penstock txn` called the wrong way, or where no broker runs. The rest is in tests/foreign."""

import pytest

from tests.cli.running import Penstock


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("group", "list", "--state", "Nonsense"),
            "there is no group state 'Nonsense'; the states are Empty, ",
        ),
        (
            ("group", "list", "--type", "new"),
            "there is no group type 'new'; the types are classic, consumer, ",
        ),
        (("group", "reset", "g"), "either --to POSITION or --by N is required"),
        (("group", "reset", "g", "--to", "end", "--by", "3"), "either --to POSITION or --by N is required"),
        (("group", "reset", "g", "--to", "nowhere"), "'nowhere' is not a position in a topic"),
        (("group", "reset", "g", "--to", "end", "-p", "1"), "--partition needs one --topic"),
        (("txn", "abort"), "give either ID, or --partition and --producer-id"),
        (("txn", "abort", "--partition", "orders-0"), "give either ID"),
        (
            ("txn", "abort", "--partition", "orders", "--producer-id", "1"),
            "'orders' is no partition like orders-0",
        ),
        (
            ("txn", "list", "--state", "Nonsense"),
            "there is no transaction state 'Nonsense'; the states are Empty, Ongoing, ",
        ),
        (("txn", "list", "--older-than", "soon"), "'soon' is no time like 90s, 15m or 1h"),
        (
            ("consume", "t", "-g", "g", "--to", "end"),
            "the group's assignment decides what is read: leave out --to",
        ),
        (("consume", "t", "-g", "g", "-p", "0"), "leave out --partition"),
        (("consume", "t", "-g", "g", "--from", "7"), "reading begins at the group's committed offsets"),
    ],
)
def test_a_command_called_the_wrong_way_says_what_is_missing(
    offline: Penstock, words: tuple[str, ...], said: str
) -> None:
    outcome = offline(*words)
    assert outcome.code == 2
    assert said in outcome.err
    assert outcome.err.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [
        ("group", "list"),
        ("group", "describe", "g"),
        ("group", "reset", "g", "--to", "end"),
        ("group", "delete", "g"),
        ("txn", "list"),
        ("txn", "describe", "x"),
        ("txn", "abort", "x"),
        ("consume", "t", "-g", "g"),
    ],
    ids=" ".join,
)
def test_where_no_broker_runs_one_line_says_so(offline: Penstock, words: tuple[str, ...]) -> None:
    outcome = offline(*words)
    assert outcome.code == 1
    assert outcome.err.startswith(
        "penstock: cannot reach localhost:1: connection refused; is a broker running"
    )
    assert outcome.err.count("\n") == 1
