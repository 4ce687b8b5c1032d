"""DescribeCluster (key 60), v0-v2: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.wire import schema
from penstock.wire.schema import Message, Struct


class DescribeClusterRequest(Message):
    API_KEY = 60
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 0

    include_cluster_authorized_operations: bool = schema.boolean("0+")
    endpoint_type: int = schema.int8("1+", default=1)
    include_fenced_brokers: bool = schema.boolean("2+")


class DescribeClusterBroker(Struct):
    broker_id: int = schema.int32("0+")
    host: str = schema.string("0+")
    port: int = schema.int32("0+")
    rack: str | None = schema.string("0+", nullable="0+", default=None)
    is_fenced: bool = schema.boolean("2+")


class DescribeClusterResponse(Message):
    API_KEY = 60
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 0

    throttle_time_ms: int = schema.int32("0+")
    error_code: int = schema.int16("0+")
    error_message: str | None = schema.string("0+", nullable="0+", default=None)
    endpoint_type: int = schema.int8("1+", default=1)
    cluster_id: str = schema.string("0+")
    controller_id: int = schema.int32("0+", default=-1)
    brokers: list[DescribeClusterBroker] = schema.array(DescribeClusterBroker, "0+")
    cluster_authorized_operations: int = schema.int32("0+", default=-2147483648)
