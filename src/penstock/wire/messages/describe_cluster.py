"""DescribeCluster (key 60), v0-v2: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class DescribeClusterRequest(Message):
    API_KEY = 60
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 0

    include_cluster_authorized_operations: bool = words.boolean("0+")
    endpoint_type: int = words.int8("1+", default=1)
    include_fenced_brokers: bool = words.boolean("2+")


class DescribeClusterBroker(Struct):
    broker_id: int = words.int32("0+")
    host: str = words.string("0+")
    port: int = words.int32("0+")
    rack: str | None = words.string("0+", nullable="0+", default=None)
    is_fenced: bool = words.boolean("2+")


class DescribeClusterResponse(Message):
    API_KEY = 60
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 0

    throttle_time_ms: int = words.int32("0+")
    error_code: int = words.int16("0+")
    error_message: str | None = words.string("0+", nullable="0+", default=None)
    endpoint_type: int = words.int8("1+", default=1)
    cluster_id: str = words.string("0+")
    controller_id: int = words.int32("0+", default=-1)
    brokers: list[DescribeClusterBroker] = words.array(DescribeClusterBroker, "0+")
    cluster_authorized_operations: int = words.int32("0+", default=-2147483648)
