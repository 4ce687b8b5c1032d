"""DescribeTransactions (key 65), v0-v0: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class DescribeTransactionsRequest(Message):
    API_KEY = 65
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    transactional_ids: list[str] = words.array(words.string, "0+")


class TopicData(Struct):
    topic: str = words.string("0+")
    partitions: list[int] = words.array(words.int32, "0+")


class TransactionState(Struct):
    error_code: int = words.int16("0+")
    transactional_id: str = words.string("0+")
    transaction_state: str = words.string("0+")
    transaction_timeout_ms: int = words.int32("0+")
    transaction_start_time_ms: int = words.int64("0+")
    producer_id: int = words.int64("0+")
    producer_epoch: int = words.int16("0+")
    topics: list[TopicData] = words.array(TopicData, "0+")


class DescribeTransactionsResponse(Message):
    API_KEY = 65
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    throttle_time_ms: int = words.int32("0+")
    transaction_states: list[TransactionState] = words.array(TransactionState, "0+")
