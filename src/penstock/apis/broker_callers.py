"""Tells requests of brokers of this cluster from those of clients, and refuses clients what only brokers may request.

A connection is a broker's once its handshake has succeeded (`k10000_broker_handshake`); the client id proves nothing.

Whole APIs are declared with `BROKERS_ONLY = True`. If only a certain field or version of a request is for brokers (a
fetch with a replica id, AddPartitionsToTxn from v4 on), its module checks `is_broker`.
"""

from collections.abc import Callable
from typing import Any

from penstock.apis.context import Call
from penstock.base.errors import ErrorCode, PeerError
from penstock.cluster.unproven_peers import is_unproven_peer
from penstock.wire.messages import response_type
from penstock.wire.private import PRIVATE_APIS


def is_broker(call: Call) -> bool:
    """Whether a broker of this cluster sent the request."""
    return call.client.broker is not None or claims_to_be_old_broker(call)


def claims_to_be_old_broker(call: Call) -> bool:
    """Whether the client id names a registered broker of a version without the handshake: it has no other proof."""
    cluster = call.services.cluster
    return is_unproven_peer(cluster.image, call.client_id, cluster.peer_credentials)


def brokers_only(handle: Callable[[Call, Any], Any], api_key: int) -> Callable[[Call, Any], Any]:
    """A handler that answers CLUSTER_AUTHORIZATION_FAILED to clients, as Kafka does without CLUSTER_ACTION.

    For clients a private API does not exist: the connection is closed.
    """
    response: Any = None if api_key in PRIVATE_APIS else response_type(api_key)

    def handle_or_refuse(call: Call, request: Any) -> Any:
        if is_broker(call):
            return handle(call, request)
        if response is None:
            raise PeerError(f"there is no API key {api_key}")
        return response(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    return handle_or_refuse
