"""The session states that a store reports."""

import asyncio

import pytest

from penstock.cluster.store_session import StoreSession
from penstock.sim import Simulation
from penstock.world.store import ConnectionLossError, SessionExpiredError, SessionState


def test_every_session_change_is_reported_once_and_expiry_is_the_last() -> None:
    heard: list[SessionState] = []

    async def story() -> None:
        session = StoreSession(simulation.new_outsider("process").loop)
        session.on_change(heard.append)
        with pytest.raises(ConnectionLossError):
            session.check()
        for move in (
            session.connected,
            session.connected,
            session.check,
            session.suspended,
            session.connected,
        ):
            move()
        session.end("too long unheard of")
        session.end("closed")
        session.connected()
        session.suspended()
        with pytest.raises(SessionExpiredError, match="too long unheard of"):
            session.check()
        await asyncio.sleep(1)  # of the simulation

    with Simulation(1) as simulation:
        simulation.run(story())
    assert heard == [
        SessionState.SUSPENDED,
        SessionState.CONNECTED,
        SessionState.SUSPENDED,
        SessionState.CONNECTED,
        SessionState.EXPIRED,
    ]
