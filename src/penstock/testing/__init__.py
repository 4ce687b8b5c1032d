"""A real broker inside your tests: `with EmbeddedBroker() as broker: … broker.bootstrap_servers`."""

from penstock.testing.embedded import EmbeddedBroker

__all__ = ["EmbeddedBroker"]
