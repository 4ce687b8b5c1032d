"""One seed, one history: within a process, and in two processes that hash strings differently."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from penstock.client.client import Client
from penstock.sim import NodeCrashedError, Simulation
from tests.sim.stories import PATIENCE_S, as_client, make_topic, read, send

ROOT = Path(__file__).parents[2]

TELL = "import sys; from tests.sim.test_determinism import history_of; print(history_of(int(sys.argv[1])))"


def history_of(seed: int) -> str:
    """The hash of a run that has a bit of everything: faults of network, disk and clock, crashes of both kinds."""
    with Simulation(seed) as simulation:
        node = simulation.new_node(1)
        people = [simulation.new_outsider(f"client-{number}") for number in range(3)]
        network = simulation.network

        async def work(client: Client) -> None:
            await send(client, "orders", *(b"%d" % number for number in range(20)))
            await read(client, "orders")

        async def everybody() -> None:
            await asyncio.gather(*(as_client(simulation, someone, node, work) for someone in people))

        async def start() -> None:
            try:
                await node.start()
            except NodeCrashedError:
                await node.start()

        async def story() -> None:
            await start()
            await as_client(simulation, people[0], node, lambda client: make_topic(client, "orders"))
            crowd = asyncio.ensure_future(everybody())
            await asyncio.sleep(0.01)
            network.reset("client-0", "node-1")
            network.cut("client-1", "node-1")
            node.clock.jump(3_600_000)
            node.disk.faults.sync_delay_s = 0.01
            await asyncio.sleep(0.01)
            node.crash_process()
            await start()
            network.restore()
            await asyncio.sleep(0.05)
            node.crash_machine()
            await start()
            await crowd
            await node.stop()

        simulation.run(story(), seconds_max=PATIENCE_S)
        return simulation.kernel.history_hash


def test_two_runs_of_a_seed_are_one_history_in_one_process_and_in_two() -> None:
    hashes = {history_of(7), history_of(7)}
    for hash_seed in ("1", "2"):
        told = subprocess.run(
            [sys.executable, "-c", TELL, "7"],
            cwd=ROOT,
            env={
                **os.environ,
                "PYTHONHASHSEED": hash_seed,
                "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
            },
            capture_output=True,
            text=True,
            check=True,
        )
        hashes.add(told.stdout.strip())
    assert len(hashes) == 1


def test_another_seed_is_another_history() -> None:
    assert history_of(7) != history_of(8)
