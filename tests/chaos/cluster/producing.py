"""The load: producers that send unique numbers and remember which were acknowledged, and where."""

import json
import logging
import random
import subprocess
import tempfile
import threading
import time
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from peers.kafka import java_command
from penstock.sim.checkers import OperationOutcome, SeenTransaction, Send
from penstock.sim.checkers import SentMessage as Sent
from penstock.sim.checkers.history import NO_OFFSET
from tests.chaos.cluster.recording import Recorder, log_of, number_in

PARTITIONS = 3
PATIENCE_S = 120.0
PACE_S = 0.1
RECORDS_EACH = 3
WAITING_MAX = 200  # a producer that gets nothing acknowledged does not send more
ABORTED = 0.25  # of all transactions

# A broker that is paused does not hang up: clients have to lose patience sooner than in 60 s.
CLIENT_SETTINGS: dict[str, Any] = {
    "socket.timeout.ms": 5_000,
    "topic.metadata.refresh.interval.ms": 1_000,
    "reconnect.backoff.max.ms": 500,
    "log_level": 0,
}
PRODUCER_SETTINGS: dict[str, Any] = {
    **CLIENT_SETTINGS,
    "acks": "all",
    "message.timeout.ms": 0,
    "request.timeout.ms": 5_000,
    "linger.ms": 5,
    # What becomes of sequence numbers and epochs: few lines, and without them a doubled record stays a riddle.
    "debug": "eos",
    "log_level": 7,
}
LINES_KEPT = 200_000


