"""How other people's clients tell their users what this broker does not have, and that they go on working."""

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from peers.brokers import Broker
from peers.kafka import CONFIG_COMMAND, run_tool
from penstock.base.errors import ErrorCode
from tests.foreign.target import target_is_kafka

pytestmark = [
    pytest.mark.foreign,
    pytest.mark.xdist_group("kafka"),
    pytest.mark.skipif(target_is_kafka(), reason="Apache Kafka has what is missing here"),
]

SHARE_GROUPS = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"


def test_librdkafka_shows_the_reason_and_keeps_its_connection(broker: Broker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    acl = AclBinding(
        ResourceType.TOPIC,
        "x",
        ResourcePatternType.LITERAL,
        "User:a",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    credential = UserScramCredentialUpsertion(
        "a", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), b"x"
    )

    (created,) = admin.create_acls([acl]).values()
    with pytest.raises(KafkaException, match="does not support ACLs") as refused:
        created.result(timeout=20)
    assert refused.value.args[0].code() == ErrorCode.SECURITY_DISABLED
    (altered,) = admin.alter_user_scram_credentials([credential]).values()
    with pytest.raises(KafkaException, match="does not support SCRAM credentials"):
        altered.result(timeout=20)

    assert admin.describe_user_scram_credentials().result(timeout=20) == {}


@pytest.mark.needs("kafka")
def test_the_java_client_shows_why_a_quota_was_refused(broker: Broker) -> None:
    user = ("--entity-type", "users", "--entity-name", "a")
    done = run_tool(
        CONFIG_COMMAND,
        *("--bootstrap-server", broker.bootstrap, "--alter", *user),
        *("--add-config", "producer_byte_rate=1024"),
        check=False,
    )
    assert "does not support client quotas" in done.stdout + done.stderr
    assert (
        run_tool(CONFIG_COMMAND, "--bootstrap-server", broker.bootstrap, "--describe", *user).returncode == 0
    )


@pytest.mark.needs("kafka")
def test_the_java_client_does_not_ask_for_share_groups_since_they_are_not_advertised(broker: Broker) -> None:
    done = run_tool(
        SHARE_GROUPS, "--bootstrap-server", broker.bootstrap, "--describe", "--group", "x", check=False
    )
    assert "does not support SHARE_GROUP_DESCRIBE" in done.stdout + done.stderr
