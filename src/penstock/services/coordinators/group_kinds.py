"""The kinds of groups that a group coordinator serves beside classic groups, with the broker's settings."""

from penstock.base.coordinator_settings import (
    GROUP_CONSUMER_ASSIGNORS,
    GROUP_CONSUMER_MAX_SIZE,
    GROUP_CONSUMER_MIGRATION_POLICY,
)
from penstock.base.group_settings import (
    CONSUMER_ASSIGNMENT_INTERVAL_MS,
    CONSUMER_HEARTBEAT_INTERVAL_MS,
    CONSUMER_SESSION_TIMEOUT_MS,
)
from penstock.core.groups.consumer_groups import consumer_groups
from penstock.core.groups.consumer_settings import ConsumerGroupSettings, GroupTimes, MigrationPolicy
from penstock.core.groups.kinds import GroupKindFactory
from penstock.core.groups.subscriptions import Topics
from penstock.services.configs import Configs


def group_kinds(topics: Topics, configs: Configs) -> tuple[GroupKindFactory, ...]:
    """One entry per kind; asked for each shard that is loaded."""
    return (
        consumer_groups(
            topics,
            _consumer_group_settings(configs),
            lambda group_id: consumer_group_times(configs, group_id),
        ),
    )


def consumer_group_times(configs: Configs, group_id: str) -> GroupTimes:
    """The group's own configs, else the broker's settings."""
    settings = configs.of_group(group_id)
    return GroupTimes(
        session_timeout_ms=settings[CONSUMER_SESSION_TIMEOUT_MS],
        heartbeat_interval_ms=settings[CONSUMER_HEARTBEAT_INTERVAL_MS],
        assignment_interval_ms=settings[CONSUMER_ASSIGNMENT_INTERVAL_MS],
    )


def _consumer_group_settings(configs: Configs) -> ConsumerGroupSettings:
    settings = configs.broker
    return ConsumerGroupSettings(
        members_max=settings[GROUP_CONSUMER_MAX_SIZE],
        migration_policy=MigrationPolicy(settings[GROUP_CONSUMER_MIGRATION_POLICY].lower()),
        assignors=settings[GROUP_CONSUMER_ASSIGNORS],
    )
