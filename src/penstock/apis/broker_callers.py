"""Which requests come from brokers of this cluster, and the refusal of all others where only brokers may ask.

Whole APIs say so with `BROKERS_ONLY = True`. Where a request is the broker's only with a certain field or version
(a fetch with a replica id, AddPartitionsToTxn from v4 on), its module asks `is_broker`.
"""

from collections.abc import Callable
from typing import Any

from penstock.apis.context import Call
from penstock.base.errors import ErrorCode
from penstock.cluster.peers import is_peer
from penstock.wire.messages import response_type


def is_broker(call: Call) -> bool:
    """Whether a broker of this cluster sent the request."""
    return call.client.broker is not None or is_peer(call.client_id)


def brokers_only(handle: Callable[[Call, Any], Any], api_key: int) -> Callable[[Call, Any], Any]:
    """A handler that answers CLUSTER_AUTHORIZATION_FAILED to clients, as Kafka does without CLUSTER_ACTION."""
    response: Any = response_type(api_key)

    def handle_or_refuse(call: Call, request: Any) -> Any:
        if is_broker(call):
            return handle(call, request)
        return response(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    return handle_or_refuse
