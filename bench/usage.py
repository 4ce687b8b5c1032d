"""What a process has used: CPU time of all its threads, and memory."""

import psutil


class Usage:
    """A running process, seen from outside."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)

    def cpu_seconds(self) -> float:
        times = self._process.cpu_times()
        return times.user + times.system

    def resident_bytes(self) -> int:
        return self._process.memory_info().rss


def raise_open_files_limit() -> None:
    """For thousands of connections; children inherit it."""
    from penstock.world.real_limits import raise_open_files_limit as raise_limit

    raise_limit()
