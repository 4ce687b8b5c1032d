"""What a power cut may take from a cluster: of a log, what only machines without power had for sure.

Whatever was acknowledged with acks=all is in the page cache of every member of the in-sync set that the metadata store
has, and of every replica that it calls eligible. So a machine's power cut takes nothing as long as another of these
keeps it: one that has not lost power itself since it last caught up. One that has is known by its registration: when
the controller acts on the next one, it takes the broker out of where there are others.

Until then the broker counts. If all others leave the set meanwhile and are not eligible, because
`min.insync.replicas` is 1 or they did not stop cleanly, it is left as the only one that may lead, and leads with what
its disk has.

Of a topic whose majorities count, a majority of the voters may have been the only ones that had something: if as many
have lost power since they last caught up, it may be gone. Who has not caught up is doubtful, in the metadata.
"""

from collections.abc import Callable

from penstock.base.ids import format_id
from penstock.cluster.metadata import TOPICS, BrokerRegistration, PartitionState, Topic
from penstock.core.replication import majority_of
from penstock.sim.checkers import LogName
from penstock.sim.shared_store import SharedStore

_NEVER = 0


class PowerCuts:
    """Those of one run. `on_loss` hears of logs that may have lost something."""

    def __init__(self, store: SharedStore, on_loss: Callable[[frozenset[LogName]], None]) -> None:
        self._store = store
        self._on_loss = on_loss
        self._epochs: dict[int, int] = {}  # node id → its registration when it last lost power
        self._told: dict[tuple[LogName, tuple[int, ...]], None] = {}  # logs, and who had everything
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
                if topic.counts_majority:
                    members = self._without_power(state, brokers)
                    may_be_lost = len(members) >= majority_of(len(state.present_replicas))
                else:
                    members = (*state.isr, *state.elr)
                    may_be_lost = not any(self._keeps(each, brokers) for each in members)
                if may_be_lost and (log, members) not in self._told:
                    self._told[log, members] = lost[log] = None
        if lost:
            self._on_loss(frozenset(lost))

    def _without_power(
        self, state: PartitionState, brokers: dict[int, BrokerRegistration]
    ) -> tuple[int, ...]:
        return tuple(
            each
            for each in state.present_replicas
            if each in self._epochs and (each in state.doubtful or not self._keeps(each, brokers))
        )

    def _keeps(self, node_id: int, brokers: dict[int, BrokerRegistration]) -> bool:
        """Whether somebody that had everything has not lost power since."""
        lost_at = self._epochs.get(node_id)
        broker = brokers.get(node_id)
        return lost_at is None or (broker is not None and broker.epoch > lost_at and not broker.fenced)
