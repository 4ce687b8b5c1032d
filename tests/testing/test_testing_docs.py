"""What docs/testing.md shows is there, and its stories are true."""

import re
from pathlib import Path

from penstock.testing import EmbeddedBroker, SimulatedCluster

PAGE = (Path(__file__).parents[2] / "docs" / "testing.md").read_text()


def test_every_name_that_the_page_uses_exists() -> None:
    with SimulatedCluster() as cluster:
        owners = {"cluster": cluster, "broker": EmbeddedBroker()}
        chains = set(re.findall(r"\b((?:cluster|broker)(?:\.[a-z_]+)+)", PAGE))
        assert len(chains) > 15
        for chain in sorted(chains):
            if chain == "broker.bootstrap_servers":
                continue  # of one that runs
            first, *names = chain.split(".")
            found = owners[first]
            for name in names:
                found = getattr(found, name)


def test_every_fault_is_on_the_page() -> None:
    with SimulatedCluster() as cluster:
        for owner in (cluster.broker, cluster.network):
            for name in vars(type(owner)):
                if not name.startswith("_") and name not in ("is_running", "bootstrap_servers"):
                    assert re.search(rf"\.{name}\b", PAGE), f"docs/testing.md does not know {name}"


def test_the_story_on_the_page_is_true() -> None:
    (code,) = (block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "def test_" in block)
    names: dict[str, object] = {}
    exec("from aiokafka import AIOKafkaProducer\n" + code, names)
    told = names["test_a_producer_outlives_a_crash"]
    assert callable(told)
    told()
