"""Brokers of the versions before the handshake, for rolling upgrades. DELETE THIS with what imports it
(`controller.requests_to_unproven_peers`, and the branches marked by them) once clusters of those versions need not be
upgraded.

Such a broker has no `penstock.peer.version` among the features of its registration. Its client id names it, and is
trusted only of such a broker, while it is registered and not fenced. Controllers of any version keep the features of a
registration when they rewrite the JSON of /brokers/ID.
"""

from typing import Final

from penstock.base.features import PEER_VERSION
from penstock.cluster.handshake import PeerCredentials
from penstock.cluster.metadata import BrokerRegistration, MetadataImage

CLIENT_ID_PREFIX: Final = "__penstock-broker-"
_DIGITS_MAX: Final = 10  # of a node id


def can_prove(broker: BrokerRegistration) -> bool:
    """Whether a broker's version has the handshake."""
    levels = broker.features.get(PEER_VERSION)
    return levels is not None and levels.highest >= 1


def is_unproven_peer(image: MetadataImage, client_id: str | None, credentials: PeerCredentials) -> bool:
    """Whether a client id names a broker that is registered, not fenced, and cannot prove itself to this one.

    `credentials` are this broker's: if it acts as an older version, no other broker can.
    """
    if client_id is None or not client_id.startswith(CLIENT_ID_PREFIX):
        return False
    node_id = client_id.removeprefix(CLIENT_ID_PREFIX)
    if not (node_id.isascii() and node_id.isdecimal() and len(node_id) <= _DIGITS_MAX):
        return False
    broker = image.brokers.get(int(node_id))
    if broker is None or broker.fenced:
        return False
    return not (can_prove(broker) and credentials.proves)
