"""`penstock topic config` and `broker config`: effective values, where each comes from, and changing them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.cli.parsing import BOOTSTRAP_VARIABLE
from penstock.testing import EmbeddedBroker
from tests.cli.running import Penstock


@pytest.fixture
def beside(offline: Penstock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Penstock]:
    """The command line beside a broker that was started with a setting of its own."""
    with EmbeddedBroker(settings={"log.retention.ms": "3600000"}) as broker:
        monkeypatch.setenv(BOOTSTRAP_VARIABLE, broker.bootstrap_servers)
        assert offline("topic", "create", "orders", "--config", "max.message.bytes=5000").code == 0
        yield offline


def test_every_config_of_a_topic_is_shown_with_its_source(beside: Penstock) -> None:
    shown = beside("topic", "config", "orders")
    assert shown.lines[0].split() == ["CONFIG", "VALUE", "SOURCE"]
    rows = {line.split()[0]: line.split()[1:] for line in shown.lines[1:]}
    assert rows["max.message.bytes"] == ["5000", "topic"]
    assert rows["retention.ms"] == ["3600000", "broker"]
    assert rows["cleanup.policy"] == ["delete", "default"]
    document = beside("topic", "config", "orders", "--json").document
    assert document["topic"] == "orders"
    assert {"name": "retention.ms", "value": "3600000", "source": "broker", "read_only": False} in document[
        "configs"
    ]


def test_single_configs_can_be_asked_for(beside: Penstock) -> None:
    shown = beside("topic", "config", "orders", "retention.ms", "cleanup.policy")
    assert [line.split()[0] for line in shown.lines[1:]] == ["cleanup.policy", "retention.ms"]
    typo = beside("topic", "config", "orders", "retention.m")
    assert (typo.code, typo.out) == (1, "")
    assert typo.err == "penstock: topic orders has no config 'retention.m'; did you mean 'retention.ms'?\n"


def test_configs_are_set_and_unset_and_shown_as_they_are_then(beside: Penstock) -> None:
    done = beside("topic", "config", "orders", "--set", "retention.ms=60000", "--unset", "max.message.bytes")
    assert done.code == 0, done.err
    assert [line.split() for line in done.lines[1:]] == [
        ["max.message.bytes", "1048588", "default"],
        ["retention.ms", "60000", "topic"],
    ]
    refused = beside("topic", "config", "orders", "--set", "retention.ms=soon")
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.endswith("(INVALID_CONFIG)\n")
    assert beside("topic", "config", "order").err == (
        "penstock: there is no topic 'order'; did you mean 'orders'?\n"
    )


def test_a_brokers_configs_are_shown_and_changed(beside: Penstock) -> None:
    shown = beside("broker", "config", 1)
    rows = {line.split()[0]: line.split()[1:] for line in shown.lines[1:]}
    assert rows["log.retention.ms"] == ["3600000", "broker"]
    unchangeable = beside("broker", "config", 1, "--set", "num.partitions=7")
    assert (unchangeable.code, unchangeable.out) == (1, "")
    assert unchangeable.err.count("\n") == 1
    assert beside("broker", "config", 9).err == "penstock: there is no broker 9; the cluster has 1\n"
