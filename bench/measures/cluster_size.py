"""Three Penstock brokers with thousands of partitions, three replicas each: how long it takes to create them, to
restart a broker and to replace the controller, and what it costs when idle.

A restart lasts until the broker is in every in-sync set again, the stop included; a fail-over from kill -9 of the
controller until a topic can be created, and until every partition has a leader. Every partition has a record. Kafka is
left out: the goals are absolute, and its controller does not say who it is.
"""

import time

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.clusters import PATIENCE_S, Cluster, admin_of, cluster_of, until, until_whole, view
from bench.contestants import PENSTOCK, Contestant
from bench.rows import Better, Goal, Row
from bench.scale import Scale
from bench.usage import Usage
from peers.cluster import controller_of

NAME = "cluster_size"
TITLE = "three brokers, many partitions"
WARM = False

_TOPICS = 10
_PREFIX = "many"
_SETTLING_S = 3.0
_SECONDS_ARE = 10.0  # what "in seconds" means
_BUSY_SHARE_MAX = 5.0  # of a core, in per cent


def rounds(_scale: Scale) -> int:
    return 1


def seconds(scale: Scale) -> float:
    """Of one turn; there is one for two brokers."""
    return (15 + scale.idle_seconds + scale.cluster_partitions / 60) / 2


def rows(scale: Scale) -> list[Row]:
    size = f"{scale.cluster_partitions:,} x 3 partitions"
    in_seconds = Goal(limit=_SECONDS_ARE)
    return [
        Row(f"{NAME}.created", f"{size}: created", "s", Better.LESS, in_seconds),
        Row(f"{NAME}.idle", f"{size}: CPU of an idle broker", "%", Better.LESS, Goal(limit=_BUSY_SHARE_MAX)),
        Row(f"{NAME}.restarted", f"{size}: broker restarted, in sync", "s", Better.LESS, in_seconds),
        Row(f"{NAME}.recovered", f"{size}: broker killed, started, in sync", "s", Better.LESS, in_seconds),
        Row(f"{NAME}.controller", f"{size}: controller killed, topic created", "s", Better.LESS, in_seconds),
        Row(f"{NAME}.led", f"{size}: controller killed, all led again", "s", Better.LESS, in_seconds),
    ]


def turn(contestant: Contestant, scale: Scale) -> dict[str, float]:
    if contestant.name != PENSTOCK:
        return {}
    with cluster_of(contestant.name) as cluster:
        return _Trial(cluster, scale).figures()


class _Trial:
    """One cluster, and its measurements in order."""

    def __init__(self, cluster: Cluster, scale: Scale) -> None:
        self._cluster = cluster
        self._scale = scale
        self._admin = admin_of(cluster.bootstrap)
        self._each = max(1, scale.cluster_partitions // _TOPICS)
        self._partitions = self._each * _TOPICS

    def figures(self) -> dict[str, float]:
        created = self._create()
        self._write_everywhere()
        time.sleep(_SETTLING_S)
        idle = self._idle_share()
        controller = controller_of(self._cluster.bootstrap)
        other = next(node_id for node_id in self._cluster.brokers if node_id != controller)
        restarted = self._restart(other, kill=False)
        recovered = self._restart(other, kill=True)
        took_over, led = self._fail_over(controller_of(self._cluster.bootstrap))
        return {
            f"{NAME}.created": created,
            f"{NAME}.idle": idle,
            f"{NAME}.restarted": restarted,
            f"{NAME}.recovered": recovered,
            f"{NAME}.controller": took_over,
            f"{NAME}.led": led,
        }

    def _create(self) -> float:
        began_s = time.monotonic()
        topics = [NewTopic(f"{_PREFIX}-{number}", self._each, 3) for number in range(_TOPICS)]
        for created in self._admin.create_topics(topics, request_timeout=PATIENCE_S).values():
            created.result(PATIENCE_S)
        until_whole(self._admin, _PREFIX, self._partitions)
        return time.monotonic() - began_s

    def _write_everywhere(self) -> None:
        producer = Producer({"bootstrap.servers": self._cluster.bootstrap, "log_level": 0})
        refused: list[KafkaError] = []
        for number in range(_TOPICS):
            for index in range(self._each):
                producer.produce(
                    f"{_PREFIX}-{number}",
                    b"x" * 100,
                    partition=index,
                    on_delivery=lambda error, _: None if error is None else refused.append(error),
                )
        assert producer.flush(PATIENCE_S) == 0, "records were never acknowledged"
        assert not refused, refused[0]

    def _idle_share(self) -> float:
        """Of the broker that does most."""
        usages = [Usage(broker.pid) for broker in self._cluster.brokers.values()]
        before, began_s = [usage.cpu_seconds() for usage in usages], time.monotonic()
        time.sleep(self._scale.idle_seconds)
        used = [usage.cpu_seconds() - earlier for usage, earlier in zip(usages, before, strict=True)]
        return 100 * max(used) / (time.monotonic() - began_s)

    def _restart(self, node_id: int, *, kill: bool) -> float:
        broker = self._cluster.brokers[node_id]
        began_s = time.monotonic()
        if kill:
            broker.kill()
        else:
            broker.stop()
        broker.start()
        until_whole(self._admin, _PREFIX, self._partitions)
        return time.monotonic() - began_s

    def _fail_over(self, controller: int) -> tuple[float, float]:
        brokers = self._cluster.brokers
        others = [broker.bootstrap for node_id, broker in brokers.items() if node_id != controller]
        began_s = time.monotonic()
        brokers[controller].kill()
        until(lambda: _creates(",".join(others)), every_s=0.02)
        took_over_s = time.monotonic() - began_s
        admin = admin_of(",".join(others))
        until(lambda: self._is_led_without(admin, controller))
        return took_over_s, time.monotonic() - began_s

    def _is_led_without(self, admin: AdminClient, gone: int) -> bool:
        found = view(admin, _PREFIX)
        return found is not None and found.is_led(partitions=self._partitions) and gone not in found.leaders


def _creates(bootstrap: str) -> bool:
    """Whether a topic can be created; one that was created without an answer counts, too.

    By a client that knows nothing: librdkafka stays with the controller of its first metadata.
    """
    admin = admin_of(bootstrap)
    try:
        admin.create_topics([NewTopic("after", 1, 2)], request_timeout=1)["after"].result(PATIENCE_S)
    except KafkaException as refusal:
        return bool(refusal.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS)
    return True