class Said(logging.Handler):
    """The last lines of a client's log."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: deque[str] = deque(maxlen=LINES_KEPT)
        self.setFormatter(logging.Formatter("%(asctime)s %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))

    def logger(self, name: str) -> logging.Logger:
        """A logger whose lines come here only."""
        logger = logging.Logger(name)
        logger.addHandler(self)
        return logger


class Sender(threading.Thread):
    """Sends until `stop`, and then waits until everything is acknowledged."""

    def __init__(self, recorder: Recorder, name: str, topic: str, settings: dict[str, Any]) -> None:
        super().__init__(name=name, daemon=True)
        self._recorder = recorder
        self._topic = topic
        self._is_idempotent = bool(settings.get("enable.idempotence", False))
        self._said = Said()
        self._settings = {**settings, "error_cb": self._heard_error}
        self._producer = Producer(self._settings, logger=self._said.logger(name))
        self._stopping = threading.Event()

    def stop(self) -> None:
        self._stopping.set()

    def keep_log(self, folder: Path) -> None:
        """Write down what the client said."""
        (folder / f"{self.name}.log").write_text("\n".join(self._said.lines))

    def run(self) -> None:
        try:
            while not self._stopping.wait(PACE_S):
                if len(self._producer) < WAITING_MAX:
                    for _ in range(RECORDS_EACH):
                        self._send()
                self._producer.poll(0)
        except KafkaException as error:
            self._recorder.complain(self.name, error)
        left = self._producer.flush(PATIENCE_S)
        if left:
            self._recorder.complain(self.name, f"{left} records were never acknowledged")

    def _send(self, transaction: int | None = None) -> None:
        number = self._recorder.number()
        partition = number % PARTITIONS
        began = self._recorder.tick()

        def heard(error: KafkaError | None, message: Message) -> None:
            told = message.offset()
            self._recorder.history.sends.append(
                Send(
                    self.name,
                    (log_of(self._topic, partition),),
                    (Sent(number),),
                    began=began,
                    ended=self._recorder.tick(),
                    outcome=OperationOutcome.OK if error is None else OperationOutcome.UNKNOWN,
                    base_offset=NO_OFFSET if error is not None or told is None else told,
                    idempotent=self._is_idempotent,
                    attempts=1 if self._is_idempotent else 2,  # or more: librdkafka does not say
                    transaction=transaction,
                )
            )

        self._producer.produce(self._topic, b"%d" % number, partition=partition, on_delivery=heard)

    def _heard_error(self, error: KafkaError) -> None:
        if error.fatal():
            self._recorder.complain(self.name, f"fatal: {error}")


class TransactionalSender(Sender):
    """One transaction after the other, some of them aborted on purpose."""

    def __init__(
        self, recorder: Recorder, name: str, topic: str, settings: dict[str, Any], *, seed: int
    ) -> None:
        super().__init__(recorder, name, topic, {**settings, "enable.idempotence": True})
        self._chance = random.Random(seed)

    def run(self) -> None:
        try:
            self._again(lambda: self._producer.init_transactions(10))
            while not self._stopping.wait(PACE_S):
                self._transact()
        except (KafkaException, TimeoutError) as error:
            self._recorder.complain(self.name, error)

    def _transact(self) -> None:
        number = self._recorder.transaction()
        self._producer.begin_transaction()
        for _ in range(self._chance.randint(2, 6)):
            self._send(number)
        ending = None
        try:
            if self._chance.random() < ABORTED:
                self._again(lambda: self._producer.abort_transaction(10))
                outcome = OperationOutcome.FAILED
            else:
                self._producer.flush(1)
                ending = self._recorder.tick()
                outcome = self._commit()
        except (KafkaException, TimeoutError):
            self._note(number, OperationOutcome.UNKNOWN, ending)
            raise
        self._note(number, outcome, ending)

    def _commit(self) -> OperationOutcome:
        try:
            self._again(lambda: self._producer.commit_transaction(10))
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            self._again(lambda: self._producer.abort_transaction(10))
            return OperationOutcome.FAILED
        return OperationOutcome.OK

    def _note(self, number: int, outcome: OperationOutcome, ending: int | None) -> None:
        self._recorder.history.transactions.append(SeenTransaction(number, self.name, outcome, ending))

    def _again(self, attempt: Any) -> None:
        """Until it works: calls of transactions that run out of time are to be made again."""
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                attempt()
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise
                if time.monotonic() > deadline_s:
                    raise TimeoutError(f"still not possible: {error}") from error
            else:
                return


class JavaSender:
    """Kafka's VerifiableProducer, which prints the offset of each record, but not when it was sent."""

    PER_SECOND = 15

    def __init__(self, recorder: Recorder, topic: str, bootstrap: str) -> None:
        self._recorder = recorder
        self._topic = topic
        self._began = recorder.tick()
        self._said = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed when this is left
        arguments = ("--topic", topic, "--bootstrap-server", bootstrap, "--acks", "-1")
        self._process = subprocess.Popen(
            java_command(
                "org.apache.kafka.tools.VerifiableProducer", *arguments, "--throughput", str(self.PER_SECOND)
            ),
            stdout=self._said,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._said.close()

    def finish(self) -> None:
        """Let it send what it has, and note what it was told."""
        self._process.terminate()
        try:
            self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._recorder.complain("java", "it does not get rid of its records")
            return
        self._said.seek(0)
        for line in self._said:
            self._note(json.loads(line) if line.startswith("{") else {})

    def _note(self, event: dict[str, Any]) -> None:
        kind = event.get("name")
        if kind not in ("producer_send_success", "producer_send_error"):
            return
        is_acknowledged = kind == "producer_send_success"
        partitions = [event["partition"]] if is_acknowledged else range(PARTITIONS)
        self._recorder.history.sends.append(
            Send(
                "java",
                tuple(log_of(self._topic, partition) for partition in partitions),
                (Sent(number_in(self._topic, event["value"])),),
                began=self._began,
                ended=self._recorder.tick(),
                outcome=OperationOutcome.OK if is_acknowledged else OperationOutcome.UNKNOWN,
                base_offset=event["offset"] if is_acknowledged else NO_OFFSET,
                idempotent=False,
                attempts=2,
            )
        )
