"""EndTxn (key 26), v0-v5: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message


class EndTxnRequest(Message):
    API_KEY = 26
    VERSIONS = (0, 5)
    FLEXIBLE_SINCE = 3

    transactional_id: str = words.string("0+")
    producer_id: int = words.int64("0+")
    producer_epoch: int = words.int16("0+")
    committed: bool = words.boolean("0+")


class EndTxnResponse(Message):
    API_KEY = 26
    VERSIONS = (0, 5)
    FLEXIBLE_SINCE = 3

    throttle_time_ms: int = words.int32("0+")
    error_code: int = words.int16("0+")
    producer_id: int = words.int64("5+", default=-1, ignorable=True)
    producer_epoch: int = words.int16("5+", default=-1, ignorable=True)
