"""Allocates producer ids from blocks that the controller hands out. No id is allocated twice."""

import asyncio
from typing import Protocol

from penstock.base.errors import ErrorCode, Refusal, StorageError
from penstock.client.errors import ClientError
from penstock.cluster.metadata import PRODUCER_ID_BLOCK


class ProducerIdBlocks(Protocol):
    """Hands out blocks of ids: the controller, or a link to the controller on another broker."""

    async def allocate_producer_ids(self) -> int | Refusal:
        """The first of PRODUCER_ID_BLOCK ids that are handed out once only.

        Raises StorageError if the controller cannot store the block, ClientError if it cannot be reached.
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
        """An id; or a retriable error if none is available now."""
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
        # Clients retry COORDINATOR_LOAD_IN_PROGRESS, whatever the controller's error was; as in Kafka.
        return (
            Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, first.message)
            if isinstance(first, Refusal)
            else first
        )
