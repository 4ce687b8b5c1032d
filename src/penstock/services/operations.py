"""What a client may do with a resource, as the bit field that Metadata and DescribeCluster answer.

Without an authoriser everybody may do everything the resource knows.
"""

CREATE = 5
ALTER = 7
DESCRIBE = 8
CLUSTER_ACTION = 9
DESCRIBE_CONFIGS = 10
ALTER_CONFIGS = 11
IDEMPOTENT_WRITE = 12
READ = 3
WRITE = 4
DELETE = 6


def bit_field(*operations: int) -> int:
    """One bit per operation."""
    return sum(1 << operation for operation in operations)


TOPIC_OPERATIONS = bit_field(READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS)
CLUSTER_OPERATIONS = bit_field(
    CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE
)
