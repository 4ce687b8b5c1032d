"""AllocateProducerIds (key 67), v0-v0: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message


class AllocateProducerIdsRequest(Message):
    API_KEY = 67
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    broker_id: int = words.int32("0+")
    broker_epoch: int = words.int64("0+", default=-1)


class AllocateProducerIdsResponse(Message):
    API_KEY = 67
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    throttle_time_ms: int = words.int32("0+")
    error_code: int = words.int16("0+")
    producer_id_start: int = words.int64("0+")
    producer_id_len: int = words.int32("0+")
