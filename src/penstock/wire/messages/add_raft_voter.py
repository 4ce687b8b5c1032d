"""AddRaftVoter (key 80), v0-v1: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class Listener(Struct):
    name: str = words.string("0+")
    host: str = words.string("0+")
    port: int = words.uint16("0+")


class AddRaftVoterRequest(Message):
    API_KEY = 80
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 0

    cluster_id: str | None = words.string("0+", nullable="0+")
    timeout_ms: int = words.int32("0+")
    voter_id: int = words.int32("0+")
    voter_directory_id: bytes = words.uuid("0+")
    listeners: list[Listener] = words.array(Listener, "0+")
    ack_when_committed: bool = words.boolean("1+", default=True)


class AddRaftVoterResponse(Message):
    API_KEY = 80
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 0

    throttle_time_ms: int = words.int32("0+")
    error_code: int = words.int16("0+")
    error_message: str | None = words.string("0+", nullable="0+", ignorable=True)
