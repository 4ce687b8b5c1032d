"""BrokerHandshake (key 10000), v0: a client proves to be a broker of this cluster. Private; asked twice.

Any failure closes the connection: a client that cannot prove itself learns no more than from an unknown API key.
"""

from penstock.apis.context import Call
from penstock.apis.needs import Needs
from penstock.cluster.handshake import AcceptorHandshake
from penstock.wire.private.broker_handshake import BrokerHandshakeRequest, BrokerHandshakeResponse

REQUEST = BrokerHandshakeRequest
VERSIONS = (0, 0)
NEEDS: Needs = ()  # the handshake proves that the caller is a broker


def handle(call: Call, request: BrokerHandshakeRequest) -> BrokerHandshakeResponse:
    services, client = call.services, call.client
    if client.handshake is None:
        client.handshake = AcceptorHandshake(
            services.cluster.peer_credentials,
            known_epoch=lambda node_id: _registered_epoch(call, node_id),
            versions=services.node.broker_api_versions,
        )
        return client.handshake.challenge(request)
    client.broker, response = client.handshake.verify(request)
    return response


def _registered_epoch(call: Call, node_id: int) -> int | None:
    broker = call.services.cluster.image.brokers.get(node_id)
    return None if broker is None else broker.epoch
