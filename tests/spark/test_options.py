"""Options: known whatever their case, refused with a word that helps."""

import pytest

from penstock.base.errors import SettingError
from penstock.spark.options import (
    INCLUDE_HEADERS,
    MAX_OFFSETS_PER_TRIGGER,
    STARTING_OFFSETS,
    read_settings,
)

LEAST = {"kafka.bootstrap.servers": "b:1", "subscribe": "a"}


def test_names_are_known_in_lower_case_as_spark_hands_them_over():
    settings = read_settings({**LEAST, "startingoffsets": "latest", "INCLUDEHEADERS": "true"})
    assert settings[STARTING_OFFSETS] == "latest"
    assert settings[INCLUDE_HEADERS] is True
    assert settings[MAX_OFFSETS_PER_TRIGGER] == 0


def test_a_misspelt_name_is_answered_with_the_nearest_as_it_is_written():
    with pytest.raises(
        SettingError, match=r"unknown read option 'startingofset'; did you mean startingOffsets\?"
    ):
        read_settings({**LEAST, "startingofset": "latest"})


def test_options_that_mean_something_to_sparks_own_source_only_are_taken():
    read_settings({**LEAST, "kafkaConsumer.pollTimeoutMs": "512", "kafka.max.poll.records": "7"})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"subscribe": "a"}, "kafka.bootstrap.servers is missing"),
        ({"kafka.bootstrap.servers": "b:1"}, "one of subscribe, subscribePattern and assign"),
        ({**LEAST, "assign": "{}"}, "subscribe and assign are given"),
        ({**LEAST, "includeHeaders": "perhaps"}, "includeHeaders cannot be 'perhaps'"),
        ({**LEAST, "maxOffsetsPerTrigger": "-1"}, "maxOffsetsPerTrigger cannot be"),
        ({**LEAST, "kafka.isolation.level": "read"}, "read_committed, read_uncommitted"),
    ],
)
def test_what_cannot_be_is_said_so(options: dict, words: str):
    with pytest.raises(SettingError, match=words):
        read_settings(options)


def test_a_directory_needs_no_broker():
    read_settings({"path": "logs"})
