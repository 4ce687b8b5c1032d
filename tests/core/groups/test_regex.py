"""Regular expressions with RE2's syntax and meaning: what they match, what is an error, and what they may cost."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.groups.regex import LENGTH_MAX, ExpressionError, compile_expression
from penstock.core.groups.regex.parsing import NESTING_MAX
from penstock.core.groups.regex.program import INSTRUCTIONS_REMEMBERED, TRANSITIONS_REMEMBERED

# Answers of re2j 1.8, the library in Apache Kafka 4.3.1: the names that match, or "!" and the error.
RE2 = json.loads((Path(__file__).parent / "re2_answers.json").read_text())


def answer_to(text):
    """As in the file."""
    try:
        expression = compile_expression(text)
    except ExpressionError as error:
        return f"!{error.reason}"
    return [name for name in RE2["names"] if expression.matches(name)]


def test_random_expressions_match_what_re2_matches_and_are_wrong_where_re2_says_so():
    for text, expected in RE2["expressions"].items():
        assert answer_to(text) == expected, text


MATCHING = [
    ("orders", "orders"),
    ("orders-.*", "orders-eu"),
    ("(orders|invoices)(-v[0-9]+)?", "invoices-v12"),
    ("", ""),
    ("(?i)ORDERS", "orders"),
    ("(?i:o)rders", "Orders"),
    ("(?i)[x-z]+", "XyZ"),
    (r"\Qa.b\E", "a.b"),
    (r"\Qa.b", "a.b"),
    (r"\w+\.\d{2}", "eu.42"),
    ("[[:alpha:]_]+", "a_b"),
    ("[^[:digit:]]+", "abc"),
    (r"[^\D]", "5"),
    (r"\p{Lu}\PL", "A1"),
    (r"\pL+", "abc"),
    (r"\p{^Lu}", "a"),
    ("a{2,3}", "aaa"),
    ("a{,2}", "a{,2}"),
    ("a{01}", "a{01}"),
    ("(?P<first>a)(?<second>b)", "ab"),
    ("a(?i)*", "aaa"),
    ("(?U)a+?", "aa"),
    ("[]a]+", "]a"),
    ("[a-]+", "a-"),
    (r"\Aa\bb?\z", "a"),
    (r"\x61\x{62}\143", "abc"),
    (r"\_\-", "_-"),
    ("(|a)*b", "aab"),
    ("(a*)*b", "aab"),
]

NOT_MATCHING = [
    ("order", "orders"),
    ("rders", "orders"),
    ("orders.v", "orders"),
    ("orders", "ORDERS"),
    (r"\bx", "ax"),
    (r"\p{Greek}", "a"),
    ("é", "e"),
    ("a{2}", "aaa"),
    ("a$b", "ab"),
    ("[^a-z]", "q"),
]


@pytest.mark.parametrize(("text", "name"), MATCHING)
def test_a_whole_name_matches(text, name):
    assert compile_expression(text).matches(name)


@pytest.mark.parametrize(("text", "name"), NOT_MATCHING)
def test_a_part_of_a_name_or_another_name_does_not_match(text, name):
    assert not compile_expression(text).matches(name)


ERRORS = {
    "a{1001}": "invalid repeat count",
    "x{2,1}": "invalid repeat count",
    "a{99999999999}": "invalid repeat count",
    "a**": "invalid nested repetition operator",
    "a{2}{3}": "invalid nested repetition operator",
    "a{2}??": "invalid nested repetition operator",
    "*": "missing argument to repetition operator",
    "(?i)*": "missing argument to repetition operator",
    "|*": "missing argument to repetition operator",
    "(?P<n>a)(?P<n>b)": "duplicate capture group name",
    "(?P<>a)": "invalid named capture",
    "(?P<a-b>a)": "invalid named capture",
    "(?P<n": "invalid named capture",
    "(?=a)": "invalid or unsupported Perl syntax",
    "(?i-)": "invalid or unsupported Perl syntax",
    "(?z)": "invalid or unsupported Perl syntax",
    "(?": "invalid or unsupported Perl syntax",
    "(?P=n)": "invalid or unsupported Perl syntax",
    r"\C": "invalid escape sequence",
    r"\1": "invalid escape sequence",
    r"\8": "invalid escape sequence",
    r"\E": "invalid escape sequence",
    r"\x{110000}": "invalid escape sequence",
    r"\xg": "invalid escape sequence",
    r"[a-\d]": "invalid escape sequence",
    r"[\b]": "invalid escape sequence",
    "[[:foo:]]": "invalid character class range",
    "[z-a]": "invalid character class range",
    r"\pq": "invalid character class range",
    r"\p{": "invalid character class range",
    "[[:foo": "missing closing ]",
    "[]": "missing closing ]",
    "[a-": "missing closing ]",
    "(": "missing closing )",
    "a)": "unexpected )",
    "a\\": "trailing backslash at end of expression",
}


@pytest.mark.parametrize("text", ERRORS)
def test_what_is_no_expression_is_an_error_that_says_why(text):
    with pytest.raises(ExpressionError) as caught:
        compile_expression(text)
    assert caught.value.reason == ERRORS[text]


def test_an_expression_that_makes_others_backtrack_for_ever_is_answered():
    expression = compile_expression("(a|aa|a*)*(a?){200}b")
    assert not expression.matches("a" * 249)
    assert expression.matches("a" * 248 + "b")


def test_the_memory_of_transitions_is_bounded():
    expression = compile_expression("(a|b)*a(a|b){12}")
    for number in range(600):
        expression.matches(f"{number:b}".replace("0", "a").replace("1", "b") * 20)
    assert 0 < len(expression._transitions) <= TRANSITIONS_REMEMBERED


def test_repetitions_that_multiply_beyond_reason_are_refused():
    with pytest.raises(ExpressionError, match="too large"):
        compile_expression("((a{1000}){1000}){1000}")


def test_the_memory_of_large_transitions_is_bounded_too():
    expression = compile_expression("(|a)" * 1_000)
    assert expression.matches("a" * 900)
    assert sum(map(len, expression._transitions.values())) <= INSTRUCTIONS_REMEMBERED


def test_a_large_expression_is_matched_in_small_steps():
    expression = compile_expression("(|a)" * 1_000)
    assert len(list(expression.matching("a" * 200))) > 100


def test_expressions_that_are_too_long_are_refused():
    compile_expression("|" * LENGTH_MAX)
    with pytest.raises(ExpressionError, match="too large"):
        compile_expression("|" * (LENGTH_MAX + 1))


def test_groups_may_nest_so_deep_and_no_deeper():
    compile_expression("(" * NESTING_MAX + ")" * NESTING_MAX)
    with pytest.raises(ExpressionError, match="nests too deeply"):
        compile_expression("(" * (NESTING_MAX + 1) + ")" * (NESTING_MAX + 1))


_ATOMS = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\w", r"\.", "c-", "^", "$", r"\b"])


def _larger(parts):
    return st.one_of(
        st.lists(parts, min_size=1, max_size=3).map("".join),
        st.lists(parts, min_size=2, max_size=3).map(lambda each: f"({'|'.join(each)})"),
        st.tuples(parts, st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "*?"])).map(
            lambda each: f"(?:{each[0]}){each[1]}"
        ),
    )


@settings(max_examples=150, deadline=None)
@given(st.recursive(_ATOMS, _larger, max_leaves=8), st.text("abc-.", max_size=6))
def test_where_both_agree_on_the_syntax_python_finds_the_same(text, name):
    assert compile_expression(text).matches(name) == (
        re.fullmatch(text.replace("$", r"\Z"), name) is not None
    )


@settings(max_examples=200, deadline=None)
@given(st.text(r"ab*+?{}[]()|\^$.-:,dpPQE1<>i", max_size=20))
def test_any_text_is_an_expression_or_an_error(text):
    assert isinstance(answer_to(text), str | list)
