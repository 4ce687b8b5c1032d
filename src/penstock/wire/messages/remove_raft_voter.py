"""RemoveRaftVoter (key 81), v0-v0: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message


class RemoveRaftVoterRequest(Message):
    API_KEY = 81
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    cluster_id: str | None = words.string("0+", nullable="0+")
    voter_id: int = words.int32("0+")
    voter_directory_id: bytes = words.uuid("0+")


class RemoveRaftVoterResponse(Message):
    API_KEY = 81
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    throttle_time_ms: int = words.int32("0+")
    error_code: int = words.int16("0+")
    error_message: str | None = words.string("0+", nullable="0+", ignorable=True)
