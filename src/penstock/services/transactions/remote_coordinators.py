"""Asks a transaction coordinator on another broker to add partitions to a transaction, or to verify them."""

from collections.abc import Sequence
from typing import Final

from penstock.base.errors import ErrorCode
from penstock.cluster.peer_requests.coordinators import Codes, Question, add_partitions
from penstock.cluster.peers import Peers
from penstock.services.transactions.request_batcher import RequestBatcher
from penstock.world import World

_TRANSACTIONS_MAX: Final = 500
_REQUESTS_MAX: Final = 5


class RemoteCoordinators:
    """Sends AddPartitionsToTxn to the transaction coordinators on other brokers."""

    def __init__(self, world: World, peers: Peers) -> None:
        self._peers = peers
        self._batcher: RequestBatcher[Question, Codes | None] = RequestBatcher(
            world,
            self._ask,
            key=lambda question: question.transactional_id,
            unanswered=None,
            items_max=_TRANSACTIONS_MAX,
            requests_max=_REQUESTS_MAX,
        )

    async def ask(self, coordinator: int, question: Question) -> Codes:
        """The coordinator's error codes; COORDINATOR_NOT_AVAILABLE, which is retried, if the request failed."""
        codes = await self._batcher.put(coordinator, question)
        return codes or question.all(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    async def stop(self) -> None:
        await self._batcher.stop()

    async def _ask(self, coordinator: int, questions: Sequence[Question]) -> Sequence[Codes | None]:
        return await add_partitions(self._peers, coordinator, questions)
