"""A broker's place in the cluster: a node that says who it is, and one that lasts as long as its session.

Who died and comes back before its session has run out takes its own place: the data directory is the same. Another
broker with the same id is refused.
"""

from dataclasses import replace

from penstock.base.errors import UserError
from penstock.cluster.metadata import BROKERS, LIVE, BrokerRegistration
from penstock.world.store import (
    BadVersionError,
    Create,
    Delete,
    NodeExistsError,
    NoNodeError,
    Operation,
    Set,
    Store,
)

_ATTEMPTS = 20


class DuplicateBrokerError(UserError):
    """Another broker with this id is in the cluster."""


async def register(store: Store, broker: BrokerRegistration) -> BrokerRegistration:
    """Take the broker's place, with the next epoch and fenced: the controller says when it counts.

    `keeps_all` is what this life knows of itself; what the controller had not heard of the last one stays true.
    """
    for _ in range(_ATTEMPTS):
        try:
            return await _try(store, broker)
        except (NodeExistsError, NoNodeError, BadVersionError):
            continue  # its place was left, or taken, meanwhile
    raise DuplicateBrokerError(_duplicate(broker))


async def _try(store: Store, broker: BrokerRegistration) -> BrokerRegistration:
    path, live = f"{BROKERS}/{broker.node_id}", f"{LIVE}/{broker.node_id}"
    operations: list[Operation] = []
    try:
        holder = await store.get(live)
    except NoNodeError:
        pass
    else:
        if holder.data.decode() != broker.incarnation:
            raise DuplicateBrokerError(_duplicate(broker))
        operations.append(Delete(live, holder.version))
    operations.append(Create(live, broker.incarnation.encode(), ephemeral=True))
    try:
        node = await store.get(path)
    except NoNodeError:
        registered = replace(broker, epoch=1, fenced=True, is_new=True)
        operations.append(Create(path, registered.encode()))
    else:
        registered = _after(BrokerRegistration.decode(node.data), broker)
        operations.append(Set(path, registered.encode(), node.version))
    await store.multi(operations)
    return registered


def _after(last: BrokerRegistration, broker: BrokerRegistration) -> BrokerRegistration:
    """The next life of a broker."""
    return replace(
        broker,
        epoch=last.epoch + 1,
        fenced=True,
        is_new=True,
        keeps_all=broker.keeps_all and last.keeps_all,
        same_directory=last.incarnation == broker.incarnation and last.same_directory,
        same_process=broker.same_process and last.same_process,
    )


def _duplicate(broker: BrokerRegistration) -> str:
    return (
        f"another broker with node id {broker.node_id} is in this cluster: give each its own with --node-id. If "
        "that one was this broker with another data directory, it is forgotten when its ZooKeeper session ends; "
        "then start again"
    )
