"""The run: load, faults, and when all is whole again, a verdict."""

import contextlib
import pickle
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from tests.chaos.cluster import verdicts
from tests.chaos.cluster.consuming import GroupReader, Member, Observer, consumer_settings, read_to_the_end
from tests.chaos.cluster.faults import Faults, NotRecoveredError, Say
from tests.chaos.cluster.faulty import FaultyCluster
from tests.chaos.cluster.java_member import JavaMember
from tests.chaos.cluster.linked import LinkedCluster
from tests.chaos.cluster.namespaces import NoNamespacesError
from tests.chaos.cluster.producing import (
    PARTITIONS,
    PATIENCE_S,
    PRODUCER_SETTINGS,
    JavaSender,
    Sender,
    TransactionalSender,
)
from tests.chaos.cluster.recording import IDEMPOTENT, JAVA, PLAIN, TRANSACTIONAL, Recorder, log_of
from tests.chaos.cluster.separated import SeparatedCluster

TOPICS = (IDEMPOTENT, PLAIN, TRANSACTIONAL, JAVA)
GROUPS: dict[str, Sequence[str]] = {
    "classic": (IDEMPOTENT, TRANSACTIONAL),
    "consumer": (PLAIN, TRANSACTIONAL),
    "java-classic": (JAVA,),
    "java-consumer": (TRANSACTIONAL,),
}
MEMBERS = 2
LINES_SHOWN = 60


@dataclass
class Report:
    """What happened, and what is wrong with it."""

    befell: list[str] = field(default_factory=list)
    acknowledged: int = 0
    transactions: int = 0
    read: int = 0
    commits: int = 0
    faults: list[str] = field(default_factory=list)
    logs: str = ""
    kept: str = ""

    def __str__(self) -> str:
        happened = (
            f"{len(self.befell)} faults ({', '.join(self.befell)}); {self.acknowledged} records acknowledged, "
            f"{self.transactions} transactions, {self.read} records read by groups, {self.commits} commits"
        )
        words = [*self.faults[:50], self.logs] if self.faults else []
        return "\n".join([happened, *words, *([self.kept] if self.kept else [])])


