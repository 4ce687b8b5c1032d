"""A real broker inside your tests: `with EmbeddedBroker() as broker: … broker.bootstrap_servers`."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.testing.embedded import EmbeddedBroker

__all__ = ["EmbeddedBroker"]


def __getattr__(name: str) -> Any:
    # Loaded when it is asked for: pytest imports this package for the plugin's sake in every run.
    if name != "EmbeddedBroker":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from penstock.testing.embedded import EmbeddedBroker

    return EmbeddedBroker
