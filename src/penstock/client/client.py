"""`Client`: connections to brokers, the cluster's metadata, and requests to a node, the controller or any broker.

The requests themselves are in the modules beside this one. A request is sent once; `retry` repeats it. The first
connection to a cluster fails at once if no broker listens (unless `retries_first_connection` is set); a cluster that
was reached before is retried for `patience_ms`.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Self, TypeVar

from penstock.base.errors import ErrorCode, Refusal
from penstock.base.ids import TopicPartition
from penstock.client.addresses import Address, parse_addresses
from penstock.client.cluster import ClusterMetadata, KnownBroker, KnownTopic
from penstock.client.connection import Connection, ConnectionLimits, open_connection
from penstock.client.errors import AnsweredError, ClientError, ConnectionLostError, UnreachableError
from penstock.client.retries import Backoff, is_stale_metadata
from penstock.client.security import Security
from penstock.schema.words import Message
from penstock.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from penstock.world.entropy import Entropy
from penstock.world.loop import Loop
from penstock.world.tasks import cancel_and_wait

R = TypeVar("R", bound=Message)
T = TypeVar("T")


@dataclass(frozen=True)
class ClientSettings:
    """A client's timeouts, limits and security."""

    client_id: str = "penstock"
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)
    backoff: Backoff = field(default_factory=Backoff)
    patience_ms: float = 60_000  # for how long `retry` retries; infinite: without limit
    retries_first_connection: bool = False  # whether the first connection is retried too
    security: Security = field(default_factory=Security)


