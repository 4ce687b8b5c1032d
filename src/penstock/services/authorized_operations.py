"""The authorized operations of a resource, as the bit field in Metadata, DescribeCluster and DescribeTopicPartitions.

There is no authorizer yet, so every client may do every operation of the resource type.
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
    """The bit field of operations: the bit number is the operation's code in Kafka's AclOperation."""
    return sum(1 << operation for operation in operations)


TOPIC_OPERATIONS = bit_field(READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS)
CLUSTER_OPERATIONS = bit_field(
    CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE
)
