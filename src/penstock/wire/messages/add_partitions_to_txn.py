"""AddPartitionsToTxn (key 24), v0-v5: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class AddPartitionsToTxnTopic(Struct):
    name: str = words.string("0+")
    partitions: list[int] = words.array(words.int32, "0+")


class AddPartitionsToTxnTransaction(Struct):
    transactional_id: str = words.string("4+")
    producer_id: int = words.int64("4+")
    producer_epoch: int = words.int16("4+")
    verify_only: bool = words.boolean("4+")
    topics: list[AddPartitionsToTxnTopic] = words.array(AddPartitionsToTxnTopic, "4+")


class AddPartitionsToTxnRequest(Message):
    API_KEY = 24
    VERSIONS = (0, 5)
    FLEXIBLE_SINCE = 3

    transactions: list[AddPartitionsToTxnTransaction] = words.array(AddPartitionsToTxnTransaction, "4+")
    v3_and_below_transactional_id: str = words.string("0-3")
    v3_and_below_producer_id: int = words.int64("0-3")
    v3_and_below_producer_epoch: int = words.int16("0-3")
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = words.array(AddPartitionsToTxnTopic, "0-3")


class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: int = words.int32("0+")
    partition_error_code: int = words.int16("0+")


class AddPartitionsToTxnTopicResult(Struct):
    name: str = words.string("0+")
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = words.array(
        AddPartitionsToTxnPartitionResult, "0+"
    )


class AddPartitionsToTxnResult(Struct):
    transactional_id: str = words.string("4+")
    topic_results: list[AddPartitionsToTxnTopicResult] = words.array(AddPartitionsToTxnTopicResult, "4+")


class AddPartitionsToTxnResponse(Message):
    API_KEY = 24
    VERSIONS = (0, 5)
    FLEXIBLE_SINCE = 3

    throttle_time_ms: int = words.int32("0+")
    error_code: int = words.int16("4+", ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = words.array(AddPartitionsToTxnResult, "4+")
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = words.array(
        AddPartitionsToTxnTopicResult, "0-3"
    )
