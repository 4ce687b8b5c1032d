"""A member of a group with Java's consumer: Kafka's VerifiableConsumer, which says what it read and committed."""

import json
import subprocess
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from peers.kafka import java_command
from penstock.sim.checkers import Seen
from penstock.sim.checkers import SentMessage as Sent
from tests.chaos.cluster.consuming import GroupReader
from tests.chaos.cluster.recording import Recorder, number_in

TOOL = "org.apache.kafka.tools.VerifiableConsumer"
# A broker that is paused does not hang up: clients have to lose patience sooner than in 30 s.
_PROPERTIES = ("isolation.level=read_committed", "request.timeout.ms=5000", "default.api.timeout.ms=20000")


class JavaMember(GroupReader):
    """What it says is heard later than it happened: an event begins when the one before was said."""

    def __init__(self, recorder: Recorder, group: str, topic: str, bootstrap: str, *, protocol: str) -> None:
        super().__init__(recorder, f"{group}-member", group)
        self._topic = topic
        self._folder = tempfile.TemporaryDirectory(prefix="java-member-")
        properties = Path(self._folder.name) / "consumer.properties"
        properties.write_text("\n".join(_PROPERTIES))
        arguments = ["--topic", topic, "--group-id", group, "--bootstrap-server", bootstrap, "--verbose"]
        arguments += ["--group-protocol", protocol, "--command-config", str(properties)]
        self._command = java_command(TOOL, *arguments)
        self._process: subprocess.Popen[str] | None = None
        self._records: dict[tuple[str, int], list[Seen]] = defaultdict(list)
        self._before_ms = 0

    def stop(self) -> None:
        super().stop()
        if self._process is not None:
            self._process.terminate()

    def run(self) -> None:
        try:
            with (
                (Path(self._folder.name) / "errors").open("w+") as errors,
                subprocess.Popen(
                    self._command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True
                ) as self._process,
            ):
                if self._stopping.is_set():
                    self._process.terminate()
                assert self._process.stdout is not None
                for line in self._process.stdout:
                    if line.startswith("{"):
                        self._hear(json.loads(line))
                if not self._stopping.is_set():
                    errors.seek(0)
                    self._recorder.complain(self.name, f"it ended by itself:\n{errors.read()[-2000:]}")
        except Exception as error:
            self._recorder.complain(self.name, repr(error))
        finally:
            self._folder.cleanup()

    def _hear(self, event: dict[str, Any]) -> None:
        kind, said_ms = event["name"], event["timestamp"]
        began = self._recorder.tick_before(self._before_ms)
        if kind == "record_data":
            number = number_in(self._topic, event["value"])
            self._records[event["topic"], event["partition"]].append(Seen(event["offset"], Sent(number)))
            return  # it is one of several, and when it was read its poll says
        if kind in ("partitions_assigned", "partitions_revoked"):
            self._begin_session()
        elif kind == "records_consumed":
            ended = self._recorder.tick()
            for where, seen in self._records.items():
                self._note_poll(where, seen, began=began, ended=ended)
            self._records.clear()
        elif kind == "offsets_committed":
            ended = self._recorder.tick()
            for each in event["offsets"]:
                where = (each["topic"], each["partition"])
                self._note_commit(where, each["offset"], began=began, ended=ended, is_known=event["success"])
        self._before_ms = said_ms
