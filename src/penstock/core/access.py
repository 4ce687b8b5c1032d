"""Access rights: which principal asks, for which operation, on which resource. Pure.

Operations and resource types have Kafka's codes. An `Authorizer` decides; `AllowAll` is the one of a broker without
access control.
"""

from enum import IntEnum
from typing import Final, NamedTuple, Protocol

from penstock.base.errors import ErrorCode


class AclOperation(IntEnum):
    """What a request does to a resource."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclResourceType(IntEnum):
    """What kind of thing a name names."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


CLUSTER_NAME: Final = "kafka-cluster"  # the name of the one resource of type CLUSTER

DENIED: Final = {
    AclResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    AclResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    AclResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    AclResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    AclResourceType.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    AclResourceType.USER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
}


class Principal(NamedTuple):
    """Who a connection acts for."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS: Final = Principal("User", "ANONYMOUS")


class Access(NamedTuple):
    """One operation on one resource."""

    operation: AclOperation
    resource: AclResourceType
    name: str


class Authorizer(Protocol):
    """Decides who may do what."""

    @property
    def allows_all(self) -> bool:
        """Whether every request is allowed: then `allows` need not be called."""
        ...

    def allows(self, principal: Principal, host: str, access: Access) -> bool:
        """Whether a principal may do this from that host."""
        ...


class AllowAll:
    """The authorizer of a broker without access control."""

    allows_all: Final = True

    def allows(self, principal: Principal, host: str, access: Access) -> bool:  # noqa: ARG002
        return True
