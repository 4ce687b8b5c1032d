"""Effective configs: the broker's, static and dynamic, and those of topics and groups on top of them.

Dynamic broker configs are kept in the metadata image under the broker's node id, or under the empty key for the
defaults of all brokers. `min.insync.replicas` always has such a default, as in any Kafka with eligible leader
replicas (KIP-966).
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from penstock.base.broker_settings import BROKER_SETTINGS, check_together
from penstock.base.broker_settings import synonyms as broker_synonyms
from penstock.base.errors import ErrorCode, Refusal, SettingError
from penstock.base.group_settings import GROUP_SETTINGS, check_group_settings, group_settings
from penstock.base.group_settings import synonyms as group_synonyms
from penstock.base.settings import Setting, Settings, Shown, Source, group_by_name
from penstock.base.topic_settings import (
    MIN_INSYNC_REPLICAS,
    TOPIC_SETTINGS,
    check_change,
    configs_at_creation,
    synonyms,
    topic_settings,
)
from penstock.cluster.metadata import MetadataImage, Topic

ALL_BROKERS = ""


class ConfigEntry(NamedTuple):
    """One config as DescribeConfigs and CreateTopics show it."""

    setting: Setting[Any]
    value: str | None
    source: Source
    read_only: bool
    synonyms: list[Shown]


class Configs:
    """Looks configs up, validates changes, and describes them."""

    def __init__(self, static: Settings, image: MetadataImage, *, node_id: int) -> None:
        self._static = static
        self._image = image
        self._node_key = str(node_id)
        self.broker = self._with_dynamic({})

    def reload(self) -> None:
        """Dynamic broker configs changed: compute the broker's settings again."""
        self.broker = self._with_dynamic(self._image.broker_configs)

    def _with_dynamic(self, dynamic: Mapping[str, Mapping[str, str]]) -> Settings:
        sources = (
            (self._for_all_brokers(dynamic), Source.DYNAMIC_DEFAULT_BROKER),
            (dynamic.get(self._node_key, {}), Source.DYNAMIC_BROKER),
        )
        given = [
            BROKER_SETTINGS.give(name, raw, source=source, origin="changed while running")
            for configs, source in sources
            for name, raw in configs.items()
        ]
        static = [one for group in self._static.given.values() for one in group]
        return check_together(Settings(BROKER_SETTINGS, group_by_name([*static, *given])))

    def _for_all_brokers(self, dynamic: Mapping[str, Mapping[str, str]]) -> Mapping[str, str]:
        name = MIN_INSYNC_REPLICAS.name
        own = self._static.rendered(BROKER_SETTINGS[name])
        assert own is not None
        return {name: own, **dynamic.get(ALL_BROKERS, {})}

    def of_topic(self, topic: Topic) -> Settings:
        return topic_settings(topic.configs, self.broker)

    def min_isr(self, topic: Topic) -> int:
        """The topic's `min.insync.replicas`."""
        return self.of_topic(topic)[MIN_INSYNC_REPLICAS]

    def at_creation(self, configs: Mapping[str, str]) -> Mapping[str, str]:
        """The configs of a new topic: those requested, and the broker's defaults of those that can never change."""
        return configs_at_creation(configs, self.broker)

    def topic_refusal(
        self, configs: Mapping[str, str], before: Mapping[str, str] | None = None
    ) -> Refusal | None:
        """Why a topic cannot have these configs, or None."""
        try:
            after = topic_settings(configs, self.broker)
            if before is not None:
                check_change(topic_settings(before, self.broker), after)
        except SettingError as error:
            return Refusal(ErrorCode.INVALID_CONFIG, str(error))
        return None

    def broker_refusal(self, key: str, configs: Mapping[str, str]) -> Refusal | None:
        """Why a broker cannot be given these dynamic configs, or None."""
        known = [self._node_key, *map(str, self._image.brokers)]
        if key not in (ALL_BROKERS, *known):
            return Refusal(ErrorCode.INVALID_REQUEST, f"there is no broker {key!r}")
        try:
            fixed = [name for name in configs if not BROKER_SETTINGS[name].dynamic]
            if fixed:
                return Refusal(
                    ErrorCode.INVALID_REQUEST,
                    f"{', '.join(fixed)} cannot be changed while the broker runs; set it at start-up",
                )
            broker = self._with_dynamic({**self._image.broker_configs, key: configs})
            for topic in self._image.topics():
                topic_settings(
                    topic.configs, broker
                )  # raises if a topic's own configs do not fit a new default
        except SettingError as error:
            return Refusal(ErrorCode.INVALID_CONFIG, str(error))
        return None

    def of_group(self, group_id: str) -> Settings:
        return group_settings(self._image.group_configs.get(group_id, {}), self.broker)

    def group_refusal(self, configs: Mapping[str, str]) -> Refusal | None:
        """Why a group cannot have these configs, or None."""
        try:
            check_group_settings(group_settings(configs, self.broker), self.broker)
        except SettingError as error:
            return Refusal(ErrorCode.INVALID_CONFIG, str(error))
        return None

    def describe_group(self, group_id: str) -> list[ConfigEntry]:
        """All of a group's configs, whether the group exists or not."""
        settings = self.of_group(group_id)
        return [
            ConfigEntry(
                setting,
                settings.rendered(setting),
                settings.source(setting),
                read_only=False,
                synonyms=group_synonyms(settings, setting),
            )
            for setting in GROUP_SETTINGS
        ]

    def describe_topic(self, topic: Topic) -> list[ConfigEntry]:
        """All of a topic's configs."""
        settings = self.of_topic(topic)
        return [
            ConfigEntry(
                setting,
                settings.rendered(setting),
                settings.source(setting),
                read_only=False,
                synonyms=synonyms(settings, setting),
            )
            for setting in TOPIC_SETTINGS
            if not setting.internal
        ]

    def describe_broker(self, key: str) -> list[ConfigEntry]:
        """All of this broker's configs, or, for the empty key, the dynamic defaults of all brokers."""
        if key != ALL_BROKERS:
            return [
                self._describe(self.broker, setting) for setting in BROKER_SETTINGS if not setting.internal
            ]
        names = self._for_all_brokers(self._image.broker_configs)
        only_default = self._with_dynamic({ALL_BROKERS: names})
        described = [self._describe(only_default, BROKER_SETTINGS[name]) for name in sorted(names)]
        return [entry._replace(synonyms=_of_all_brokers(entry.synonyms)) for entry in described]

    def _describe(self, settings: Settings, setting: Setting[Any]) -> ConfigEntry:
        return ConfigEntry(
            setting,
            settings.rendered(setting),
            settings.source(setting),
            read_only=not setting.dynamic,
            synonyms=broker_synonyms(settings, setting),
        )


def _of_all_brokers(shown: list[Shown]) -> list[Shown]:
    return [one for one in shown if one.source is Source.DYNAMIC_DEFAULT_BROKER]
