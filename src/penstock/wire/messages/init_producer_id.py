"""InitProducerId (key 22), v0-v6: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.wire import schema
from penstock.wire.schema import Message


class InitProducerIdRequest(Message):
    API_KEY = 22
    VERSIONS = (0, 6)
    FLEXIBLE_SINCE = 2

    transactional_id: str | None = schema.string("0+", nullable="0+")
    transaction_timeout_ms: int = schema.int32("0+")
    producer_id: int = schema.int64("3+", default=-1)
    producer_epoch: int = schema.int16("3+", default=-1)
    enable2_pc: bool = schema.boolean("6+")
    keep_prepared_txn: bool = schema.boolean("6+")


class InitProducerIdResponse(Message):
    API_KEY = 22
    VERSIONS = (0, 6)
    FLEXIBLE_SINCE = 2

    throttle_time_ms: int = schema.int32("0+", ignorable=True)
    error_code: int = schema.int16("0+")
    producer_id: int = schema.int64("0+", default=-1)
    producer_epoch: int = schema.int16("0+")
    ongoing_txn_producer_id: int = schema.int64("6+", default=-1)
    ongoing_txn_producer_epoch: int = schema.int16("6+", default=-1)
