"""Requests of our own, between brokers: API keys from 10000 on, which Kafka's protocol does not have.

They are declared as Kafka's messages are (`schema.words`), one module per API, written by hand. ApiVersions never lists
them: brokers exchange the versions in the handshake. If a client that has not proven to be a broker sends one, its
connection is closed, as for any key that is not in the protocol.
"""

from typing import Final

from penstock.wire.apis import APIS, Api

PRIVATE_APIS: Final[dict[int, Api]] = {
    10000: Api("BrokerHandshake", (0, 0), 0, "broker_handshake"),
    10001: Api("LogEnds", (0, 0), 0, "log_ends"),
    10002: Api("PartitionLoads", (0, 0), 0, "partition_loads"),
    10003: Api("ReleaseFetch", (0, 0), 0, "release_fetch"),
}


def api_name(api_key: int) -> str:
    """The name of an API, of Kafka's protocol or private."""
    return (APIS.get(api_key) or PRIVATE_APIS[api_key]).name
