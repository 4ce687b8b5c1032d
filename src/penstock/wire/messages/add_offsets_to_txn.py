"""AddOffsetsToTxn (key 25), v0-v4: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message


class AddOffsetsToTxnRequest(Message):
    API_KEY = 25
    VERSIONS = (0, 4)
    FLEXIBLE_SINCE = 3

    transactional_id: str = words.string("0+")
    producer_id: int = words.int64("0+")
    producer_epoch: int = words.int16("0+")
    group_id: str = words.string("0+")


class AddOffsetsToTxnResponse(Message):
    API_KEY = 25
    VERSIONS = (0, 4)
    FLEXIBLE_SINCE = 3

    throttle_time_ms: int = words.int32("0+")
    error_code: int = words.int16("0+")
