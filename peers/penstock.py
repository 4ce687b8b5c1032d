"""Penstock as a user runs it: `python -m penstock serve` in a process of its own, on a real disk and port."""

import os
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from peers.process import WatchedProcess

SOURCE = Path(__file__).resolve().parent.parent / "src"
# The first listener is where clients connect.
READY = re.compile(
    r"ready on (?P<host>[^\s,]+):(?P<port>\d+)(,\S+)? \(node (?P<node>\d+), cluster (?P<cluster>[^,]+),"
)


class PenstockProcess:
    """A broker that can be stopped, killed and started again on the same data and the same port.

    `settings` are passed as `--set name=value`, and may be changed between two lives; `arguments` as they are. If
    `listen` is empty, the listeners are among the settings. `prefix` goes before the command, and `program` is what
    Python runs. `source` is the folder that Penstock is imported from, and may be changed between two starts, too.
    """

    def __init__(
        self,
        data: Path | None = None,
        *,
        settings: Mapping[str, object] | None = None,
        arguments: Sequence[str] = (),
        listen: str = "127.0.0.1:0",
        ready_timeout_s: float = 60,
        prefix: Sequence[str] = (),
        program: Sequence[str] = ("-m", "penstock"),
    ) -> None:
        self._own_data = tempfile.TemporaryDirectory(prefix="penstock-") if data is None else None
        self.data = Path(self._own_data.name) if self._own_data is not None else Path(data or "")
        self.bootstrap = ""
        self.cluster_id = ""
        self._listen = listen
        self.settings = dict(settings or {})
        self.source = SOURCE
        self._arguments = list(arguments)
        self._python = [*prefix, sys.executable, *program]
        self._ready_timeout_s = ready_timeout_s
        self._process: WatchedProcess | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if self._own_data is not None:
            self._own_data.cleanup()

    def start(self) -> None:
        assert not self.running, "already started"
        self._process = WatchedProcess(self._command(), environment=_environment(self.source))
        try:
            line = self._process.wait_for_line(READY.search, timeout_s=self._ready_timeout_s)
        except BaseException:
            self._process.kill()
            raise
        ready = READY.search(line)
        assert ready is not None
        self.bootstrap = f"{ready['host']}:{ready['port']}"
        self.cluster_id = ready["cluster"]
        # A restarted broker listens on the same port, where clients know it; the advertised port may differ.
        if self._listen.endswith(":0"):
            self._listen = self.bootstrap

    def stop(self, *, timeout_s: float = 30) -> int:
        """SIGTERM; the exit code. Does nothing to a broker that does not run."""
        return 0 if self._process is None else self._process.stop(timeout_s=timeout_s)

    def kill(self) -> int:
        """SIGKILL: no chance to write anything."""
        assert self._process is not None, "never started"
        return self._process.kill()

    def wait(self, *, timeout_s: float) -> int:
        """The exit code of a broker that ends by itself."""
        assert self._process is not None, "never started"
        return self._process.wait(timeout_s=timeout_s)

    def wait_for_line(self, pattern: str, *, timeout_s: float = 60) -> str:
        """The first line in which a regular expression is found."""
        assert self._process is not None, "never started"
        return self._process.wait_for_line(re.compile(pattern).search, timeout_s=timeout_s)

    def restart(self) -> None:
        self.stop()
        self.start()

    def pause(self) -> None:
        """SIGSTOP: it holds everything it has, and says nothing."""
        assert self._process is not None, "never started"
        self._process.pause()

    def resume(self) -> None:
        assert self._process is not None, "never started"
        self._process.resume()

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.exit_code is None

    @property
    def pid(self) -> int:
        assert self._process is not None, "never started"
        return self._process.pid

    @property
    def output(self) -> str:
        return "" if self._process is None else self._process.output

    def _command(self) -> list[str]:
        command = [*self._python, "serve", "--data-dir", str(self.data), *self._arguments]
        command += ["--listen", self._listen] if self._listen else []
        for name, value in self.settings.items():
            command += ["--set", f"{name}={value}"]
        return command


def _environment(source: Path) -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(source), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}
