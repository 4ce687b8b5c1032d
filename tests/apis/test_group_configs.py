"""The configs of groups: DescribeConfigs, AlterConfigs, IncrementalAlterConfigs with the GROUP resource."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.base.errors import ErrorCode
from penstock.testing import EmbeddedBroker
from penstock.wire.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from tests.apis.groups import SETTINGS, new_group
from tests.apis.requests import DELETE, alter, config, describe
from tests.group_messages import beating
from tests.raw_client import RawClient

GROUP = 32
OF_GROUP = 8
OF_BROKER = 4
DEFAULT = 5

HEARTBEAT = "consumer.heartbeat.interval.ms"
SESSION = "consumer.session.timeout.ms"


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(settings={**SETTINGS, "group.consumer.session.timeout.ms": "46000"}) as broker:
        yield broker


@pytest.fixture
def group(client: RawClient) -> str:
    return new_group(client)


def test_a_group_without_configs_has_the_brokers_values(client: RawClient, group: str) -> None:
    values = {one.name: (one.value, one.config_source) for one in describe(client, GROUP, group).configs}
    assert values == {
        "consumer.assignment.interval.ms": ("1000", DEFAULT),
        HEARTBEAT: ("5000", DEFAULT),
        SESSION: ("46000", OF_BROKER),
    }


def test_a_groups_own_value_overrides_the_brokers_and_lists_its_synonyms(
    client: RawClient, group: str
) -> None:
    assert alter(client, GROUP, group, SESSION, "50000").error_code == 0
    shown = config(client, GROUP, group, SESSION)
    assert (shown.value, shown.config_source, shown.read_only) == ("50000", OF_GROUP, False)
    assert [(one.name, one.value) for one in shown.synonyms] == [
        (SESSION, "50000"),
        ("group.consumer.session.timeout.ms", "46000"),
        ("group.consumer.session.timeout.ms", "45000"),
    ]
    assert alter(client, GROUP, group, SESSION, None, DELETE).error_code == 0
    assert config(client, GROUP, group, SESSION).value == "46000"


def test_members_get_the_groups_heartbeat_interval(client: RawClient, group: str) -> None:
    assert alter(client, GROUP, group, HEARTBEAT, "7000").error_code == 0
    assert client.ask(beating(group), 1).heartbeat_interval_ms == 7000


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (SESSION, "1000", "must be greater than or equal to group.consumer.min.session.timeout.ms"),
        (SESSION, "99000", "must be less than or equal to group.consumer.max.session.timeout.ms"),
        (HEARTBEAT, "1", "must be greater than or equal to group.consumer.min.heartbeat.interval.ms"),
        (HEARTBEAT, "soon", "a whole number is expected"),
        ("consumer.odd", "1", "unknown group setting"),
    ],
)
def test_a_group_config_out_of_bounds_is_rejected(
    client: RawClient, group: str, key: str, value: str, message: str
) -> None:
    answer = alter(client, GROUP, group, key, value)
    assert answer.error_code == ErrorCode.INVALID_CONFIG
    assert message in answer.error_message
    assert all(one.config_source != OF_GROUP for one in describe(client, GROUP, group).configs)


def test_validating_changes_nothing(client: RawClient, group: str) -> None:
    assert alter(client, GROUP, group, HEARTBEAT, "7000", validate_only=True).error_code == 0
    assert config(client, GROUP, group, HEARTBEAT).value == "5000"


def test_all_groups_together_have_no_configs(client: RawClient) -> None:
    assert alter(client, GROUP, "", HEARTBEAT, "7000").error_code == ErrorCode.INVALID_REQUEST
    assert describe(client, GROUP, "").error_code == ErrorCode.INVALID_REQUEST


def test_the_old_api_replaces_all_configs(client: RawClient, group: str) -> None:
    alter(client, GROUP, group, SESSION, "50000")
    resource = AlterConfigsResource(
        resource_type=GROUP, resource_name=group, configs=[AlterableConfig(name=HEARTBEAT, value="6000")]
    )
    (answer,) = client.ask(AlterConfigsRequest(resources=[resource]), 2).responses
    assert answer.error_code == 0
    assert config(client, GROUP, group, SESSION).value == "46000"
    assert config(client, GROUP, group, HEARTBEAT).value == "6000"


@pytest.mark.parametrize("group_id", ["plain", "with/slash", "..", "gr\u00fc\u00dfe \U0001f600", "a" * 300])
def test_configs_survive_a_restart_whatever_the_groups_name(tmp_path: Path, group_id: str) -> None:
    with EmbeddedBroker(data_dir=tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
        assert alter(client, GROUP, group_id, HEARTBEAT, "8000").error_code == 0
    with EmbeddedBroker(data_dir=tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
        assert config(client, GROUP, group_id, HEARTBEAT).value == "8000"
