"""The configs of groups, and the bounds that a broker sets to them."""

import pytest

from penstock.base.broker_settings import BROKER_SETTINGS
from penstock.base.errors import SettingError
from penstock.base.group_settings import (
    CONSUMER_HEARTBEAT_INTERVAL_MS,
    CONSUMER_SESSION_TIMEOUT_MS,
    GROUP_SETTINGS,
    check_group_settings,
    group_settings,
)
from penstock.base.load_settings import load_broker_settings
from penstock.base.settings import Source

# What Apache Kafka 4.3.1 has as defaults of its group configs.
KAFKA = {
    "consumer.session.timeout.ms": 45000,
    "consumer.heartbeat.interval.ms": 5000,
    "consumer.assignment.interval.ms": 1000,
}


def test_names_and_defaults_are_kafkas():
    assert {setting.name: setting.default for setting in GROUP_SETTINGS} == KAFKA


def test_each_has_a_broker_setting_of_the_same_kind_and_default():
    for setting in GROUP_SETTINGS:
        (synonym,) = setting.synonyms
        assert BROKER_SETTINGS[synonym.name].default == setting.default
        assert BROKER_SETTINGS[synonym.name].kind == setting.kind


def test_a_groups_own_value_wins_over_the_brokers():
    broker = load_broker_settings(assignments=["group.consumer.heartbeat.interval.ms=6000"])
    assert group_settings({}, broker)[CONSUMER_HEARTBEAT_INTERVAL_MS] == 6000
    own = group_settings({"consumer.heartbeat.interval.ms": "7000"}, broker)
    assert own[CONSUMER_HEARTBEAT_INTERVAL_MS] == 7000
    assert own.source(CONSUMER_HEARTBEAT_INTERVAL_MS) is Source.GROUP


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ({"consumer.session.timeout.ms": "44999"}, "group.consumer.min.session.timeout.ms"),
        ({"consumer.session.timeout.ms": "60001"}, "group.consumer.max.session.timeout.ms"),
        ({"consumer.heartbeat.interval.ms": "15001"}, "group.consumer.max.heartbeat.interval.ms"),
        ({"consumer.assignment.interval.ms": "15001"}, "group.consumer.max.assignment.interval.ms"),
    ],
)
def test_a_group_stays_between_the_brokers_bounds(configs, message):
    broker = load_broker_settings()
    with pytest.raises(SettingError, match=message):
        check_group_settings(group_settings(configs, broker), broker)


def test_a_session_lasts_longer_than_a_heartbeat():
    broker = load_broker_settings(
        assignments=[
            "group.consumer.min.session.timeout.ms=1000",
            "group.consumer.session.timeout.ms=9000",
            "group.consumer.heartbeat.interval.ms=9000",
        ]
    )
    settings = group_settings({}, broker)
    assert settings[CONSUMER_SESSION_TIMEOUT_MS] == settings[CONSUMER_HEARTBEAT_INTERVAL_MS]
    with pytest.raises(SettingError, match=r"must be greater than consumer\.heartbeat\.interval\.ms"):
        check_group_settings(settings, broker)
