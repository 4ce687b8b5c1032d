"""The current leader in Produce and Fetch responses (KIP-951), for clients with outdated metadata.

There is no hint that the client could not use: librdkafka crashes on a leader of -1 (its issue 5280), and a leader that
seems dead, or has no address on the client's listener, is of no use. A client without a hint refreshes its metadata.
"""

from typing import NamedTuple

from penstock.apis.context import Call
from penstock.base.errors import ErrorCode
from penstock.cluster.metadata import BrokerAddress

_HINTED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


class Hint(NamedTuple):
    """The leader in this broker's metadata, with its address on the client's listener."""

    leader: BrokerAddress
    leader_epoch: int


def hint(call: Call, code: int, topic: bytes | str, index: int) -> Hint | None:
    """The current leader of a partition, if a response with that error code should have it."""
    if code not in _HINTED:
        return None
    services = call.services
    image = services.cluster.image
    found = image.topic_by_id(topic) if isinstance(topic, bytes) else image.topic(topic)
    if found is None or not 0 <= index < len(found.partitions):
        return None
    state = found.partitions[index]
    broker = image.brokers.get(state.leader)  # None for NO_LEADER
    if broker is None or services.cluster.broker_view.seems_dead(
        state.leader, now=services.node.world.loop.time()
    ):
        return None
    address = broker.address(call.client.listener)
    return None if address is None else Hint(address, state.leader_epoch)


def endpoints(hints: list[Hint]) -> list[BrokerAddress]:
    """The leaders of hints, each once."""
    return list(dict.fromkeys(hint.leader for hint in hints))
