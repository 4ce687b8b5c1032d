"""Leader elections of topics with `penstock.ack.quorum=majority`: the controller asks the replicas for their log ends.

A partition that has lost its leader is in the metadata with none, under a leader epoch of its own. A replica that knows
of that epoch follows no older leader, and answers LogEnds (key 10001) with the last leader epoch in its log and its log
end offset. `controller.rules.majority_partitions` has the rules; here is which replicas are asked, and when. A new
controller asks again.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from penstock.base.errors import ErrorCode
from penstock.base.ids import TopicPartition, format_id, parse_id
from penstock.client.errors import ClientError
from penstock.cluster.metadata import NO_LEADER, MetadataImage, PartitionState, Topic
from penstock.cluster.metadata_changes import Change
from penstock.cluster.peers import Peers
from penstock.controller.broker_registry import BrokerRegistry
from penstock.controller.controller import Controller
from penstock.controller.requests_to_unproven_peers import ask_log_ends
from penstock.controller.rules.majority_partitions import Report, choose_leader, elect_leader
from penstock.services.replicas.replica_manager import ReplicaManager
from penstock.wire.private.log_ends import LogEndsPartition, LogEndsRequest, LogEndsResponse, LogEndsTopic
from penstock.world import World
from penstock.world.tasks import Tasks, cancel_and_wait

log = logging.getLogger("penstock.controller")

_RETRY_S: Final = 0.05
_ELECTIONS: Final = "majority elections"  # the task
# How long to wait for the other replicas once a majority has reported: the preferred leader may be among them.
_OTHERS_TIMEOUT_S: Final = 0.1


class _ReceivedReport(NamedTuple):
    """A report, the broker epoch of its sender, and the leader epoch without a leader that it was asked for."""

    report: Report
    broker_epoch: int
    leader_epoch: int


class _Vacancy(NamedTuple):
    """A partition without a leader, keyed by topic id: a deleted topic may have had the same name."""

    topic: Topic
    state: PartitionState


def report_of(
    replicas: ReplicaManager, topic_id: bytes, index: int, *, leader_epoch: int
) -> Report | ErrorCode:
    """The log end of a replica of this broker, if it knows that the partition has no leader in that epoch.

    A broker that has just started reports nothing: the controller has to know first whether it may have lost records.
    """
    if not replicas.is_admitted:
        return ErrorCode.REPLICA_NOT_AVAILABLE
    partition = replicas.find_replica_by_id(topic_id, index)
    if isinstance(partition, ErrorCode):
        return partition
    code = partition.epoch_error(leader_epoch)
    if code is not ErrorCode.NONE:
        return code
    found = partition.report()
    return found if isinstance(found, ErrorCode) else Report(*found)


class MajorityElections:
    """Elects leaders while this broker is the controller."""

    def __init__(
        self,
        world: World,
        image: MetadataImage,
        controller: Controller,
        broker_registry: BrokerRegistry,
        replicas: ReplicaManager,
        peers: Peers,
        *,
        node_id: int,
    ) -> None:
        self._loop = world.loop
        self._image = image
        self._controller = controller
        self._broker_registry = broker_registry
        self._replicas = replicas
        self._peers = peers
        self._node_id = node_id
        self._received: dict[TopicPartition, dict[int, _ReceivedReport]] = {}
        self._ready_since: dict[TopicPartition, float] = {}
        self._asking: dict[int, asyncio.Task[None]] = {}
        self._news = asyncio.Event()
        self._tasks = Tasks(world.loop)
        self._stopped = False

    def topic_changed(self, topic: Topic) -> None:
        if self._controller.is_active and _vacancies_of(topic):
            self.look()

    def look(self) -> None:
        """Start elections, or go on with them: the metadata or the live brokers have changed."""
        self._news.set()
        if not self._stopped and not self._tasks.is_running(_ELECTIONS):
            self._tasks.start(_ELECTIONS, self._run())

    async def stop(self) -> None:
        self._stopped = True
        await self._tasks.stop()
        await cancel_and_wait(*self._asking.values())

    async def _run(self) -> None:
        while self._controller.is_active:
            self._news.clear()
            vacancies = self._vacancies()
            if not vacancies:
                break
            self._ask(vacancies)
            if self._can_elect(vacancies):
                refusal = await self._controller.elect_majority_leaders(self._decide)
                if refusal is None:
                    continue
                log.info("majority election failed: %s; retrying", refusal.message)
            await self._wait_for_news()
        self._received.clear()
        self._ready_since.clear()

    async def _wait_for_news(self) -> None:
        """Return at the next report or change of metadata, or after a short time."""
        timer = self._loop.call_later(_RETRY_S, self._news.set)
        try:
            await self._news.wait()
        finally:
            timer.cancel()

    def _vacancies(self) -> dict[TopicPartition, _Vacancy]:
        return {
            TopicPartition(format_id(topic.topic_id), index): _Vacancy(topic, topic.partitions[index])
            for topic in self._image.topics()
            for index in _vacancies_of(topic)
        }

    # Asking.

    def _ask(self, vacancies: Mapping[TopicPartition, _Vacancy]) -> None:
        wanted: dict[int, dict[TopicPartition, PartitionState]] = {}
        for where, (_, state) in vacancies.items():
            told = self._reports(where, state)
            for node_id in state.present_replicas:
                if node_id not in told:
                    wanted.setdefault(node_id, {})[where] = state
        alive = self._image.alive()
        for node_id in sorted(wanted):
            if node_id not in alive or node_id in self._asking:
                continue
            epoch = self._image.brokers[node_id].epoch
            if node_id == self._node_id:
                self._ask_here(wanted[node_id], epoch)
                continue
            task = self._loop.create_task(self._ask_broker(node_id, wanted[node_id], epoch))
            self._asking[node_id] = task
            task.add_done_callback(lambda _, node_id=node_id: self._asked(node_id))  # type: ignore[misc]

    def _asked(self, node_id: int) -> None:
        del self._asking[node_id]
        self._news.set()

    def _ask_here(self, wanted: Mapping[TopicPartition, PartitionState], broker_epoch: int) -> None:
        for where, state in wanted.items():
            topic_id = parse_id(where.topic)
            found = report_of(self._replicas, topic_id, where.partition, leader_epoch=state.leader_epoch)
            if isinstance(found, Report):
                self._note(where, self._node_id, _ReceivedReport(found, broker_epoch, state.leader_epoch))

    async def _ask_broker(
        self, node_id: int, wanted: Mapping[TopicPartition, PartitionState], broker_epoch: int
    ) -> None:
        missing = True
        try:
            reports = await self._log_ends(node_id, wanted)
        except ClientError as error:
            log.debug("broker %d: asking for its log ends failed: %s; retrying", node_id, error)
        else:
            missing = len(reports) < len(wanted)
            for where, report in reports.items():
                self._note(where, node_id, _ReceivedReport(report, broker_epoch, wanted[where].leader_epoch))
            self._news.set()
        if missing:
            # It has not read the epoch without a leader yet, or is not reachable: ask again after a pause.
            await self._loop.sleep(_RETRY_S)

    async def _log_ends(
        self, node_id: int, wanted: Mapping[TopicPartition, PartitionState]
    ) -> dict[TopicPartition, Report]:
        """The reports of a broker, of as many of the partitions as it can; a ClientError if it cannot be asked."""
        if not self._peers.shakes_hands(node_id):
            leader_epochs = {where: state.leader_epoch for where, state in wanted.items()}
            reports = await ask_log_ends(self._peers, node_id, leader_epochs)
        else:
            answer = await self._peers.ask(node_id, _request(wanted), LogEndsResponse)
            reports = {
                TopicPartition(format_id(topic.topic_id), each.partition_index): Report(
                    each.last_epoch, each.end_offset
                )
                for topic in answer.topics
                for each in topic.partitions
                if not each.error_code
            }
        return {where: report for where, report in reports.items() if where in wanted}

    def _note(self, where: TopicPartition, node_id: int, told: _ReceivedReport) -> None:
        self._received.setdefault(where, {})[node_id] = told

    # Deciding.

    def _reports(self, where: TopicPartition, state: PartitionState) -> dict[int, Report]:
        """The reports on a partition whose senders are not fenced and have not registered again since."""
        found = {}
        for node_id, told in self._received.get(where, {}).items():
            broker = self._image.brokers.get(node_id)
            is_current = broker is not None and not broker.fenced and broker.epoch == told.broker_epoch
            if is_current and told.leader_epoch == state.leader_epoch:
                found[node_id] = told.report
        return found

    def _can_elect(self, vacancies: Mapping[TopicPartition, _Vacancy]) -> bool:
        return any(self._choice(where, vacancy) != NO_LEADER for where, vacancy in vacancies.items())

    def _choice(self, where: TopicPartition, vacancy: _Vacancy) -> int:
        """The next leader, once all live replicas have reported or had the time to; else NO_LEADER."""
        state, alive = vacancy.state, self._image.alive()
        reports = self._reports(where, state)
        chosen = choose_leader(
            state,
            reports,
            alive=alive,
            avoided=[
                node_id
                for node_id, epoch in self._broker_registry.leaving.items()
                if node_id in self._image.brokers and self._image.brokers[node_id].epoch == epoch
            ],
            unclean=self._broker_registry.allows_unclean(vacancy.topic),
        )
        if chosen == NO_LEADER:
            self._ready_since.pop(where, None)
            return NO_LEADER
        since = self._ready_since.setdefault(where, self._loop.time())
        all_told = all(each in reports for each in state.present_replicas if each in alive)
        return chosen if all_told or self._loop.time() - since >= _OTHERS_TIMEOUT_S else NO_LEADER

    def _decide(self) -> tuple[Change, set[int]]:
        topics: dict[str, Topic] = {}
        elected: set[int] = set()
        for where, vacancy in self._vacancies().items():
            leader = self._choice(where, vacancy)
            if leader == NO_LEADER:
                continue
            topic = topics.get(vacancy.topic.name, vacancy.topic)
            topics[topic.name] = replace(
                topic,
                partitions=_with(topic.partitions, where.partition, elect_leader(vacancy.state, leader)),
            )
            elected.add(leader)
            log.info(
                "%s-%d: elected leader %d by majority; reported (epoch, end offset): %s",
                topic.name,
                where.partition,
                leader,
                {node_id: tuple(told) for node_id, told in self._reports(where, vacancy.state).items()},
            )
        return Change(topics=topics), elected


def _vacancies_of(topic: Topic) -> Iterable[int]:
    if not topic.counts_majority:
        return ()
    return [index for index, state in enumerate(topic.partitions) if state.leader == NO_LEADER]


def _with(
    partitions: tuple[PartitionState, ...], index: int, state: PartitionState
) -> tuple[PartitionState, ...]:
    return (*partitions[:index], state, *partitions[index + 1 :])


def _request(wanted: Mapping[TopicPartition, PartitionState]) -> LogEndsRequest:
    topics: dict[str, LogEndsTopic] = {}
    for where, state in wanted.items():
        topic = topics.setdefault(where.topic, LogEndsTopic(topic_id=parse_id(where.topic)))
        topic.partitions.append(
            LogEndsPartition(partition_index=where.partition, leader_epoch=state.leader_epoch)
        )
    return LogEndsRequest(topics=list(topics.values()))
