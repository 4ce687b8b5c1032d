"""The secret by which the brokers of a cluster authenticate each other: created once, kept in the metadata store.

A broker that finds none creates it; the store lets only one creation succeed, and all use that one. It is never sent,
logged or shown by an API: `cluster.handshake` proves that a broker has it. Everyone who can read the store can read it.
"""

import json
from base64 import b64encode
from contextlib import suppress
from typing import Final

from penstock.base.errors import StorageError
from penstock.base.secret import Secret
from penstock.cluster.metadata import PEER_SECRET
from penstock.world.entropy import Entropy
from penstock.world.store import Create, NodeExistsError, NoNodeError, Store

_FORMAT: Final = 1
_SECRET_BYTES: Final = 32


async def open_peer_secret(store: Store, entropy: Entropy) -> Secret:
    """The cluster's secret; created now if the metadata have none."""
    try:
        data = (await store.get(PEER_SECRET)).data
    except NoNodeError:
        secret = b64encode(entropy.random_bytes(_SECRET_BYTES)).decode()
        document = {"version": _FORMAT, "secret": secret}
        with suppress(NodeExistsError):  # another broker was faster
            await store.multi([Create(PEER_SECRET, json.dumps(document).encode())])
        data = (await store.get(PEER_SECRET)).data
    return decode_peer_secret(data)


def decode_peer_secret(data: bytes) -> Secret:
    """The secret in the content of its node."""
    try:
        document = json.loads(data)
        version, secret = document["version"], document["secret"]
    except (ValueError, KeyError, TypeError):
        # Without the cause: it would quote the node.
        raise StorageError(
            f"the node {PEER_SECRET} of the metadata store is damaged: stop all brokers, delete it, and start them; "
            "the first one makes another secret"
        ) from None
    if version != _FORMAT:
        raise StorageError(f"{PEER_SECRET} is of format {version}, and this program knows {_FORMAT}")
    return Secret(secret)
