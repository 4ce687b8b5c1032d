"""The pytest plugin, found by pytest itself once penstock is installed.

`penstock_broker` is one broker for the whole test session, in memory, started by the first test that asks for it.
Use topic names of your own in each test, or a broker of your own: `with EmbeddedBroker() as broker: …`.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from penstock.testing.embedded import EmbeddedBroker


@pytest.fixture(scope="session")
def penstock_broker() -> "Iterator[EmbeddedBroker]":
    """A running broker; clients connect to `penstock_broker.bootstrap_servers`."""
    from penstock.testing.embedded import EmbeddedBroker  # loaded only by who uses it

    with EmbeddedBroker() as broker:
        yield broker
