"""The lag of flows: the end offsets of their topics, from the broker, less their positions."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Final, Self

from penstock.base.ids import TopicPartition
from penstock.client.blocking import BlockingClient
from penstock.client.client import Client
from penstock.client.errors import ClientError
from penstock.client.offsets import EARLIEST, LATEST, FoundOffset, list_offsets
from penstock.client.outages import Outages
from penstock.spark.connecting import cluster_of
from penstock.spark.options import read_settings
from penstock.spark.pipelines.project import Project
from penstock.spark.positions import Positions

# Short: the display must not freeze while a broker is unreachable.
_PATIENCE_MS: Final = 2_000


class Ends:
    """The log start and last stable offsets of topics."""

    def __init__(self, starts: Positions, ends: Positions) -> None:
        self.starts = starts
        self.ends = ends

    def lag(self, topics: Iterable[str], positions: Mapping[TopicPartition, int]) -> int:
        """The offsets left to read; those that retention has deleted do not count."""
        wanted = set(topics)
        return sum(
            max(0, end - max(positions.get(partition, 0), self.starts.get(partition, 0)))
            for partition, end in self.ends.items()
            if partition.topic in wanted
        )


class LagMeter:
    """A client of the project's broker with short timeouts."""

    def __init__(self, project: Project, *, say: Callable[[str], None] | None = None) -> None:
        """`say` is called with a line when the broker does not answer, and when it answers again."""
        flow = next(iter(project.flows.values()))
        cluster = cluster_of(read_settings(project.source_options(flow)))
        settings = replace(cluster.settings, patience_ms=_PATIENCE_MS, retries_first_connection=False)
        self._blocking = BlockingClient(cluster.bootstrap_servers, settings=settings)
        self._outages = Outages(cluster.bootstrap_servers, say or (lambda _line: None))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def blocking(self) -> BlockingClient:
        return self._blocking

    def look(self, topics: Iterable[str]) -> Ends | None:
        """Both ends of all partitions of existing topics; None if no broker is reachable."""
        try:
            ends = self._blocking.run(_look(self._blocking.client, sorted(set(topics))))
        except ClientError as error:
            self._outages.failed(error, 0)
            return None
        self._outages.answered()
        return ends

    def close(self) -> None:
        self._blocking.close()


async def _look(client: Client, topics: list[str]) -> Ends:
    found = await client.refresh(topics)
    partitions = [TopicPartition(topic.name, each.partition) for topic in found for each in topic.partitions]
    if not partitions:
        return Ends({}, {})
    starts = await list_offsets(client, dict.fromkeys(partitions, EARLIEST))
    ends = await list_offsets(client, dict.fromkeys(partitions, LATEST), committed_only=True)
    return Ends(
        {each: answer.offset for each, answer in starts.items() if isinstance(answer, FoundOffset)},
        {each: answer.offset for each, answer in ends.items() if isinstance(answer, FoundOffset)},
    )
