"""Clients that prove to be a broker of a cluster, for tests of what only brokers may ask."""

import shutil
import tempfile
from pathlib import Path

from penstock.base.secret import Secret
from penstock.cluster.handshake import InitiatorHandshake, PeerCredentials
from penstock.cluster.metadata import PEER_SECRET
from penstock.cluster.node_tree import NodeTree
from penstock.cluster.peer_secret import decode_peer_secret
from penstock.cluster.store_files import StoreFiles
from penstock.storage.ownership import METADATA
from penstock.testing import EmbeddedBroker
from penstock.world.real_disk import RealDisk
from penstock.world.real_entropy import RealEntropy
from tests.apis.transactional import Asks

OTHER_NODE = 4711  # a node id that no broker of the tests has


def secret_of_data(data: Path) -> Secret:
    """The secret that a broker with the embedded store keeps in its data directory, running or not."""
    with tempfile.TemporaryDirectory() as copy:
        shutil.copytree(data / METADATA, Path(copy) / METADATA)
        tree = NodeTree()
        StoreFiles(RealDisk(copy), METADATA).recover(tree)
    return decode_peer_secret(tree.get(PEER_SECRET).data)


def credentials_of(broker: EmbeddedBroker, *, node_id: int = OTHER_NODE) -> PeerCredentials:
    """Those of another broker in the cluster of an embedded one."""
    assert broker._life is not None
    return as_another(broker._life.broker.services.cluster.peer_credentials, node_id=node_id)


def as_another(credentials: PeerCredentials, *, node_id: int = OTHER_NODE) -> PeerCredentials:
    """Those of another broker of the same cluster."""
    return PeerCredentials(
        credentials._secret, RealEntropy(), cluster_id=credentials.cluster_id, node_id=node_id
    )


def prove(client: Asks, credentials: PeerCredentials, *, to: int) -> None:
    """Shake hands with the broker `to`."""
    handshake = InitiatorHandshake(credentials, node_id=to, epoch=0)
    challenge = client.ask(handshake.hello(), 0)
    handshake.check(client.ask(handshake.prove(challenge), 0))
