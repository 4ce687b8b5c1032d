"""Collects items (markers, verifications) for other brokers: the items for one broker share a request.

As in Kafka, one request has many partitions and transactions. The number of items per request is bounded, and so is the
number of in-flight requests per broker: while that many are in flight, items wait, and share the next request.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable, Sequence
from functools import partial
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from penstock.client.errors import ClientError
from penstock.world import World
from penstock.world.tasks import cancel_and_wait

log = logging.getLogger("penstock.transactions")

Item = TypeVar("Item")
Reply = TypeVar("Reply")

# Sends a request with these items to a broker and returns the answer to each, in order; raises ClientError on failure.
Ask: TypeAlias = Callable[[int, Sequence[Item]], Awaitable[Sequence[Reply]]]


class _Waiting(NamedTuple, Generic[Item, Reply]):
    """An item, and the future for its answer."""

    item: Item
    answer: "asyncio.Future[Reply]"


class _BrokerQueue(Generic[Item, Reply]):
    """The items that wait for a request to one broker."""

    def __init__(self) -> None:
        self.waiting: list[_Waiting[Item, Reply]] = []
        self.is_scheduled = False
        self.requests = 0  # in flight


class RequestBatcher(Generic[Item, Reply]):
    """A queue per broker. Items with the same key never share a request: answers are matched to items by key."""

    def __init__(
        self,
        world: World,
        ask: "Ask[Item, Reply]",
        *,
        key: Callable[[Item], Hashable],
        unanswered: Reply,
        items_max: int,
        requests_max: int,
    ) -> None:
        self._loop = world.loop
        self._ask = ask
        self._key = key
        self._unanswered = unanswered  # the answer to every item of a request that failed
        self._items_max = items_max
        self._requests_max = requests_max
        self._by_node: dict[int, _BrokerQueue[Item, Reply]] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._stopped = False

    def put(self, node_id: int, item: Item) -> "asyncio.Future[Reply]":
        """Queue an item for a broker; a future for its answer."""
        answer: asyncio.Future[Reply] = self._loop.create_future()
        if self._stopped:
            answer.set_result(self._unanswered)
            return answer
        queue = self._by_node.setdefault(node_id, _BrokerQueue())
        queue.waiting.append(_Waiting(item, answer))
        if not queue.is_scheduled and queue.requests < self._requests_max:
            queue.is_scheduled = True
            self._loop.call_soon(self._send_all, node_id, queue)
        return answer

    def _send_all(self, node_id: int, queue: _BrokerQueue[Item, Reply]) -> None:
        queue.is_scheduled = False
        while queue.requests < self._requests_max and not self._stopped:
            together = self._take(queue)
            if not together:
                break
            queue.requests += 1
            task = self._loop.create_task(self._send(node_id, together), name=f"ask broker {node_id}")
            self._tasks[task] = None
            task.add_done_callback(partial(self._sent, node_id, queue))
        if not queue.waiting and not queue.requests:
            self._by_node.pop(node_id, None)

    def _take(self, queue: _BrokerQueue[Item, Reply]) -> list[_Waiting[Item, Reply]]:
        together: dict[Hashable, _Waiting[Item, Reply]] = {}
        left = []
        for waiting in queue.waiting:
            if waiting.answer.done():
                continue  # the caller was cancelled
            if len(together) == self._items_max or self._key(waiting.item) in together:
                left.append(waiting)
            else:
                together[self._key(waiting.item)] = waiting
        queue.waiting = left
        return list(together.values())

    async def _send(self, node_id: int, together: list[_Waiting[Item, Reply]]) -> None:
        answers: Sequence[Reply] = [self._unanswered] * len(together)
        try:
            answers = await self._ask(node_id, [waiting.item for waiting in together])
        except ClientError as error:
            log.info("broker %d: transaction request failed: %s; retrying", node_id, error)
        except Exception:
            log.exception("broker %d: sending a transaction request failed", node_id)
        finally:
            for waiting, answer in zip(together, answers, strict=True):
                if not waiting.answer.done():
                    waiting.answer.set_result(answer)

    def _sent(self, node_id: int, queue: _BrokerQueue[Item, Reply], task: "asyncio.Task[None]") -> None:
        del self._tasks[task]
        queue.requests -= 1
        self._send_all(node_id, queue)

    async def stop(self) -> None:
        """Send no more requests, and answer all items that wait with `unanswered`."""
        self._stopped = True
        for queue in self._by_node.values():
            for waiting in queue.waiting:
                if not waiting.answer.done():
                    waiting.answer.set_result(self._unanswered)
        await cancel_and_wait(*self._tasks)
