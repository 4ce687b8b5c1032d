"""The processes around the story: a broker, and the generator that sends to it. Both live in sessions of their own, so
that Ctrl-C reaches the story alone, and it ends them in the right order."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

from penstock.base.errors import UserError

_STOP_TIMEOUT_S: Final = 30
_READY: Final = re.compile(r"ready on (\S+) \(.*cluster ([^,\s]+)")
_EXAMPLES: Final = Path(__file__).resolve().parents[1]


class Process:
    """A program whose lines are looked at as they come; what it writes to stderr goes to a file."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._log = log.open("ab")
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(_EXAMPLES), *_paths()])}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self._log, env=environment, start_new_session=True
        )
        assert self.process.stdout is not None
        self.output: IO[bytes] = self.process.stdout

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def stop(self) -> None:
        """Ask it to end, and insist if it does not."""
        if self.is_running:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._log.close()


class Broker(Process):
    """`penstock serve`, ready when this is made."""

    def __init__(self, *, listen: str, data: Path, log: Path) -> None:
        command = [sys.executable, "-m", "penstock", "serve", "--listen", listen, "--or-next-port"]
        super().__init__([*command, "--data-dir", str(data)], log)
        try:
            self.bootstrap_servers, self.cluster_id = self._wait(log)
        except BaseException:
            self.stop()
            raise
        # It is not read any more, and a full pipe would block the process.
        threading.Thread(target=self._drain, daemon=True).start()

    def _wait(self, log: Path) -> tuple[str, str]:
        for raw in self.output:
            line = raw.decode("utf-8", "replace").rstrip()
            print(line, flush=True)
            ready = _READY.search(line)
            if ready:
                return ready[1], ready[2]
        said = log.read_text(errors="replace").strip().splitlines()
        raise UserError(f"the broker did not start: {said[-1] if said else 'it said nothing'}")

    def _drain(self) -> None:
        for _ in self.output:
            pass


class Generator(Process):
    """`app_logs.generator`, with what it last said."""

    def __init__(
        self, *, bootstrap_servers: str, rate: float, duration_s: float | None, seed: int, log: Path
    ) -> None:
        command = [sys.executable, "-m", "app_logs.generator", "--bootstrap-servers", bootstrap_servers]
        command += ["--rate", str(rate), "--seed", str(seed)]
        super().__init__(command + (["--duration", str(duration_s)] if duration_s else []), log)
        self.told: dict[str, Any] = {"acknowledged": 0, "behind_ms": 0}
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def acknowledged(self) -> int:
        return int(self.told["acknowledged"])

    def stop(self) -> None:
        super().stop()
        self._reader.join(_STOP_TIMEOUT_S)  # its last line has the final count

    def _read(self) -> None:
        for line in self.output:
            self.told = json.loads(line)


def _paths() -> list[str]:
    given = os.environ.get("PYTHONPATH")
    return [given] if given else []
