"""The operations and resource types of `core.access`, by the short names in which API modules declare their needs."""

from typing import Final

from penstock.core.access import AclOperation, AclResourceType

READ: Final = AclOperation.READ
WRITE: Final = AclOperation.WRITE
CREATE: Final = AclOperation.CREATE
DELETE: Final = AclOperation.DELETE
ALTER: Final = AclOperation.ALTER
DESCRIBE: Final = AclOperation.DESCRIBE
CLUSTER_ACTION: Final = AclOperation.CLUSTER_ACTION
DESCRIBE_CONFIGS: Final = AclOperation.DESCRIBE_CONFIGS
ALTER_CONFIGS: Final = AclOperation.ALTER_CONFIGS
IDEMPOTENT_WRITE: Final = AclOperation.IDEMPOTENT_WRITE

TOPIC: Final = AclResourceType.TOPIC
GROUP: Final = AclResourceType.GROUP
CLUSTER: Final = AclResourceType.CLUSTER
TRANSACTIONAL_ID: Final = AclResourceType.TRANSACTIONAL_ID
DELEGATION_TOKEN: Final = AclResourceType.DELEGATION_TOKEN
