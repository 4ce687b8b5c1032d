"""Which brokers Metadata answers name: not those that seem dead, and for a while those that have just been fenced."""

from collections.abc import Iterator

from penstock.cluster.metadata import BrokerAddress, MetadataImage

# librdkafka drops a broker that is missing in an answer, with the partitions that it had there, which were to move to
# their new leaders by the same answer: they are without a leader until it looks again, a second later.
_MISSED_AFTER_S = 5.0
# A broker whose session outlives this is alive, whatever lies between it and this one.
_DOUBTED_S = 15.0


class BrokerView:
    """What this broker's own connections tell about the others, beyond the metadata."""

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
        told = {node_id for node_id, left_at in self._left_at.items() if now - left_at < _MISSED_AFTER_S}
        for node_id in sorted(told.union(image.alive())):
            broker = image.brokers.get(node_id)
            address = None if broker is None else broker.address(listener)
            if address is not None:
                yield address
