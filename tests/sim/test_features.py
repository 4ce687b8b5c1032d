"""A feature level is raised while a broker that does not support it registers: one of the two is refused."""

import asyncio

from penstock.base.errors import Refusal, UserError
from penstock.base.features import TRANSACTION_VERSION
from penstock.cluster.features import Features, FeatureUpdate, UpgradeType
from penstock.sim import Node, Simulation
from penstock.sim.shared_store import SharedStore
from tests.sim.stories import PATIENCE_S

OLD = {"penstock.feature.levels.max": "transaction.version=1"}
SEEDS = range(1, 41)
# From the broker's registration in the store until the controller unfences it: 10 ms to 500 ms, mostly below this.
REGISTRATION_S = 0.1


async def update(simulation: Simulation, node: Node, level: int, kind: UpgradeType) -> Features | Refusal:
    assert node.broker is not None
    assert node.process is not None
    controller = node.broker.services.cluster.controller
    updates = {TRANSACTION_VERSION: FeatureUpdate(level, kind)}
    return await simulation.loop.spawn(node.process, controller.update_features(updates, validate_only=False))


def race(seed: int) -> str:
    """ "raised" if the older broker was refused, "joined" if the new level was."""
    with Simulation(seed) as simulation:
        store = SharedStore(simulation, session_timeout_ms=2_000)
        new = simulation.new_node(1, make_store=store.opener(1))
        old = simulation.new_node(2, settings=OLD, make_store=store.opener(2))
        raising: list[asyncio.Task[Features | Refusal]] = []

        async def raise_soon() -> Features | Refusal:
            await asyncio.sleep(simulation.kernel.random("raise").random() * REGISTRATION_S)
            return await update(simulation, new, 2, UpgradeType.UPGRADE)

        def see(path: str) -> None:
            if path == "/brokers/2" and not raising:
                raising.append(asyncio.ensure_future(raise_soon(), loop=simulation.loop))

        async def story() -> str:
            await new.start()
            await update(simulation, new, 1, UpgradeType.SAFE_DOWNGRADE)
            store.on_change(see)
            try:
                await old.start()
                refusal = ""
            except UserError as error:
                refusal = str(error)
            (task,) = raising
            outcome = await task
            assert new.broker is not None
            image = new.broker.services.cluster.image
            if isinstance(outcome, Refusal):
                assert outcome.message is not None
                assert outcome.message.endswith("Broker 2 only supports versions 0-1.")
                assert refusal == ""
                assert image.alive() == [1, 2]
                assert image.features.level(TRANSACTION_VERSION) == 1
                return "joined"
            assert (
                "transaction.version is finalised at level 2, and this broker only supports versions 0-1"
                in refusal
            )
            assert image.alive() == [1]
            assert image.features.level(TRANSACTION_VERSION) == 2
            return "raised"

        return simulation.run(story(), seconds_max=PATIENCE_S)


def test_a_level_is_raised_or_an_older_broker_joins_and_never_both() -> None:
    assert {race(seed) for seed in SEEDS} == {"raised", "joined"}
