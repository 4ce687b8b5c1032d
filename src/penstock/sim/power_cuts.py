"""Which logs may have lost acknowledged records in a power cut.

A record that was acknowledged with acks=all is in the page cache of every replica in the ISR, and of every replica in
the ELR. So a power cut loses nothing as long as one of them keeps it: a machine that has not lost power since it last
caught up. Whether one has is known from its registration: when the controller handles the next one, it removes the
broker from the ISR wherever there are other members.

Until then the broker counts. If all others leave the ISR meanwhile and are not in the ELR, because
`min.insync.replicas` is 1 or they did not stop cleanly, it is the only replica that can be elected, and leads with what
its disk has.

In a topic with `penstock.ack.quorum=majority` a majority of the voters may have been the only ones that had a record:
if that many have lost power since they last caught up, it may be lost. The metadata call voters that have not caught up
doubtful.
"""

from collections.abc import Callable

from penstock.base.ids import format_id
from penstock.cluster.metadata import TOPICS, BrokerRegistration, PartitionState, Topic
from penstock.core.replication import majority_of
from penstock.sim.checkers import LogName
from penstock.sim.shared_store import SharedStore

_NEVER = 0


class PowerCuts:
    """The power cuts of one run. `on_loss` is called with the logs that may have lost records."""

    def __init__(self, store: SharedStore, on_loss: Callable[[frozenset[LogName]], None]) -> None:
        self._store = store
        self._on_loss = on_loss
        self._epochs: dict[int, int] = {}  # node id → its broker epoch when it last lost power
        self._reported: dict[
            tuple[LogName, tuple[int, ...]], None
        ] = {}  # logs, and the replicas that had everything
        store.on_change(self._changed)

    def cut(self, node_id: int) -> None:
        """Note that a machine loses power now."""
        broker = self._store.brokers().get(node_id)
        self._epochs[node_id] = _NEVER if broker is None else broker.epoch
        self._reported.clear()
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
                    members = self._replicas_without_power(state, brokers)
                    may_be_lost = len(members) >= majority_of(len(state.present_replicas))
                else:
                    members = (*state.isr, *state.elr)
                    may_be_lost = not any(self._keeps(each, brokers) for each in members)
                if may_be_lost and (log, members) not in self._reported:
                    self._reported[log, members] = lost[log] = None
        if lost:
            self._on_loss(frozenset(lost))

    def _replicas_without_power(
        self, state: PartitionState, brokers: dict[int, BrokerRegistration]
    ) -> tuple[int, ...]:
        return tuple(
            each
            for each in state.present_replicas
            if each in self._epochs and (each in state.doubtful or not self._keeps(each, brokers))
        )

    def _keeps(self, node_id: int, brokers: dict[int, BrokerRegistration]) -> bool:
        """Whether a replica that had everything has not lost power since."""
        lost_at = self._epochs.get(node_id)
        broker = brokers.get(node_id)
        return lost_at is None or (broker is not None and broker.epoch > lost_at and not broker.fenced)
