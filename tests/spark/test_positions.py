"""Offsets as people and checkpoints write them."""

import json

import pytest

from penstock.base.errors import SettingError, UserError
from penstock.base.ids import TopicPartition
from penstock.client.offsets import AtOffset, AtTime
from penstock.spark.options import read_settings
from penstock.spark.positions import (
    AT_EARLIEST,
    AT_LATEST,
    Reached,
    assigned_partitions,
    ending_places,
    starting_places,
)

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def settings_of(**options: str):
    return read_settings({"kafka.bootstrap.servers": "b:1", "subscribe": "a", **options})


def test_a_place_said_for_all_is_every_partitions():
    places = starting_places(settings_of(startingOffsets="earliest"), default=AT_LATEST)
    assert places.of([A0, A1], "x") == {A0: AT_EARLIEST, A1: AT_EARLIEST}
    assert starting_places(settings_of(), default=AT_LATEST).of([A0], "x") == {A0: AT_LATEST}
    assert ending_places(settings_of()).of([A0], "x") == {A0: AT_LATEST}


def test_offsets_are_said_per_partition():
    raw = '{"a": {"0": 23, "1": -2}}'
    places = starting_places(settings_of(startingOffsets=raw), default=AT_LATEST)
    assert places.of([A0, A1], "x") == {A0: AtOffset(23), A1: AT_EARLIEST}


def test_times_go_before_offsets_and_one_for_all_before_one_by_one():
    both = settings_of(
        startingTimestamp="5", startingOffsetsByTimestamp='{"a": {"0": 7}}', startingOffsets="latest"
    )
    assert starting_places(both, default=AT_LATEST).of([A0], "x") == {A0: AtTime(5)}
    one_by_one = settings_of(startingOffsetsByTimestamp='{"a": {"0": 7}}', startingOffsets="latest")
    assert starting_places(one_by_one, default=AT_LATEST).of([A0], "x") == {A0: AtTime(7)}
    assert ending_places(settings_of(endingTimestamp="9")).of([A0], "x") == {A0: AtTime(9)}


def test_partitions_that_are_missing_or_not_read_are_named():
    places = starting_places(settings_of(startingOffsets='{"a": {"0": 23}}'), default=AT_LATEST)
    with pytest.raises(SettingError, match=r"startingOffsets says nothing about a-1"):
        places.of([A0, A1], "startingOffsets")
    with pytest.raises(SettingError, match=r"names a-0, which this query does not read"):
        places.of([A1], "startingOffsets")


@pytest.mark.parametrize(
    "raw",
    [
        "23",
        "{",
        "[]",
        '{"a": 1}',
        '{"a": {"x": 1}}',
        '{"a": {"0": "z"}}',
        '{"a": {"0": -3}}',
        '{"a": {"-1": 0}}',
    ],
)
def test_what_is_no_place_is_refused_with_the_options_name(raw: str):
    with pytest.raises(SettingError, match="startingOffsets"):
        starting_places(settings_of(startingOffsets=raw), default=AT_LATEST)


@pytest.mark.parametrize("raw", ["earliest", '{"a": {"0": -2}}'])
def test_a_read_cannot_end_where_the_log_begins(raw: str):
    with pytest.raises(SettingError, match="endingOffsets"):
        ending_places(settings_of(endingOffsets=raw))


def test_assigned_partitions_come_once_and_in_order():
    assert assigned_partitions('{"a": [1, 0, 1]}') == [A0, A1]
    for raw in ("{}", '{"a": 0}', '{"a": ["x"]}', "nothing"):
        with pytest.raises(SettingError, match="assign"):
            assigned_partitions(raw)


def test_a_checkpoint_says_again_what_it_was_told():
    reached = Reached({A1: 5, A0: 2**40}, {"a": "00ff"}, "group-7")
    assert Reached.from_json(json.loads(json.dumps(reached.to_json()))) == reached


def test_equal_positions_are_equal_text_whatever_their_order():
    one = Reached({A0: 1, A1: 2}, {"b": "1", "a": "2"}, None)
    other = Reached({A1: 2, A0: 1}, {"a": "2", "b": "1"}, None)
    assert json.dumps(one.to_json()) == json.dumps(other.to_json())


def test_a_checkpoint_of_sparks_own_source_is_understood():
    assert Reached.from_json({"a": {"0": 3, "1": 4}}) == Reached({A0: 3, A1: 4}, {}, None)
    # Also where a topic has our name.
    assert Reached.from_json({"penstock": {"0": 3}}).positions == {TopicPartition("penstock", 0): 3}


@pytest.mark.parametrize("value", [{"files": 3}, {"penstock": 1}, {"a": {"x": 1}}, {"penstock": 99}])
def test_a_checkpoint_that_holds_something_else_is_refused(value: dict):
    with pytest.raises(UserError, match="checkpoint"):
        Reached.from_json(value)
