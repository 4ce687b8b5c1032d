"""Three brokers, three replicas: how long writes wait when a leader dies, falls silent, stops, or is moved.

A producer of librdkafka sends a record every 5 ms with acks=all and its default settings. After a kill, what counts is
the first acknowledgement of a record that was sent when the process was gone. A silent machine (SIGSTOP) is something
that clients notice by their own patience, 60 s by default: for that one it is 2 s, on both. Sessions of brokers last
9 s, Kafka's default.
"""

import contextlib
import time
from collections.abc import Iterator

from confluent_kafka import ElectionType, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.clusters import Cluster, cluster_of, until
from bench.contestants import Contestant
from bench.load.writing import PATIENCE_S, Writing
from bench.rows import Better, Goal, Row
from bench.scale import Scale

NAME = "failover"
TITLE = "three brokers, a leader dies"
WARM = False

_TOPIC = "failover"
_QUIET_S = 1.0  # the producer runs, and nothing happens yet
_START_S = 20
_EACH_S = 10
_LOOK_EVERY_S = 0.02
_IMPATIENT = {"socket.timeout.ms": 2_000, "topic.metadata.refresh.interval.ms": 500}

# The trial itself has the preferred leader lead again, and measures that.
_SETTINGS = {"auto.leader.rebalance.enable": "false"}


def rounds(_scale: Scale) -> int:
    return 1


def seconds(scale: Scale) -> float:
    return _START_S + (2 * scale.failovers + 1) * _EACH_S


def rows(scale: Scale) -> list[Row]:
    return [
        Row(
            f"{NAME}.killed",
            f"leader killed: until a write is acknowledged, worst of {scale.failovers}",
            "ms",
            Better.LESS,
            Goal(limit=1_000),
        ),
        Row(
            f"{NAME}.silent",
            "leader silent: until a write is acknowledged",
            "ms",
            Better.LESS,
            Goal(ratio=1),
        ),
        Row(
            f"{NAME}.stopped",
            f"leader stopped: longest wait of a write, worst of {scale.failovers}",
            "ms",
            Better.LESS,
            Goal(limit=250),
        ),
        Row(
            f"{NAME}.moved",
            "leader moved to another broker: longest wait of a write",
            "ms",
            Better.LESS,
            Goal(limit=250),
        ),
    ]


def turn(contestant: Contestant, scale: Scale) -> dict[str, float]:
    with cluster_of(contestant.name, _SETTINGS) as cluster:
        trial = Trial(cluster)
        killed, stopped, moved = [], [], []
        for _ in range(scale.failovers):
            for accident, waits_s in ((trial.kill, killed), (trial.stop, stopped)):
                waits_s.append(accident())
                moved.append(trial.move_back())
        silent = trial.silence()
    return {
        f"{NAME}.killed": 1000 * max(killed),
        f"{NAME}.silent": 1000 * silent,
        f"{NAME}.stopped": 1000 * max(stopped),
        f"{NAME}.moved": 1000 * max(moved),
    }


class Trial:
    """One topic of one partition with three replicas, whose leader has accidents. All of it in seconds."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._admin = AdminClient(
            {"bootstrap.servers": cluster.bootstrap, "socket.timeout.ms": 5_000, "log_level": 0}
        )
        topic = NewTopic(_TOPIC, 1, 3, config={"min.insync.replicas": "2"})
        self._admin.create_topics([topic])[_TOPIC].result(PATIENCE_S)
        until(lambda: len(self._state()[1]) == 3, every_s=_LOOK_EVERY_S)

    def kill(self) -> float:
        leader, _ = self._state()
        with self._writing() as writing:
            began_s = time.monotonic()
            self._cluster.brokers[leader].kill()
            waited_s = writing.acknowledged_after(time.monotonic()) - began_s
        self._come_back(leader)
        return waited_s

    def silence(self) -> float:
        leader, _ = self._state()
        with self._writing(**_IMPATIENT) as writing:
            began_s = time.monotonic()
            self._cluster.brokers[leader].pause()
            # One in flight when the leader stopped may still be acknowledged; this one cannot.
            waited_s = writing.acknowledged_after(began_s + 0.1) - began_s
            self._cluster.brokers[leader].resume()
        until(lambda: len(self._state()[1]) == 3, every_s=_LOOK_EVERY_S)
        return waited_s

    def stop(self) -> float:
        leader, _ = self._state()
        with self._writing() as writing:
            began_s = time.monotonic()
            self._cluster.brokers[leader].stop()
            waited_s = writing.longest_wait_s(began_s, time.monotonic())
        self._come_back(leader)
        return waited_s

    def move_back(self) -> float:
        """The leader has moved: let the preferred one lead again."""
        before, _ = self._state()
        with self._writing() as writing:
            began_s = time.monotonic()
            elected = self._admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(_TOPIC, 0)])
            for error in elected.result(PATIENCE_S).values():
                assert error is None, f"the preferred leader is not elected: {error}"
            until(lambda: self._state()[0] not in (-1, before), every_s=_LOOK_EVERY_S)
            return writing.longest_wait_s(began_s, time.monotonic())

    @contextlib.contextmanager
    def _writing(self, **settings: object) -> Iterator[Writing]:
        with Writing(self._cluster.bootstrap, _TOPIC, settings) as writing:
            writing.acknowledged_after(time.monotonic())
            time.sleep(_QUIET_S)  # the load itself: writes without an accident
            yield writing

    def _come_back(self, node_id: int) -> None:
        self._cluster.brokers[node_id].start()
        until(lambda: len(self._state()[1]) == 3, every_s=_LOOK_EVERY_S)

    def _state(self) -> tuple[int, list[int]]:
        """Leader and ISR; none while they are unknown."""
        try:
            partition = self._admin.list_topics(_TOPIC, timeout=10).topics[_TOPIC].partitions.get(0)
        except KafkaException:
            partition = None
        return (-1, []) if partition is None else (partition.leader, list(partition.isrs))
