"""Topic ids as people see them, and which topic names are taken."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.errors import ErrorCode, UserError
from penstock.base.ids import ZERO_ID, TopicPartition, format_id, parse_id, topic_name_problem


@given(st.binary(min_size=16, max_size=16))
def test_an_id_reads_back_as_it_was_written(raw):
    text = format_id(raw)
    assert len(text) == 22
    assert parse_id(text) == raw


def test_the_zero_id_looks_as_in_kafka():
    assert format_id(ZERO_ID) == "AAAAAAAAAAAAAAAAAAAAAA"


@pytest.mark.parametrize("text", ["", "AAAA", "A" * 30, "ä" * 22])
def test_what_is_no_id_is_refused(text):
    with pytest.raises(UserError, match="is not an id"):
        parse_id(text)


@pytest.mark.parametrize("name", ["a", "orders", "a.b_c-D9", "x" * 249, "..."])
def test_ordinary_names_are_taken(name):
    assert topic_name_problem(name) is None


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "é", "x" * 250, "a\n"])
def test_names_that_could_not_be_a_directorys_are_refused(name):
    assert topic_name_problem(name) is not None


def test_a_partition_is_written_like_its_directory():
    assert str(TopicPartition("orders", 3)) == "orders-3"


def test_errors_that_pass_by_themselves_may_be_retried():
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER.retriable
    assert not ErrorCode.INVALID_TOPIC_EXCEPTION.retriable
