"""BrokerHandshake (key 10000), v0: two brokers prove to each other that they belong to the same cluster.

It is asked twice on a connection. The first request has everything but `proof` and is answered with everything but
`proof`; the second has `proof` alone and is answered with `proof` and `api_versions` alone (`cluster.handshake`).
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class BrokerHandshakeRequest(Message):
    API_KEY = 10000
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    cluster_id: str = words.string("0+")
    node_id: int = words.int32("0+", default=-1)
    broker_epoch: int = words.int64("0+", default=-1)
    nonce: bytes = words.blob("0+")
    proof: bytes = words.blob("0+")


class BrokerApiVersion(Struct):
    """The versions of an API that is not in ApiVersions."""

    api_key: int = words.int16("0+")
    min_version: int = words.int16("0+")
    max_version: int = words.int16("0+")


class BrokerHandshakeResponse(Message):
    API_KEY = 10000
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    node_id: int = words.int32("0+", default=-1)
    broker_epoch: int = words.int64("0+", default=-1)
    nonce: bytes = words.blob("0+")
    proof: bytes = words.blob("0+")
    api_versions: list[BrokerApiVersion] = words.array(BrokerApiVersion, "0+")
