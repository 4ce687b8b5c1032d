"""Which brokers Metadata responses name: those that are not fenced, and for a while those that were just fenced.

A leader that seems dead is not named as leader.
"""

from collections.abc import Iterator

from penstock.cluster.metadata import BrokerAddress, MetadataImage

# librdkafka drops a broker that is missing in a Metadata response, together with the partitions that the response moves
# from it to new leaders: they have no leader until the next metadata refresh, 1 s later.
_NAMED_AFTER_FENCING_S = 5.0
# A broker whose session outlives this is alive: only the network between it and this broker is broken.
_DOUBTED_S = 15.0


class BrokerView:
    """Which brokers seem dead by this broker's own connections, before the metadata say so."""

    def __init__(self) -> None:
        self._doubted_since: dict[int, float] = {}
        self._alive: frozenset[int] = frozenset()
        self._left_at: dict[int, float] = {}

    def doubt(self, node_id: int, *, now: float) -> None:
        """A broker closed or refused a connection: if it is dead, the metadata will soon say so."""
        self._doubted_since.setdefault(node_id, now)

    def answers(self, node_id: int) -> None:
        self._doubted_since.pop(node_id, None)

    def seems_dead(self, node_id: int, *, now: float) -> bool:
        since = self._doubted_since.get(node_id)
        return since is not None and now - since < _DOUBTED_S

    def brokers_changed(self, image: MetadataImage, *, now: float) -> None:
        alive = frozenset(image.alive())
        for node_id in sorted(self._alive - alive):
            self._left_at[node_id] = now
            self.answers(node_id)  # fenced in the metadata: no doubt is needed beyond that
        self._alive = alive

    def addresses(self, image: MetadataImage, listener: str, *, now: float) -> Iterator[BrokerAddress]:
        """The brokers that a client of that listener may be sent to, by node id."""
        named = {
            node_id for node_id, left_at in self._left_at.items() if now - left_at < _NAMED_AFTER_FENCING_S
        }
        for node_id in sorted(named.union(image.alive())):
            broker = image.brokers.get(node_id)
            address = None if broker is None else broker.address(listener)
            if address is not None:
                yield address
