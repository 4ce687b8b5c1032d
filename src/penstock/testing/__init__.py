"""A real broker inside your tests: `with EmbeddedBroker() as broker: … broker.bootstrap_servers`.

`SimulatedCluster` is the same broker in a simulated world, for asyncio code: see `penstock.testing.simulated`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.testing.embedded import EmbeddedBroker
    from penstock.testing.simulated import SimulatedCluster

__all__ = ["EmbeddedBroker", "SimulatedCluster"]


def __getattr__(name: str) -> Any:
    # Loaded when it is asked for: pytest imports this package for the plugin's sake in every run.
    if name == "EmbeddedBroker":
        from penstock.testing.embedded import EmbeddedBroker

        return EmbeddedBroker
    if name == "SimulatedCluster":
        from penstock.testing.simulated import SimulatedCluster

        return SimulatedCluster
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
