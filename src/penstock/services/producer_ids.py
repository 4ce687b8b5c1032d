"""Producer ids, taken one by one from blocks that the controller hands out. An id is never given twice."""

import asyncio
from typing import Protocol

from penstock.base.errors import ErrorCode, Refusal, StorageError
from penstock.client.errors import ClientError
from penstock.cluster.metadata import PRODUCER_ID_BLOCK


class ProducerIdBlocks(Protocol):
    """Whoever hands out blocks of ids: the controller, or somebody who asks it on another broker."""

    async def allocate_producer_ids(self) -> int | Refusal:
        """The first of PRODUCER_ID_BLOCK ids that nobody else will get.

        Raises StorageError where the controller cannot write it down, ClientError where it cannot be asked.
        """
        ...


class ProducerIds:
    """The broker's stock of unused ids."""

    def __init__(self, blocks: ProducerIdBlocks) -> None:
        self._blocks = blocks
        self._next = 0
        self._end = 0
        self._refill = asyncio.Lock()

    async def take(self) -> int | Refusal:
        """An id; or what a client is told who is to ask again, where there is none to be had now."""
        async with self._refill:
            if self._next == self._end:
                first = await self._block()
                if isinstance(first, Refusal):
                    return first
                self._next, self._end = first, first + PRODUCER_ID_BLOCK
            self._next += 1
            return self._next - 1

    async def _block(self) -> int | Refusal:
        try:
            first = await self._blocks.allocate_producer_ids()
        except StorageError as error:
            return Refusal(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        except ClientError as error:
            first = Refusal(ErrorCode.BROKER_NOT_AVAILABLE, str(error))
        # Which of the controller's troubles it is does not matter to clients; this one they all try again, as in Kafka.
        return (
            Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, first.message)
            if isinstance(first, Refusal)
            else first
        )
