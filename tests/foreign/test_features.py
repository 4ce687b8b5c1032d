"""kafka-features against Penstock, and what Apache Kafka answers to the same updates. Each tool starts a JVM."""

import re
from collections.abc import Iterator

import pytest

from peers.kafka import FEATURES, run_tool
from peers.penstock import PenstockProcess
from penstock.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.foreign.wire_peer import Pair

pytestmark = [pytest.mark.foreign, pytest.mark.xdist_group("kafka")]

UPGRADE, SAFE, UNSAFE = 1, 2, 3


@pytest.fixture(scope="module")
def penstock(needs_kafka: None) -> Iterator[PenstockProcess]:
    """Of its own: levels are the whole cluster's."""
    with PenstockProcess() as broker:
        yield broker


def run(broker: PenstockProcess, *arguments: str, fails: bool = False) -> str:
    done = run_tool(FEATURES, "--bootstrap-server", broker.bootstrap, *arguments, check=False)
    assert done.returncode == (1 if fails else 0), done.stdout + done.stderr
    return str(done.stdout)


def levels(broker: PenstockProcess) -> dict[str, tuple[str, str, str]]:
    """By feature: lowest and highest supported level, and the finalised one."""
    pattern = r"Feature: (\S+)\s+SupportedMinVersion: (\S+)\s+SupportedMaxVersion: (\S+)\s+FinalizedVersionLevel: (\S+)"
    return {
        name: (low, high, level) for name, low, high, level in re.findall(pattern, run(broker, "describe"))
    }


def test_kafka_features(penstock: PenstockProcess) -> None:
    newest = {
        "group.version": ("0", "1", "1"),
        "penstock.peer.version": ("0", "1", "1"),
        "penstock.version": ("1", "2", "2"),
        "transaction.version": ("0", "2", "2"),
    }
    assert levels(penstock) == newest

    lower = ("downgrade", "--feature", "transaction.version=1", "--feature", "penstock.version=1")
    assert "can be downgraded to 1" in run(penstock, *lower, "--dry-run")
    assert "transaction.version was downgraded to 1." in run(penstock, *lower)
    assert "group.version was disabled." in run(penstock, "disable", "--feature", "group.version")
    assert {name: level for name, (_, _, level) in levels(penstock).items()} == {
        "group.version": "0",
        "penstock.peer.version": "1",
        "penstock.version": "1",
        "transaction.version": "1",
    }

    refused = run(penstock, "upgrade", "--feature", "transaction.version=3", fails=True)
    assert "Broker 1 only supports versions 0-2" in refused
    higher = [part for name, (_, high, _) in newest.items() for part in ("--feature", f"{name}={high}")]
    assert "penstock.version was upgraded to 2." in run(penstock, "upgrade", *higher)
    assert levels(penstock) == newest


@pytest.mark.parametrize(
    ("version", "update", "fields"),
    [
        (version, update, fields)
        for version in (0, 1, 2)
        for update, fields in [
            (("transaction.version", 9, UPGRADE), {}),
            (("transaction.version", 1, UPGRADE), {}),
            (("transaction.version", 0, UPGRADE), {}),
            (("transaction.version", -1, UPGRADE), {}),
            (("transaction.version", 2, UPGRADE), {}),
            (("nobody.version", 1, UPGRADE), {}),
        ]
    ]
    + [
        (version, update, fields)
        for version in (1, 2)
        for update, fields in [
            (("transaction.version", 1, 0), {}),
            (("transaction.version", 1, 7), {}),
            (("transaction.version", 2, SAFE), {}),
            (("transaction.version", 1, SAFE), {"validate_only": True}),
            (("group.version", 0, UNSAFE), {"validate_only": True}),
        ]
    ],
)
def test_updates_are_answered_as_kafka_answers_them(
    pair: Pair, version: int, update: tuple[str, int, int], fields: dict[str, bool]
) -> None:
    """Which of them are refused and with which code; whom the words name is each one's own."""
    feature, level, kind = update
    key = FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=kind)
    request = UpdateFeaturesRequest(feature_updates=[key], **fields)
    expected, got = (peer.ask(request, version) for peer in (pair.kafka, pair.broker))
    assert got.error_code == expected.error_code
    assert [(one.feature, one.error_code) for one in got.results] == [
        (one.feature, one.error_code) for one in expected.results
    ]
    assert (got.error_message or "").partition("Broker")[0].strip() == (
        (expected.error_message or "").partition("Local controller")[0].strip()
    )
