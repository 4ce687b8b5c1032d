"""Registers a broker: /brokers/ID holds its registration, and the ephemeral /live/ID exists as long as its session.

A broker that is restarted before the session of its last process has expired replaces /live/ID, which names its data
directory. Another broker with the same node id has another data directory and is refused.
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
    """Another broker with this node id is registered and alive."""


async def register(store: Store, broker: BrokerRegistration) -> BrokerRegistration:
    """Register a broker with the next broker epoch, fenced until the controller unfences it.

    `keeps_all`, `same_directory` and `same_process` compare this registration with the last one. If the controller has
    not acted on the last one yet, a False there stays False.
    """
    for _ in range(_ATTEMPTS):
        try:
            return await _try(store, broker)
        except (NodeExistsError, NoNodeError, BadVersionError):
            continue  # /live/ID or /brokers/ID changed between the read and the write
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
    """The next registration of a broker."""
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
