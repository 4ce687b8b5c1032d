"""The configs of a single group: those that Apache Kafka 4.3 has for groups of the consumer protocol.

A group's value comes from the group itself, else from the broker setting named as its synonym. Broker settings
also bound it. The configs of share groups and streams groups are not supported.
"""

from collections.abc import Mapping
from typing import Any, Final

from penstock.base.allowed_values import Between
from penstock.base.coordinator_settings import (
    GROUP_CONSUMER_MAX_ASSIGNMENT_INTERVAL_MS,
    GROUP_CONSUMER_MAX_HEARTBEAT_INTERVAL_MS,
    GROUP_CONSUMER_MAX_SESSION_TIMEOUT_MS,
    GROUP_CONSUMER_MIN_ASSIGNMENT_INTERVAL_MS,
    GROUP_CONSUMER_MIN_HEARTBEAT_INTERVAL_MS,
    GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS,
)
from penstock.base.errors import SettingError
from penstock.base.settings import (
    SECOND_MS,
    Catalogue,
    Setting,
    Settings,
    Shown,
    Source,
    Synonym,
    integer,
)

CONSUMER_SESSION_TIMEOUT_MS = integer(
    "consumer.session.timeout.ms",
    45 * SECOND_MS,
    "A member that sends no heartbeat for this long is removed from the group.",
    allowed=Between(1),
    synonyms=(Synonym("group.consumer.session.timeout.ms"),),
)
CONSUMER_HEARTBEAT_INTERVAL_MS = integer(
    "consumer.heartbeat.interval.ms",
    5 * SECOND_MS,
    "How often members are told to send a heartbeat.",
    allowed=Between(1),
    synonyms=(Synonym("group.consumer.heartbeat.interval.ms"),),
)
CONSUMER_ASSIGNMENT_INTERVAL_MS = integer(
    "consumer.assignment.interval.ms",
    SECOND_MS,
    "The shortest time between two assignments, so that members that join together are assigned together.",
    allowed=Between(0),
    synonyms=(Synonym("group.consumer.assignment.interval.ms"),),
)

GROUP_SETTINGS: Final = Catalogue(
    "group", (CONSUMER_SESSION_TIMEOUT_MS, CONSUMER_HEARTBEAT_INTERVAL_MS, CONSUMER_ASSIGNMENT_INTERVAL_MS)
)

# The broker's bounds for each of them.
_BOUNDS: Final = (
    (
        CONSUMER_SESSION_TIMEOUT_MS,
        GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS,
        GROUP_CONSUMER_MAX_SESSION_TIMEOUT_MS,
    ),
    (
        CONSUMER_HEARTBEAT_INTERVAL_MS,
        GROUP_CONSUMER_MIN_HEARTBEAT_INTERVAL_MS,
        GROUP_CONSUMER_MAX_HEARTBEAT_INTERVAL_MS,
    ),
    (
        CONSUMER_ASSIGNMENT_INTERVAL_MS,
        GROUP_CONSUMER_MIN_ASSIGNMENT_INTERVAL_MS,
        GROUP_CONSUMER_MAX_ASSIGNMENT_INTERVAL_MS,
    ),
)


def group_settings(configs: Mapping[str, str], broker: Settings) -> Settings:
    """The settings of a group with these configs on that broker; SettingError for an unknown config or value."""
    given = {
        name: (GROUP_SETTINGS.give(name, raw, source=Source.GROUP, origin="group"),)
        for name, raw in configs.items()
    }
    for setting in GROUP_SETTINGS:
        behind = [one for synonym in setting.synonyms for one in broker.given.get(synonym.name, ())]
        if behind:
            given[setting.name] = (*given.get(setting.name, ()), *behind)
    return Settings(GROUP_SETTINGS, given)


def check_group_settings(settings: Settings, broker: Settings) -> None:
    """SettingError if a group's settings are outside the broker's bounds."""
    for setting, least, most in _BOUNDS:
        value = settings[setting]
        if value < broker[least]:
            raise SettingError(f"{setting.name} must be greater than or equal to {least.name}")
        if value > broker[most]:
            raise SettingError(f"{setting.name} must be less than or equal to {most.name}")
    if settings[CONSUMER_SESSION_TIMEOUT_MS] <= settings[CONSUMER_HEARTBEAT_INTERVAL_MS]:
        raise SettingError(
            f"{CONSUMER_SESSION_TIMEOUT_MS.name} must be greater than {CONSUMER_HEARTBEAT_INTERVAL_MS.name}"
        )


def synonyms(settings: Settings, setting: Setting[Any]) -> list[Shown]:
    """The candidates for a group config's value, the effective one first, as DescribeConfigs lists them."""
    return settings.behind(setting, setting.synonyms[0].name)
