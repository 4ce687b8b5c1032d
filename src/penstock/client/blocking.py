"""The client for programs without an event loop: the same `Client` on a loop of its own, in the calling
thread.

    with BlockingClient("localhost:9092") as blocking:
        topics = blocking.run(blocking.client.refresh(None))

It has no thread: nothing is sent or received between two calls, and Ctrl-C interrupts a call.
"""

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from penstock.client.client import Client, ClientSettings
from penstock.world.real_entropy import RealEntropy
from penstock.world.real_loop import RealLoop

T = TypeVar("T")


class BlockingClient:
    """Runs a client's coroutines one after the other."""

    def __init__(self, bootstrap_servers: str, *, settings: ClientSettings | None = None) -> None:
        self._runner = asyncio.Runner()
        try:
            self.client = self.run(_make(bootstrap_servers, settings))
        except BaseException:
            self._runner.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine to its end; return or raise what it does."""
        return self._runner.run(coroutine)

    def close(self) -> None:
        try:
            self.run(self.client.close())
        finally:
            self._runner.close()


async def _make(bootstrap_servers: str, settings: ClientSettings | None) -> Client:
    return Client(RealLoop(), bootstrap_servers, entropy=RealEntropy(), settings=settings)
