"""InitProducerId (key 22), v0-v6: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message


class InitProducerIdRequest(Message):
    API_KEY = 22
    VERSIONS = (0, 6)
    FLEXIBLE_SINCE = 2

    transactional_id: str | None = words.string("0+", nullable="0+")
    transaction_timeout_ms: int = words.int32("0+")
    producer_id: int = words.int64("3+", default=-1)
    producer_epoch: int = words.int16("3+", default=-1)
    enable2_pc: bool = words.boolean("6+")
    keep_prepared_txn: bool = words.boolean("6+")


class InitProducerIdResponse(Message):
    API_KEY = 22
    VERSIONS = (0, 6)
    FLEXIBLE_SINCE = 2

    throttle_time_ms: int = words.int32("0+", ignorable=True)
    error_code: int = words.int16("0+")
    producer_id: int = words.int64("0+", default=-1)
    producer_epoch: int = words.int16("0+")
    ongoing_txn_producer_id: int = words.int64("6+", default=-1)
    ongoing_txn_producer_epoch: int = words.int16("6+", default=-1)