class Client:
    """A client of one cluster, on `loop`; close it when done."""

    def __init__(
        self,
        loop: Loop,
        bootstrap_servers: str,
        *,
        entropy: Entropy,
        settings: ClientSettings | None = None,
    ) -> None:
        self.loop = loop
        self.entropy = entropy
        self.settings = settings or ClientSettings()
        self.cluster = ClusterMetadata()
        self.bootstrap_servers = bootstrap_servers
        # Called for each failed attempt that is followed by another: the error, and how many failed before.
        self.retrying: Callable[[ClientError, int], None] | None = None
        self.batch_sizes_taken: dict[str, int] = {}  # by topic; see `batch_limits`
        self._bootstrap = parse_addresses(bootstrap_servers)
        self._connections: dict[Address, Connection] = {}
        self._opening: dict[Address, asyncio.Task[Connection]] = {}
        self._reached = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections; requests in flight fail."""
        await cancel_and_wait(*self._opening.values())
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        await self.loop.sleep(0)  # transports finish closing in the loop's next turn

    def sibling(self) -> "Client":
        """Another client of the same cluster, with connections of its own: its requests do not queue behind others."""
        other = Client(self.loop, self.bootstrap_servers, entropy=self.entropy, settings=self.settings)
        other.retrying = self.retrying
        return other

    # Asking.

    async def ask_any(self, request: Message, response: type[R], *, version_max: int | None = None) -> R:
        """Ask any broker: over open connections first, then known brokers, then the bootstrap addresses."""
        problems: list[str] = []
        for address in self._addresses():
            try:
                connection = await self.connection(address)
                return await connection.ask(request, response, version_max=version_max)
            except (UnreachableError, ConnectionLostError) as error:
                problems.append(str(error))
        raise UnreachableError("; ".join(dict.fromkeys(problems)))

    async def ask_node(
        self,
        node_id: int,
        request: Message,
        response: type[R],
        *,
        timeout_ms: int | None = None,
        version_max: int | None = None,
    ) -> R:
        """Ask one broker. For a leader, see `leaders`."""
        connection = await self.node_connection(node_id)
        return await connection.ask(request, response, timeout_ms=timeout_ms, version_max=version_max)

    async def ask_reachable(self, request: Message, response: type[R]) -> dict[int, R]:
        """Ask all brokers: the answers by node id. An error if no broker answers."""
        answers: dict[int, R] = {}
        problem: ClientError = UnreachableError("the cluster names no broker")
        for broker in await self.brokers():
            try:
                answers[broker.node_id] = await self.ask_node(broker.node_id, request, response)
            except ClientError as error:
                problem = error
        if not answers:
            raise problem
        return answers

    async def ask_controller(self, request: Message, response: type[R]) -> R:
        """Ask the controller, or any broker where the metadata name none."""
        connection = await self.controller_connection()
        return await connection.ask(request, response)

    async def controller_connection(self) -> Connection:
        if self.cluster.controller_id not in self.cluster.brokers:
            await self.refresh()
        controller = self.cluster.brokers.get(self.cluster.controller_id)
        return await (self.any_connection() if controller is None else self.connection(controller.address))

    async def any_connection(self) -> Connection:
        """A connection to any broker that can be reached."""
        problems: list[str] = []
        for address in self._addresses():
            try:
                return await self.connection(address)
            except UnreachableError as error:
                problems.append(str(error))
        raise UnreachableError("; ".join(problems))

    async def node_connection(self, node_id: int) -> Connection:
        broker = self.cluster.brokers.get(node_id)
        if broker is None:
            await self.refresh()
            broker = self.cluster.brokers.get(node_id)
        if broker is None:
            raise UnreachableError(f"the cluster has no broker {node_id} at the moment")
        return await self.connection(broker.address)

    async def connection(self, address: Address) -> Connection:
        """The open connection to an address, shared by all callers; opened if there is none."""
        connection = self._connections.get(address)
        if connection is not None and connection.is_open:
            return connection
        task = self._opening.get(address)
        if task is None:
            task = self.loop.create_task(self._open(address))
            self._opening[address] = task
            task.add_done_callback(lambda done: self._opened(address, done))
        # Shielded: a caller that is cancelled must not cancel the attempt that others wait for.
        return await asyncio.shield(task)

    def _opened(self, address: Address, task: "asyncio.Task[Connection]") -> None:
        self._opening.pop(address, None)
        if not task.cancelled():
            task.exception()  # else asyncio warns that it was never retrieved, if all callers were cancelled

    # Metadata.

    async def brokers(self) -> list[KnownBroker]:
        """All brokers, in the order of their ids."""
        if not self.cluster.brokers:
            await self.refresh()
        return [self.cluster.brokers[node_id] for node_id in sorted(self.cluster.brokers)]

    async def refresh(self, topics: Iterable[str] | None = (), *, create: bool = False) -> list[KnownTopic]:
        """Ask for metadata: of these topics, of all (None), or of the brokers only (the default).

        The result has a topic for each name; a missing one has a `refusal`. With `create`, the broker creates missing
        topics if its `auto.create.topics.enable` is true.
        """
        request = MetadataRequest(
            topics=None if topics is None else [MetadataRequestTopic(name=name) for name in topics],
            allow_auto_topic_creation=create,
        )
        return self.cluster.learn(await self.ask_any(request, MetadataResponse), everything=topics is None)

    async def topic(self, name: str) -> KnownTopic:
        """A topic's metadata, from the cache or the cluster. AnsweredError if there is no such topic."""
        known = self.cluster.topics.get(name)
        if known is None:
            (known,) = await self.refresh([name])
        if known.refusal is not None and not known.partitions:
            raise AnsweredError(known.refusal, f"topic {name}")
        return known

    async def leaders(self, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """The partitions by the node that leads them; AnsweredError for one that has no leader."""
        wanted = list(partitions)
        unknown = {each.topic for each in wanted if self.cluster.leader(*each) is None}
        if unknown:
            await self.refresh(sorted(unknown))
        by_leader: dict[int, list[TopicPartition]] = {}
        for each in wanted:
            by_leader.setdefault(self._leader(each), []).append(each)
        return by_leader

    def _leader(self, partition: TopicPartition) -> int:
        leader = self.cluster.leader(*partition)
        if leader is not None:
            return leader
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if self.cluster.partition(*partition) is not None:
            code = ErrorCode.LEADER_NOT_AVAILABLE
        raise AnsweredError(Refusal(code), f"partition {partition}")

    # Retrying.

    def retry_without_limit(self) -> None:
        """From now on retry without limit, for consumers that follow a topic."""
        self.settings = replace(self.settings, patience_ms=math.inf)

    async def retry(self, attempt: Callable[[], Awaitable[T]], *, patience_ms: int | None = None) -> T:
        """Call `attempt` until it succeeds, raises an error that is not retriable, or `patience_ms` have passed."""
        allowed_ms = self.settings.patience_ms if patience_ms is None else patience_ms
        deadline = self.loop.time() + allowed_ms / 1000
        tries = 0
        while True:
            try:
                return await attempt()
            except ClientError as error:
                if not self._may_help(error) or self.loop.time() >= deadline:
                    raise
                await self.recover(error, tries)
            tries += 1

    async def recover(self, error: ClientError, tries: int) -> None:
        """After a failed attempt: drop stale metadata, and back off."""
        if self.retrying is not None:
            self.retrying(error, tries)
        if not isinstance(error, AnsweredError) or is_stale_metadata(error.refusal.code):
            self.cluster.forget()
        await self.back_off(tries)

    async def back_off(self, tries: int) -> None:
        """Back off after attempt number `tries`, counted from 0."""
        delay_ms = self.settings.backoff.delay_ms(tries, chance=self.entropy.random_below(100))
        await self.loop.sleep(delay_ms / 1000)

    def _may_help(self, error: ClientError) -> bool:
        if isinstance(error, UnreachableError):
            return self._reached or self.settings.retries_first_connection
        return error.retriable

    async def _open(self, address: Address) -> Connection:
        connection = await open_connection(
            self.loop,
            address,
            client_id=self.settings.client_id,
            limits=self.settings.limits,
            security=self.settings.security,
            entropy=self.entropy,
        )
        self._connections[address] = connection
        self._reached = True
        return connection

    def _addresses(self) -> list[Address]:
        connected = [address for address, each in self._connections.items() if each.is_open]
        known = [broker.address for broker in self.cluster.brokers.values()]
        return list(dict.fromkeys([*connected, *known, *self._bootstrap]))
