"""The pytest plugin, found by pytest itself once penstock is installed.

- `penstock_broker`: one broker for the whole session, in memory, started by the first test that asks for it. After each
  test that used it its faults are cleared, and it is started again if the test killed it.
- `penstock_fresh_broker`: a broker of its own for the test.
- `penstock_new_broker` makes brokers for the test, as many as it wants, which know nothing of each other:
  `penstock_new_broker(settings={...}, data_dir=tmp_path, port=9092)`.
- `penstock_settings`: the settings of the first two, none. Define your own in conftest.py, of scope "session".

On `penstock_broker` use topic names of your own in each test: what others sent stays there.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

if TYPE_CHECKING:
    from penstock.testing.embedded import EmbeddedBroker

NewBroker: TypeAlias = "Callable[..., EmbeddedBroker]"

_SESSION_BROKER = "penstock_broker"
_BROKERS = pytest.StashKey["list[EmbeddedBroker]"]()


@pytest.fixture(scope="session")
def penstock_settings() -> dict[str, Any]:
    """Settings of `penstock_broker` and `penstock_fresh_broker`, by name."""
    return {}


@pytest.fixture(scope="session")
def penstock_broker(
    request: pytest.FixtureRequest, penstock_settings: dict[str, Any]
) -> "Iterator[EmbeddedBroker]":
    """A running broker; clients connect to `penstock_broker.bootstrap_servers`."""
    from penstock.testing.embedded import EmbeddedBroker  # loaded only by who uses it

    with EmbeddedBroker(settings=penstock_settings) as broker:
        request.config.stash[_BROKERS] = [broker]
        yield broker
        request.config.stash[_BROKERS] = []


@pytest.fixture
def penstock_fresh_broker(penstock_settings: dict[str, Any]) -> "Iterator[EmbeddedBroker]":
    """A running broker that no other test uses."""
    from penstock.testing.embedded import EmbeddedBroker

    with EmbeddedBroker(settings=penstock_settings) as broker:
        yield broker


@pytest.fixture
def penstock_new_broker() -> "Iterator[NewBroker]":
    """Starts a broker, with settings, a directory or a port if they are given; all are stopped after the test."""
    from penstock.testing.embedded import EmbeddedBroker

    with ExitStack() as stack:

        def new_broker(
            *, settings: dict[str, Any] | None = None, data_dir: str | Path | None = None, port: int = 0
        ) -> EmbeddedBroker:
            return stack.enter_context(EmbeddedBroker(settings=settings, data_dir=data_dir, port=port))

        yield new_broker


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Leave the session's broker as the next test expects it."""
    if _SESSION_BROKER not in getattr(item, "fixturenames", ()):
        return
    for broker in item.config.stash.get(_BROKERS, []):
        broker.faults.clear()
        if not broker.is_running:
            broker.restart()
