"""WriteTxnMarkers (key 27), v1-v2: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class WritableTxnMarkerTopic(Struct):
    name: str = words.string("0+")
    partition_indexes: list[int] = words.array(words.int32, "0+")


class WritableTxnMarker(Struct):
    producer_id: int = words.int64("0+")
    producer_epoch: int = words.int16("0+")
    transaction_result: bool = words.boolean("0+")
    topics: list[WritableTxnMarkerTopic] = words.array(WritableTxnMarkerTopic, "0+")
    coordinator_epoch: int = words.int32("0+")
    transaction_version: int = words.int8("2+", ignorable=True)


class WriteTxnMarkersRequest(Message):
    API_KEY = 27
    VERSIONS = (1, 2)
    FLEXIBLE_SINCE = 1

    markers: list[WritableTxnMarker] = words.array(WritableTxnMarker, "0+")


class WritableTxnMarkerPartitionResult(Struct):
    partition_index: int = words.int32("0+")
    error_code: int = words.int16("0+")


class WritableTxnMarkerTopicResult(Struct):
    name: str = words.string("0+")
    partitions: list[WritableTxnMarkerPartitionResult] = words.array(WritableTxnMarkerPartitionResult, "0+")


class WritableTxnMarkerResult(Struct):
    producer_id: int = words.int64("0+")
    topics: list[WritableTxnMarkerTopicResult] = words.array(WritableTxnMarkerTopicResult, "0+")


class WriteTxnMarkersResponse(Message):
    API_KEY = 27
    VERSIONS = (1, 2)
    FLEXIBLE_SINCE = 1

    markers: list[WritableTxnMarkerResult] = words.array(WritableTxnMarkerResult, "0+")
