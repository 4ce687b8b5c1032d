"""The broker of a simulated cluster, and what can happen to it."""

from penstock.sim import Node


class SimulatedBroker:
    """A broker on a machine of its own. Its disk outlives it."""

    def __init__(self, node: Node) -> None:
        self._node = node

    @property
    def bootstrap_servers(self) -> str:
        return self._node.address

    @property
    def is_running(self) -> bool:
        """Whether clients are answered."""
        return self._node.is_running

    async def start(self) -> None:
        """Start it on what its disk has; returns when clients are answered."""
        await self._node.start()

    async def stop(self) -> None:
        """Stop it cleanly."""
        await self._node.stop()

    async def restart(self) -> None:
        """Stop it cleanly and start it again."""
        await self.stop()
        await self.start()

    def kill(self, *, silently: bool = False) -> None:
        """As `kill -9`: what was written stays. Clients see their connections reset, or, silently, nothing at all."""
        self._node.crash_process(silently=silently)

    def cut_power(self) -> None:
        """The machine is off: what was not synced may be lost, in part; clients see nothing at all."""
        self._node.crash_machine()

    @property
    def disk_full(self) -> bool:
        """Whether nothing more can be written; may be set."""
        return self._node.disk.faults.full

    @disk_full.setter
    def disk_full(self, is_full: bool) -> None:
        self._node.disk.faults.full = is_full

    @property
    def sync_delay_s(self) -> float:
        """How long each sync of the disk takes; may be set."""
        return self._node.disk.faults.sync_delay_s

    @sync_delay_s.setter
    def sync_delay_s(self, delay_s: float) -> None:
        self._node.disk.faults.sync_delay_s = delay_s

    def fail_syncs(self) -> None:
        """Let the next sync fail: the log that was to be synced is offline until the broker is started again. Was it
        one of the broker's own files, the broker ends.
        """
        self._node.disk.faults.fail_syncs()

    def set_clock_ahead(self, milliseconds: int) -> None:
        """Set the machine's clock forward, or back (negative)."""
        self._node.clock.jump(milliseconds)
