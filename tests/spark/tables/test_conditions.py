"""Conditions of `penstock table query --where`: what they mean, and what is said of those that mean nothing."""

import pytest

from penstock.base.errors import UserError
from penstock.spark.tables.conditions import All, Any, Comparison, IsNull, Not, parse_condition


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("a = 1", Comparison("a", "=", (1,))),
        ("a<>-1.5", Comparison("a", "!=", (-1.5,))),
        ("`odd name` == 'it''s'", Comparison("odd name", "=", ("it's",))),
        ("a is null", IsNull("a")),
        ("a IS NOT NULL", Not(IsNull("a"))),
        (
            "a in (1, 2) and b like 'A%'",
            All((Comparison("a", "in", (1, 2)), Comparison("b", "like", ("A%",)))),
        ),
        ("a not in (true)", Not(Comparison("a", "in", (True,)))),
        (
            "a = 1 or b = 2 and c = 3",
            Any(
                (
                    Comparison("a", "=", (1,)),
                    All((Comparison("b", "=", (2,)), Comparison("c", "=", (3,)))),
                )
            ),
        ),
        (
            "not (a = 1 or b = 2)",
            Not(Any((Comparison("a", "=", (1,)), Comparison("b", "=", (2,))))),
        ),
    ],
)
def test_a_condition_means_what_sql_means_by_it(text: str, meant: object) -> None:
    assert parse_condition(text) == meant


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "a column was expected at its end"),
        ("a", "one of =, !=, <, <=, >, >=, in, like, is null was expected at its end"),
        ("a = b", "a number, 'text', true or false was expected before 'b'"),
        ("a = 1 b = 2", "and, or, or the end was expected before 'b = 2'"),
        ("(a = 1", ") was expected at its end"),
        ("a = 'open", 'a column, a value or an operator was expected before "\'open"'),
        ("a not = 1", "is null was expected before '= 1'"),
    ],
)
def test_what_is_no_condition_is_said_with_the_place(text: str, told: str) -> None:
    with pytest.raises(UserError) as raised:
        parse_condition(text)
    assert told in str(raised.value)
