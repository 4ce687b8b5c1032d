"""What befalls the cluster: one fault after the other, each healed and recovered from before the next."""

import random
import resource
import time
from collections.abc import Callable, Sequence

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata

from peers.cluster import controller_of
from peers.zookeeper import ZooKeeperServer
from penstock.base.ids import CONSUMER_OFFSETS, TRANSACTION_STATE
from penstock.client.errors import ClientError
from tests.chaos.cluster.faulty import SESSION_S, FaultyCluster, zookeeper_name
from tests.chaos.cluster.namespaces import OUTSIDE
from tests.chaos.cluster.producing import CLIENT_SETTINGS
from tests.chaos.cluster.recording import Recorder, Span

RECOVERY_S = 120.0
LONGER_THAN_A_SESSION_S = (SESSION_S + 1.5, SESSION_S + 4)
MOMENT_S = (0.2, 3.0)
TORN_FILE_BYTES = 10_007  # where the last write is torn, in files that are not that long yet

Say = Callable[[str], None]


class NotRecoveredError(Exception):
    """Nothing is wrong any more, and the cluster is still not whole."""


class Faults:
    """Chosen by a seed: every kind once, in some order, then again in another."""

    def __init__(self, cluster: FaultyCluster, recorder: Recorder, *, seed: int, say: Say) -> None:
        self.done: list[str] = []
        self._cluster = cluster
        self._recorder = recorder
        self._chance = random.Random(seed)
        self._say = say
        self._admin = AdminClient({**CLIENT_SETTINGS, "bootstrap.servers": cluster.bootstrap})
        self._kinds: dict[str, Callable[[], None]] = {
            "kill": self._kill,
            "stop": self._stop,
            "pause": self._pause,
            "cut off": self._cut_off,
            "kill two": self._kill_two,
            "fail disk": self._fail_disk,
            "kill zookeeper": self._kill_zookeeper,
            "pause zookeeper": self._pause_zookeeper,
            "cut off zookeeper": self._cut_off_zookeeper,
        }
        if cluster.cuts_everything:
            self._kinds["silence"] = self._silence

    def befall(self, seconds: float, kinds: Sequence[str] = ()) -> None:
        """One fault after the other until the time is over; with `kinds`, each of them, however long it takes."""
        ends_s = time.monotonic() + seconds
        deck: list[str] = []
        while kinds or time.monotonic() < ends_s:
            if not deck:
                deck = list(kinds or self._kinds)
                self._chance.shuffle(deck)
            kind = deck.pop()
            try:
                self._kinds[kind]()
            finally:
                self._cluster.mend()
            self.done.append(kind)
            self.recover()
            self._wait(MOMENT_S)
            if kinds and not deck:
                return

    def recover(self) -> None:
        """Wait until every broker is there and every replica in sync."""
        began_s = time.monotonic()
        lacking = ["no broker was asked"]
        while lacking:
            if time.monotonic() > began_s + RECOVERY_S:
                raise NotRecoveredError(f"after {RECOVERY_S:g} s: {', '.join(lacking[:10])}")
            time.sleep(0.1)  # other processes: nothing here could be told
            lacking = self._lacking()
        self._say(f"    whole again after {time.monotonic() - began_s:.1f} s")

    def _lacking(self) -> list[str]:
        metadata = self._metadata()
        if metadata is None:
            return ["no broker answers"]
        away = set(self._cluster.brokers) - set(metadata.brokers)
        # Those who coordinate keep what they know in topics that the first client has created.
        missing = {CONSUMER_OFFSETS, TRANSACTION_STATE} - set(metadata.topics)
        lacking = [f"broker {node_id} is away" for node_id in away] + [
            f"there is no {topic}" for topic in missing
        ]
        return lacking + [
            f"{topic}-{index} is led by {partition.leader}, in sync are {partition.isrs}"
            for topic, found in metadata.topics.items()
            for index, partition in found.partitions.items()
            if partition.leader == -1 or set(partition.isrs) != set(partition.replicas)
        ]

    def _metadata(self) -> ClusterMetadata | None:
        try:
            return self._admin.list_topics(timeout=5)
        except KafkaException:
            return None

    def _victim(self) -> int:
        """A leader, or the controller."""
        metadata = self._metadata()
        if metadata is None:
            return self._chance.choice(list(self._cluster.brokers))
        leaders = [
            partition.leader
            for topic in sorted(metadata.topics)
            for partition in metadata.topics[topic].partitions.values()
            if partition.leader in self._cluster.brokers
        ]
        controller = self._controller()
        is_controller = self._chance.random() < 0.5 and controller in self._cluster.brokers
        chosen = controller if is_controller else self._chance.choice(leaders)
        self._say(f"  broker {chosen}" + (", the controller" if chosen == controller else ""))
        return int(chosen)

    def _controller(self) -> int | None:
        try:
            return controller_of(self._cluster.bootstrap)
        except ClientError:
            return None

    def _server(self) -> tuple[int, ZooKeeperServer]:
        """A ZooKeeper server, as often as not the one that leads."""
        servers = list(enumerate(self._cluster.zookeeper.servers))
        leading = [each for each in servers if each[1].mode() == "leader"]
        found = leading[0] if leading and self._chance.random() < 0.5 else self._chance.choice(servers)
        self._say(f"  ZooKeeper server {found[0]}" + (", the leader" if found in leading else ""))
        return found

    def _wait(self, between_s: tuple[float, float]) -> None:
        time.sleep(self._chance.uniform(*between_s))  # how long a fault lasts is the fault

    def _kill(self) -> None:
        self._say("kill -9")
        victim = self._victim()
        self._cluster.kill(victim)
        self._wait(MOMENT_S)
        self._cluster.start(victim)

    def _stop(self) -> None:
        self._say("a planned stop")
        victim = self._victim()
        self._cluster.stop(victim)
        self._wait(MOMENT_S)
        self._cluster.start(victim)

    def _pause(self) -> None:
        self._say("pause for longer than the session")
        broker = self._cluster.brokers[self._victim()]
        broker.pause()
        self._wait(LONGER_THAN_A_SESSION_S)
        broker.resume()

    def _cut_off(self) -> None:
        sides = self._chance.choice(((True, True), (True, False), (False, True)))
        names = " and ".join(
            name for name, chosen in zip(("brokers", "ZooKeeper"), sides, strict=True) if chosen
        )
        self._say(f"cut off from {names}")
        self._cluster.cut_off(str(self._victim()), brokers=sides[0], zookeeper=sides[1])
        self._wait(LONGER_THAN_A_SESSION_S)

    def _silence(self) -> None:
        """As if the machine were gone: clients do not reach it either."""
        self._say("cut off from everybody")
        victim = str(self._victim())
        self._cluster.cut(victim, OUTSIDE)
        self._cluster.cut_off(victim, brokers=True, zookeeper=True)
        self._wait(LONGER_THAN_A_SESSION_S)

    def _kill_two(self) -> None:
        """While two are dead, nothing may be acknowledged: two in-sync replicas are asked for.

        Long enough for their sessions to end, so that the last one is alone in the in-sync sets.
        """
        self._say("kill -9 of two")
        victims = self._chance.sample(sorted(self._cluster.brokers), 2)
        for victim in victims:
            self._cluster.kill(victim)
        began = self._recorder.tick()
        self._wait(LONGER_THAN_A_SESSION_S)
        self._recorder.too_few.append(Span(began, self._recorder.tick()))
        for victim in victims:
            self._cluster.start(victim)
            self._wait(MOMENT_S)

    def _fail_disk(self) -> None:
        """Files of a broker take no more from here on; all it can do is let others lead."""
        self._say("its disk fails")
        victim = self._victim()
        pid = self._cluster.brokers[victim].pid
        _, most = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (TORN_FILE_BYTES, most))
        self._wait(LONGER_THAN_A_SESSION_S)
        self._cluster.kill(victim)
        self._cluster.start(victim)

    def _kill_zookeeper(self) -> None:
        self._say("kill -9")
        _, server = self._server()
        server.kill()
        self._wait(MOMENT_S)
        server.start()
        server.wait_until_it_serves()

    def _pause_zookeeper(self) -> None:
        self._say("pause for longer than the session")
        _, server = self._server()
        server.pause()
        self._wait(LONGER_THAN_A_SESSION_S)
        server.resume()

    def _cut_off_zookeeper(self) -> None:
        number, _ = self._server()
        is_from_servers = self._cluster.cuts_everything and self._chance.random() < 0.5
        self._say("    cut off from all brokers" + (" and the other servers" if is_from_servers else ""))
        self._cluster.cut_off(zookeeper_name(number), brokers=True, zookeeper=is_from_servers)
        self._wait(LONGER_THAN_A_SESSION_S)
