"""Producer ids, taken one by one from blocks that the controller hands out. An id is never given twice."""

import asyncio

from penstock.cluster.controller import Controller
from penstock.cluster.metadata import PRODUCER_ID_BLOCK


class ProducerIds:
    """The broker's stock of unused ids."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._next = 0
        self._end = 0
        self._refill = asyncio.Lock()

    async def take(self) -> int:
        async with self._refill:
            if self._next == self._end:
                self._next = await self._controller.allocate_producer_ids()
                self._end = self._next + PRODUCER_ID_BLOCK
            self._next += 1
            return self._next - 1
