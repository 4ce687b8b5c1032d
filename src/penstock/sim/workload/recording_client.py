"""A client that records the offsets that it commits and fetches for groups, request by request."""

from collections.abc import Iterator
from typing import Any, TypeVar

from penstock.base.errors import ErrorCode
from penstock.base.ids import TopicPartition
from penstock.schema.words import Message
from penstock.sim.checkers import Commit, CommittedRead, OperationOutcome
from penstock.sim.workload.journal import Journal
from penstock.sim.workload.tracking_client import TrackingClient
from penstock.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from penstock.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse

R = TypeVar("R", bound=Message)

# With these answers nothing was written; any other may come although the commit stands.
_REFUSED = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)


class RecordingClient(TrackingClient):
    """Asks like any client. `record_for` before it is used."""

    def record_for(self, actor: str, journal: Journal) -> "RecordingClient":
        self._actor = actor
        self._journal = journal
        self.begin()
        return self

    def sibling(self) -> "RecordingClient":
        made = type(self)(self.loop, self.bootstrap_servers, entropy=self.entropy, settings=self.settings)
        return made.record_for(self._actor, self._journal)

    async def ask_node(self, node_id: int, request: Message, response: type[R], **more: Any) -> R:
        began = self._journal.history.tick()
        if isinstance(request, OffsetCommitRequest):
            return await self._commit(began, node_id, request, response, **more)
        answer = await super().ask_node(node_id, request, response, **more)
        if isinstance(request, OffsetFetchRequest) and isinstance(answer, OffsetFetchResponse):
            self._journal.history.committed_reads += self._read(began, answer)
        return answer

    async def _commit(
        self, began: int, node_id: int, request: OffsetCommitRequest, response: type[R], **more: Any
    ) -> R:
        answer: R | None = None
        try:
            answer = await super().ask_node(node_id, request, response, **more)
            return answer
        finally:
            codes = _codes(answer) if isinstance(answer, OffsetCommitResponse) else {}
            for topic in request.topics:
                for each in topic.partitions:
                    partition = TopicPartition(topic.name, each.partition_index)
                    self._journal.history.commits.append(
                        Commit(
                            request.group_id,
                            partition,
                            each.committed_offset,
                            began,
                            self._journal.history.tick(),
                            _outcome(codes.get(partition)),
                            self._actor,
                        )
                    )

    def _read(self, began: int, answer: OffsetFetchResponse) -> Iterator[CommittedRead]:
        for group in answer.groups:
            for topic in group.topics:
                for each in topic.partitions:
                    if not group.error_code and not each.error_code:
                        yield CommittedRead(
                            group.group_id,
                            TopicPartition(topic.name, each.partition_index),
                            each.committed_offset,
                            began,
                            self._journal.history.tick(),
                        )


def _codes(answer: OffsetCommitResponse) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic.name, each.partition_index): each.error_code
        for topic in answer.topics
        for each in topic.partitions
    }


def _outcome(code: int | None) -> OperationOutcome:
    if code is None:
        return OperationOutcome.UNKNOWN
    if code == ErrorCode.NONE:
        return OperationOutcome.OK
    return OperationOutcome.FAILED if code in _REFUSED else OperationOutcome.UNKNOWN
