"""One record every few milliseconds, with acks=all, and when each was acknowledged."""

import itertools
import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaError, Message, Producer

EVERY_S = 0.005
PATIENCE_S = 120.0


class Writing:
    """A producer of librdkafka in a thread of its own, for as long as the `with` block lasts."""

    def __init__(
        self, bootstrap: str, topic: str, settings: Mapping[str, object], *, partitions: int = 1
    ) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0, **settings})
        self._topic = topic
        self._partitions = partitions  # one after the other
        self._thread = threading.Thread(target=self._write, name="writing", daemon=True)
        self._stopping = threading.Event()
        self._news = threading.Condition()
        self._acknowledged: list[tuple[float, float]] = []  # when it was sent, when that was known
        self._refused: KafkaError | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join()

    def acknowledged_after(self, sent_after_s: float) -> float:
        """When the first of the records that were sent after a moment was acknowledged."""
        with self._news:
            found = self._news.wait_for(lambda: self._first(sent_after_s), timeout=PATIENCE_S)
        assert found, f"nothing is acknowledged: {self._refused or 'no error was reported'}"
        return found

    def longest_wait_s(self, began_s: float, ended_s: float) -> float:
        """Of all records that were sent in between, or were waiting then."""
        return self.waits_s(began_s, ended_s)[-1]

    def waits_s(self, began_s: float, ended_s: float) -> list[float]:
        """Of all records that were sent in between, or were waiting then, from the shortest to the longest."""
        self.acknowledged_after(ended_s)
        with self._news:
            return sorted(
                acknowledged_s - sent_s
                for sent_s, acknowledged_s in self._acknowledged
                if acknowledged_s >= began_s and sent_s <= ended_s
            )

    def _first(self, sent_after_s: float) -> float | None:
        return next((when for sent_s, when in self._acknowledged if sent_s > sent_after_s), None)

    def _write(self) -> None:
        for number in itertools.count():
            if self._stopping.is_set():
                break
            sent_s = time.monotonic()

            def heard(error: KafkaError | None, _message: Message, sent_s: float = sent_s) -> None:
                with self._news:
                    if error is None:
                        self._acknowledged.append((sent_s, time.monotonic()))
                    else:
                        self._refused = error
                    self._news.notify_all()

            partition = number % self._partitions
            self._producer.produce(self._topic, b"x" * 100, partition=partition, on_delivery=heard)
            self._producer.poll(max(0.0, sent_s + EVERY_S - time.monotonic()))
        self._producer.flush(PATIENCE_S)
