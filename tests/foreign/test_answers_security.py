"""What a Kafka without authorizer, quotas and credentials answers to those who ask about them, field by field.

Penstock has none of these. Where Kafka would write something down (a quota, a SCRAM credential), Penstock refuses and
says why, and the connection goes on.
"""

from collections.abc import Callable

import pytest

from penstock.base.errors import ErrorCode
from penstock.schema.words import Message
from penstock.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from penstock.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from penstock.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from penstock.wire.messages.create_acls import AclCreation, CreateAclsRequest
from penstock.wire.messages.create_delegation_token import CreateDelegationTokenRequest
from penstock.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from penstock.wire.messages.describe_acls import DescribeAclsRequest
from penstock.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from penstock.wire.messages.describe_delegation_token import DescribeDelegationTokenRequest
from penstock.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from penstock.wire.messages.describe_quorum import DescribeQuorumRequest
from penstock.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from penstock.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from penstock.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from penstock.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from penstock.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.foreign.asking import create
from tests.foreign.wire_peer import Pair, Peer

pytestmark = [pytest.mark.foreign, pytest.mark.xdist_group("kafka")]

EXACT, DEFAULT, ANY = range(3)


def quotas(*components: tuple[str, int, str | None], strict: bool = False) -> DescribeClientQuotasRequest:
    return DescribeClientQuotasRequest(
        components=[
            ComponentData(entity_type=kind, match_type=match_type, match=match)
            for kind, match_type, match in components
        ],
        strict=strict,
    )


ASKED: dict[str, Message] = {
    "describe acls": DescribeAclsRequest(
        resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1
    ),
    "create acls": CreateAclsRequest(
        creations=[
            AclCreation(
                resource_type=2,
                resource_name="x",
                principal=principal,
                host="*",
                operation=3,
                permission_type=3,
            )
            for principal in ("User:a", "")
        ]
    ),
    "create no acls": CreateAclsRequest(),
    "delete acls": DeleteAclsRequest(
        filters=[
            DeleteAclsFilter(
                resource_type_filter=kind, resource_name_filter=None, operation=1, permission_type=1
            )
            for kind in (1, 2)
        ]
    ),
    "sasl handshake": SaslHandshakeRequest(mechanism="PLAIN"),
    "sasl authenticate": SaslAuthenticateRequest(auth_bytes=b"\0name\0password"),
    "create token": CreateDelegationTokenRequest(),
    "renew token": RenewDelegationTokenRequest(),
    "expire token": ExpireDelegationTokenRequest(),
    "describe tokens": DescribeDelegationTokenRequest(owners=None),
    "all quotas": quotas(),
    "a user's quotas": quotas(("user", EXACT, "a"), strict=True),
    "default quotas": quotas(("user", DEFAULT, None), ("client-id", ANY, None)),
    "quotas of an unknown kind": quotas(("nope", EXACT, "a")),
    "quotas of no kind": quotas(("", ANY, None)),
    "quotas matched in an unknown way": quotas(("user", 9, "a")),
    "quotas of nothing": quotas(("user", EXACT, None)),
    "default quotas with a name": quotas(("user", DEFAULT, "a")),
    "quotas named twice": quotas(("user", ANY, None), ("user", ANY, None)),
    "quotas of addresses and users": quotas(("ip", ANY, None), ("user", ANY, None)),
    "all users": DescribeUserScramCredentialsRequest(users=None),
    "no users": DescribeUserScramCredentialsRequest(users=[]),
    "some users": DescribeUserScramCredentialsRequest(
        users=[UserName(name=name) for name in ("a", "b", "b", "")]
    ),
    "change no users": AlterUserScramCredentialsRequest(),
    "change no quotas": AlterClientQuotasRequest(),
}


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        pytest.param(request, version, id=f"{name}-v{version}")
        for name, request in ASKED.items()
        for version in range(request.VERSIONS[0], request.VERSIONS[1] + 1)
    ],
)
def test_requests_about_security_get_the_answers_of_kafka(
    pair: Pair, request_: Message, version: int
) -> None:
    pair.same(request_, version)


def moving(topic: str, path: Callable[[Peer], str]) -> Callable[[Peer], AlterReplicaLogDirsRequest]:
    def request(peer: Peer) -> AlterReplicaLogDirsRequest:
        topics = [
            AlterReplicaLogDirTopic(name=topic, partitions=[0, 7]),
            AlterReplicaLogDirTopic(name="no-such-topic", partitions=[0]),
        ]
        return AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path(peer), topics=topics)])

    return request


@pytest.mark.parametrize("version", [1, 2])
def test_moving_replicas_between_log_directories(pair: Pair, topic: str, version: int) -> None:
    create(pair, topic)

    def own(peer: Peer) -> str:
        return str(peer.ask(DescribeLogDirsRequest(topics=[]), 4).results[0].log_dir)

    pair.same(moving(topic, own), version)
    for elsewhere in ("/no/such/directory", "relative", ""):
        pair.same(moving(topic, lambda _, path=elsewhere: path), version)  # type: ignore[misc]


@pytest.mark.parametrize("version", [0, 1])
def test_a_quota_is_refused_with_a_reason(pair: Pair, version: int) -> None:
    entity = [
        EntityData(entity_type="user", entity_name="a"),
        EntityData(entity_type="client-id", entity_name=None),
    ]
    entry = EntryData(entity=entity, ops=[OpData(key="producer_byte_rate", value=1024.0)])
    answer = pair.broker.ask(AlterClientQuotasRequest(entries=[entry]), version)
    (refused,) = answer.entries
    assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert "quotas" in refused.error_message
    assert refused.entity == entity


def test_a_scram_credential_is_refused_with_a_reason(pair: Pair) -> None:
    request = AlterUserScramCredentialsRequest(
        deletions=[ScramCredentialDeletion(name="a", mechanism=1)],
        upsertions=[ScramCredentialUpsertion(name=name, mechanism=1) for name in ("a", "b")],
    )
    answer = pair.broker.ask(request, 0)
    assert [(result.user, result.error_code) for result in answer.results] == [
        ("a", ErrorCode.UNSUPPORTED_VERSION),
        ("b", ErrorCode.UNSUPPORTED_VERSION),
    ]
    assert all("SCRAM" in result.error_message for result in answer.results)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_quorum_that_does_not_exist_is_not_described(pair: Pair, version: int) -> None:
    answer = pair.broker.ask(DescribeQuorumRequest(), version)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert version < 2 or "ZooKeeper" in answer.error_message
