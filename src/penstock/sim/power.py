"""What a power cut may take from a cluster: of a log, what only machines without power had for sure.

Whatever was acknowledged with acks=all is in the page cache of every member of the in-sync set that the metadata store
has. So a machine's power cut takes nothing as long as another member keeps it: one that has not lost power itself
since it last caught up. One that has is known by its registration: when the controller acts on the next one, it takes
the broker out of the sets that have other members.

Until then the broker counts as a member. If all others leave the set meanwhile, it is left as the only one that may
lead, and leads with what its disk has.
"""

from collections.abc import Callable

from penstock.base.ids import format_id
from penstock.cluster.metadata import TOPICS, Broker, Topic
from penstock.sim.checkers import LogName
from penstock.sim.shared_store import SharedStore

_NEVER = 0


class PowerCuts:
    """Those of one run. `on_loss` hears of logs that may have lost something."""

    def __init__(self, store: SharedStore, on_loss: Callable[[frozenset[LogName]], None]) -> None:
        self._store = store
        self._on_loss = on_loss
        self._epochs: dict[int, int] = {}  # node id → its registration when it last lost power
        self._told: dict[tuple[LogName, tuple[int, ...]], None] = {}
        store.on_change(self._changed)

    def strike(self, node_id: int) -> None:
        """A machine loses power now."""
        broker = self._store.brokers().get(node_id)
        self._epochs[node_id] = _NEVER if broker is None else broker.epoch
        self._told.clear()
        self._look(self._store.topics())

    def _changed(self, path: str) -> None:
        if self._epochs and path.startswith(f"{TOPICS}/"):
            topic = self._store.topic(path.removeprefix(f"{TOPICS}/"))
            self._look([] if topic is None else [topic])

    def _look(self, topics: list[Topic]) -> None:
        brokers = self._store.brokers()
        lost: dict[LogName, None] = {}
        for topic in topics:
            for index, state in enumerate(topic.partitions):
                log = LogName(topic.name, format_id(topic.topic_id), index)
                told = (log, state.in_sync)
                if told not in self._told and not any(self._keeps(each, brokers) for each in state.in_sync):
                    self._told[told] = lost[log] = None
        if lost:
            self._on_loss(frozenset(lost))

    def _keeps(self, node_id: int, brokers: dict[int, Broker]) -> bool:
        """Whether a member of an in-sync set has not lost power since it became one."""
        lost_at = self._epochs.get(node_id)
        broker = brokers.get(node_id)
        return lost_at is None or (broker is not None and broker.epoch > lost_at and not broker.fenced)
