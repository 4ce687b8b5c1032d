"""PartitionLoads (key 10002), v0: the size of every partition of a broker, and the bytes it sent to consumers.

For the controller's balancer (`controller.partition_loads`).
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class PartitionLoadsRequest(Message):
    API_KEY = 10002
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0


class PartitionLoad(Struct):
    partition_index: int = words.int32("0+")
    size_bytes: int = words.int64("0+")
    sent_bytes: int = words.int64("0+")  # to consumers, since the broker started


class PartitionLoadsTopic(Struct):
    name: str = words.string("0+")
    partitions: list[PartitionLoad] = words.array(PartitionLoad, "0+")


class PartitionLoadsResponse(Message):
    API_KEY = 10002
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    topics: list[PartitionLoadsTopic] = words.array(PartitionLoadsTopic, "0+")
