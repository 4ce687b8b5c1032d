"""`penstock cluster describe` and `upgrade`: the levels of features, on one broker."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.base.features import LevelRange
from penstock.cli.cluster_features import as_text
from penstock.cli.parsing import BOOTSTRAP_VARIABLE
from penstock.client.features import Feature
from penstock.testing import EmbeddedBroker
from tests.cli.running import Penstock

OLD = {"penstock.feature.levels.max": "penstock.version=1,transaction.version=1"}


@pytest.fixture
def upgraded(tmp_path: Path, offline: Penstock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Penstock]:
    """The command line beside a new program on what an older one left."""
    with EmbeddedBroker(data_dir=tmp_path / "data", settings=OLD):
        pass
    with EmbeddedBroker(data_dir=tmp_path / "data") as broker:
        monkeypatch.setenv(BOOTSTRAP_VARIABLE, broker.bootstrap_servers)
        yield offline


def test_levels_are_shown_then_raised(upgraded: Penstock):
    described = upgraded("cluster", "describe")
    assert described.lines[-7:] == [
        "FEATURE                LEVEL  SUPPORTED",
        "group.version              1        0-1",
        "penstock.peer.version      1        0-1",
        "penstock.version           1        1-2",
        "transaction.version        1        0-2",
        "",
        "levels can be raised: `penstock cluster upgrade`",
    ]
    preview = upgraded("cluster", "upgrade")
    assert preview.lines == [
        "penstock.version would be raised from 1 to 2",
        "transaction.version would be raised from 1 to 2",
    ]
    assert preview.code == 2
    assert "after which brokers of older versions cannot join; nothing was changed" in preview.err
    assert upgraded("cluster", "upgrade", "--json").document["done"] is False
    done = upgraded("cluster", "upgrade", "--yes", "--json").document
    assert done["raised"] == [
        {"name": "penstock.version", "from": 1, "to": 2},
        {"name": "transaction.version", "from": 1, "to": 2},
    ]
    assert upgraded("cluster", "upgrade", "--yes").lines == [
        "every feature is at the highest level that all brokers support"
    ]
    features = upgraded("cluster", "describe", "--json").document["features"]
    assert features[2] == {"name": "penstock.version", "level": 2, "supported": {"1": [1, 2]}}


def test_brokers_that_differ_are_named():
    lines = list(as_text([Feature("a.version", 1, {1: LevelRange(0, 2), 2: LevelRange(1, 1)})]))
    assert lines[1:] == ["a.version      1  0-2 by broker 1, 1 by broker 2"]
