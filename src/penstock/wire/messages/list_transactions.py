"""ListTransactions (key 66), v0-v2: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class ListTransactionsRequest(Message):
    API_KEY = 66
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 0

    state_filters: list[str] = words.array(words.string, "0+")
    producer_id_filters: list[int] = words.array(words.int64, "0+")
    duration_filter: int = words.int64("1+", default=-1)
    transactional_id_pattern: str | None = words.string("2+", nullable="2+", default=None)


class TransactionState(Struct):
    transactional_id: str = words.string("0+")
    producer_id: int = words.int64("0+")
    transaction_state: str = words.string("0+")


class ListTransactionsResponse(Message):
    API_KEY = 66
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 0

    throttle_time_ms: int = words.int32("0+")
    error_code: int = words.int16("0+")
    unknown_state_filters: list[str] = words.array(words.string, "0+")
    transaction_states: list[TransactionState] = words.array(TransactionState, "0+")
