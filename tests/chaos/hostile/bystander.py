"""The well-behaved client: it waits for every answer, and remembers how long that took."""

import threading
import time
from types import TracebackType
from typing import Self

from penstock.wire.messages.metadata import MetadataRequest
from tests.raw_client import RawClient, batch_of

EVERY_S = 0.005
NEW_CONNECTION_EVERY = 10  # questions
TOPIC = "bystander"
SMALL = batch_of(b"x" * 100)
LARGE = batch_of(b"x" * 900_000)


class Bystander:
    """Asks from a thread of its own for as long as the `with` block lasts."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._ask_on, name="bystander", daemon=True)
        self.small_ms: list[float] = []
        self.large_ms: list[float] = []
        self.errors: list[str] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join()

    def _ask_on(self) -> None:
        number = 0
        client = RawClient(self._bootstrap)
        due = time.monotonic()
        while not self._stopping.wait(max(0.0, due - time.monotonic())):
            due = max(due + EVERY_S, time.monotonic())
            number += 1
            began = time.monotonic()
            try:
                if number % NEW_CONNECTION_EVERY == 0:
                    client.socket.close()
                    client = RawClient(self._bootstrap)
                is_large = number % 40 == 5
                if is_large:
                    assert client.produce(TOPIC, LARGE, acks=1).error_code == 0
                elif number % 2:
                    assert client.produce(TOPIC, SMALL).error_code == 0
                else:
                    assert client.ask(MetadataRequest(topics=[]), 12).brokers
            except (OSError, AssertionError) as error:
                self.errors.append(f"{type(error).__name__}: {error}")
                client.socket.close()
                client = RawClient(self._bootstrap)
                continue
            took_ms = (time.monotonic() - began) * 1000
            (self.large_ms if is_large else self.small_ms).append(took_ms)
        client.socket.close()


def percentile(values: list[float], hundredth: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * hundredth / 100))] if ordered else float("inf")
