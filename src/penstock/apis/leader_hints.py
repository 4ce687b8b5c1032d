"""Who leads instead (KIP-951): what produce and fetch answers tell a client that came to the wrong broker."""

from typing import NamedTuple

from penstock.base.errors import ErrorCode
from penstock.cluster.metadata import NO_LEADER, BrokerAddress
from penstock.services.context import Call

_HINTED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


class Hint(NamedTuple):
    """The leader as this broker knows it."""

    leader: int
    leader_epoch: int


def hint(call: Call, code: int, topic: bytes | str, index: int) -> Hint | None:
    """Who leads a partition, where an answer with that error code should say it."""
    if code not in _HINTED:
        return None
    image = call.services.image
    found = image.topic_by_id(topic) if isinstance(topic, bytes) else image.topic(topic)
    if found is None or not 0 <= index < len(found.partitions):
        return None
    state = found.partitions[index]
    return Hint(state.leader, state.leader_epoch)


def endpoints(call: Call, hints: list[Hint]) -> list[BrokerAddress]:
    """Where the clients of the caller's listener find the leaders of hints."""
    brokers = call.services.image.brokers
    leaders = dict.fromkeys(hint.leader for hint in hints if hint.leader != NO_LEADER)
    found = (brokers[leader].address(call.client.listener) for leader in leaders if leader in brokers)
    return [address for address in found if address is not None]
