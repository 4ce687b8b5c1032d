"""One life of an embedded broker: from its start to a clean stop, or to its death in the middle of whatever it did."""

import asyncio

from penstock.base.broker_settings import PENSTOCK_WORK_THREADS
from penstock.base.settings import Settings
from penstock.broker.broker import Broker
from penstock.broker.start import WorldParts, start_on
from penstock.testing.doors import FaultyLoop
from penstock.testing.faults import Faults
from penstock.testing.mortal import MortalDisk
from penstock.world.disk import Disk
from penstock.world.real_entropy import RealEntropy
from penstock.world.real_work import RealWork
from penstock.world.tasks import cancel_and_wait


class Life:
    """A running broker on the running loop."""

    def __init__(
        self, broker: Broker, disk: MortalDisk, loop: FaultyLoop, work: RealWork, faults: Faults
    ) -> None:
        self.broker = broker
        self._disk = disk
        self._loop = loop
        self._work = work
        self._faults = faults
        self._ending: asyncio.Task[None] | None = None
        broker.failure.add_done_callback(self._fail)

    @classmethod
    async def begin(cls, disk: Disk, settings: Settings, faults: Faults, *, log_dir: str) -> "Life":
        """Start a broker on a disk that may hold what an earlier life left."""
        mortal, loop = MortalDisk(disk, faults), FaultyLoop(faults)
        work: list[RealWork] = []

        def make_work() -> RealWork:
            work.append(RealWork(threads=settings[PENSTOCK_WORK_THREADS]))
            return work[0]

        faults.attach(asyncio.get_running_loop())
        parts = WorldParts(loop=loop, disk=mortal, entropy=RealEntropy(), make_work=make_work)
        try:
            broker = await start_on(parts, settings, log_dir=log_dir)
        except BaseException:
            faults.detach()
            raise
        return cls(broker, mortal, loop, work[0], faults)

    def _fail(self, _failure: "asyncio.Future[str]") -> None:
        """The data directory has failed: no request is answered any more, until the broker is stopped or killed."""
        self._ending = asyncio.get_running_loop().create_task(self.broker.abandon())

    async def stop(self) -> None:
        """End it cleanly."""
        self._faults.detach()
        await self.broker.stop()

    async def kill(self) -> None:
        """End it as kill -9 would: at once, with nothing written or said. The loop has to be the broker's own."""
        self._disk.die()
        self._faults.detach()
        self._faults.abort_all()
        self._loop.close_servers()
        asyncio.get_running_loop().set_exception_handler(
            lambda *_: None
        )  # errors of a killed broker do not matter
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        await cancel_and_wait(*others)
        await self._faults.settle()
        self._work.close()
        self._disk.let_go()