class Run:
    def __init__(self, *, seed: int, say: Say, by_proxy: bool, quorum: str) -> None:
        self._seed = seed
        self._by_proxy = by_proxy
        self._quorum = quorum
        self._say = say
        self._recorder = Recorder()
        self._report = Report()
        self._sending: list[Sender] = []

    def run(self, seconds: float, kinds: Sequence[str], logs: Path | None) -> Report:
        with self._cluster() as cluster:
            try:
                self._with_load(cluster, seconds, kinds)
            except NotRecoveredError as error:
                self._report.faults.append(f"not whole again {error}")
            self._report.faults += self._recorder.complaints
            if self._report.faults:
                self._report.logs = _last_words(cluster)
            for broker in cluster.brokers.values():
                broker.stop()
            self._report.faults += verdicts.own_bugs(cluster.said())
            directories = [broker.data for broker in cluster.brokers.values()]
            names = [log_of(topic, index) for topic in TOPICS for index in range(PARTITIONS)]
            self._report.faults += verdicts.unlike_copies(directories, names)
            if logs is not None or self._report.faults:
                self._keep(cluster, logs)
        return self._report

    def _keep(self, cluster: FaultyCluster, logs: Path | None) -> None:
        """What brokers and clients said, what brokers have, and the history: a run cannot be had a second time."""
        folder = logs or Path(tempfile.mkdtemp(prefix="penstock-chaos-"))
        folder.mkdir(parents=True, exist_ok=True)
        cluster.keep_logs(folder)
        for sender in self._sending:
            sender.keep_log(folder)
        (folder / "history.pickle").write_bytes(pickle.dumps(self._recorder.history))
        self._report.kept = f"what was said and written is kept in {folder}"

    def _cluster(self) -> FaultyCluster:
        if self._by_proxy:
            return LinkedCluster()
        try:
            return SeparatedCluster()
        except NoNamespacesError as error:
            self._say(f"a proxy cuts, for there are no network namespaces: {error}")
            return LinkedCluster()

    def _with_load(self, cluster: FaultyCluster, seconds: float, kinds: Sequence[str]) -> None:
        create_topics(cluster.bootstrap, quorum=self._quorum)
        faults = Faults(cluster, self._recorder, seed=self._seed, say=self._say)
        self._report.befell = faults.done
        members = self._members(cluster.bootstrap)
        observer = Observer(
            self._recorder, GROUPS, consumer_settings(cluster.bootstrap, "observer"), partitions=PARTITIONS
        )
        senders = self._sending = self._senders(cluster.bootstrap)
        with JavaSender(self._recorder, JAVA, cluster.bootstrap) as java, contextlib.ExitStack() as stack:
            for thread in (*senders, *members, observer):
                thread.start()
                stack.callback(thread.join, PATIENCE_S)
                stack.callback(thread.stop)
            faults.recover()
            faults.befall(seconds, kinds)
            for sender in senders:
                sender.stop()
            for sender in senders:
                sender.join()
            java.finish()
            final = self._read_everything(cluster.bootstrap)
            self._let_groups_finish(members, final)
        self._judge(members, final)

    def _senders(self, bootstrap: str) -> list[Sender]:
        at = {**PRODUCER_SETTINGS, "bootstrap.servers": bootstrap}
        transactional = {**at, "transactional.id": TRANSACTIONAL, "transaction.timeout.ms": 60_000}
        del transactional["message.timeout.ms"]  # the transaction's own counts
        return [
            Sender(self._recorder, "idempotent", IDEMPOTENT, {**at, "enable.idempotence": True}),
            Sender(self._recorder, "plain", PLAIN, {**at, "enable.idempotence": False}),
            TransactionalSender(
                self._recorder, "transactional", TRANSACTIONAL, transactional, seed=self._seed
            ),
        ]

    def _members(self, bootstrap: str) -> list[GroupReader]:
        settings = {
            "classic": {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 500},
            "consumer": {"group.protocol": "consumer"},
        }
        members: list[GroupReader] = [
            Member(
                self._recorder,
                f"{group}-{number}",
                group,
                GROUPS[group],
                consumer_settings(bootstrap, group, **more),
            )
            for group, more in settings.items()
            for number in range(MEMBERS)
        ]
        for protocol in settings:
            group = f"java-{protocol}"
            (topic,) = GROUPS[group]
            members.append(JavaMember(self._recorder, group, topic, bootstrap, protocol=protocol))
        return members

    def _read_everything(self, bootstrap: str) -> dict[verdicts.Where, list[int]]:
        """Committed records, by partition."""
        final = {}
        for topic in TOPICS:
            for index in range(PARTITIONS):
                read_to_the_end(self._recorder, bootstrap, topic, index, committed_only=False)
                final[topic, index] = read_to_the_end(
                    self._recorder, bootstrap, topic, index, committed_only=True
                )
        return final

    def _let_groups_finish(self, members: list[GroupReader], final: dict[verdicts.Where, list[int]]) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline_s:
            if not list(verdicts.not_read_by_groups(_seen_by(members), GROUPS, final)):
                return
            time.sleep(0.1)  # the members' threads read at their own pace

    def _judge(self, members: list[GroupReader], final: dict[verdicts.Where, list[int]]) -> None:
        history = self._recorder.history
        self._report.acknowledged = sum(send.base_offset >= 0 for send in history.sends)
        self._report.transactions = len(history.transactions)
        self._report.commits = len(history.commits)
        self._report.read = sum(len(member.seen) for member in members)
        self._report.faults += verdicts.anomalies(self._recorder)
        self._report.faults += verdicts.out_of_order(history, final)
        self._report.faults += verdicts.not_read_by_groups(_seen_by(members), GROUPS, final)


def create_topics(bootstrap: str, *, quorum: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    configs = {"min.insync.replicas": "2", "penstock.ack.quorum": quorum}
    wanted = [NewTopic(topic, PARTITIONS, 3, config=configs) for topic in TOPICS]
    for created in admin.create_topics(wanted).values():
        created.result(PATIENCE_S)


def _seen_by(members: list[GroupReader]) -> dict[str, set[tuple[str, int, int]]]:
    seen: dict[str, set[tuple[str, int, int]]] = defaultdict(set)
    for member in members:
        seen[member.group] |= member.seen.copy()
    return seen


def _last_words(cluster: FaultyCluster) -> str:
    return "\n".join(
        f"--- broker {node_id} said last:\n" + "\n".join(broker.output.splitlines()[-LINES_SHOWN:])
        for node_id, broker in cluster.brokers.items()
    )


def run(
    seconds: float,
    *,
    seed: int,
    say: Say = lambda words: None,
    kinds: Sequence[str] = (),
    logs: Path | None = None,
    by_proxy: bool = False,
    quorum: str = "all",
) -> Report:
    """Faults for so many seconds; with `kinds`, each of these once instead. What was said and
    written is kept in `logs`; where that is None, in a new folder if something is wrong."""
    return Run(seed=seed, say=say, by_proxy=by_proxy, quorum=quorum).run(seconds, kinds, logs)
