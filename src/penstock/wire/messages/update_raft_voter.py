"""UpdateRaftVoter (key 82), v0-v0: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class Listener(Struct):
    name: str = words.string("0+")
    host: str = words.string("0+")
    port: int = words.uint16("0+")


class KRaftVersionFeature(Struct):
    min_supported_version: int = words.int16("0+")
    max_supported_version: int = words.int16("0+")


class UpdateRaftVoterRequest(Message):
    API_KEY = 82
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    cluster_id: str | None = words.string("0+", nullable="0+")
    current_leader_epoch: int = words.int32("0+")
    voter_id: int = words.int32("0+")
    voter_directory_id: bytes = words.uuid("0+")
    listeners: list[Listener] = words.array(Listener, "0+")
    kraft_version_feature: KRaftVersionFeature = words.struct(KRaftVersionFeature, "0+")


class CurrentLeader(Struct):
    leader_id: int = words.int32("0+", default=-1)
    leader_epoch: int = words.int32("0+", default=-1)
    host: str = words.string("0+")
    port: int = words.int32("0+")


class UpdateRaftVoterResponse(Message):
    API_KEY = 82
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    throttle_time_ms: int = words.int32("0+")
    error_code: int = words.int16("0+")
    current_leader: CurrentLeader | None = words.struct(CurrentLeader, "0+", tag=0)
