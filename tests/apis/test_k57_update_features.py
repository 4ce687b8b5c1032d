"""UpdateFeatures on a standalone broker: finalised levels are advertised, stored, and take effect."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.base.errors import ErrorCode, UserError
from penstock.client.blocking import BlockingClient
from penstock.client.client import Client
from penstock.client.producer import NewRecord
from penstock.client.transactional_producer import TransactionalProducer
from penstock.testing import EmbeddedBroker
from penstock.wire.messages.api_versions import ApiVersionsRequest
from penstock.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from penstock.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from penstock.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.apis.requests import values_in
from tests.apis.transactional import GROUP, find_coordinator
from tests.apis.transactional import TransactionalProducer as Transactions
from tests.raw_client import RawClient

UPGRADE, SAFE, UNSAFE = 1, 2, 3
GROUP_VERSION, PEER_VERSION, PENSTOCK_VERSION, TRANSACTION_VERSION = (
    "group.version",
    "penstock.peer.version",
    "penstock.version",
    "transaction.version",
)
NEWEST = {GROUP_VERSION: 1, PEER_VERSION: 1, PENSTOCK_VERSION: 2, TRANSACTION_VERSION: 2}


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    """Of its own for each: levels are the whole cluster's."""
    with EmbeddedBroker() as broker:
        yield broker


def update(client: RawClient, *changes: tuple[str, int, int], version: int = 2, **more: Any) -> Any:
    keys = [
        FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
        for name, level, kind in changes
    ]
    return client.ask(UpdateFeaturesRequest(feature_updates=keys, **more), version)


def finalised(client: RawClient) -> tuple[int, dict[str, int]]:
    answer = client.ask(ApiVersionsRequest(client_software_name="raw", client_software_version="1"), 4)
    return answer.finalized_features_epoch, {
        one.name: one.max_version_level for one in answer.finalized_features
    }


def heartbeat(client: RawClient) -> int:
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        rebalance_timeout_ms=1000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    return int(client.ask(request, 1).error_code)


@pytest.mark.parametrize("version", [1, 2])
def test_a_changed_level_is_advertised_with_a_new_epoch(client: RawClient, version: int):
    assert finalised(client) == (1, NEWEST)
    answer = update(client, (TRANSACTION_VERSION, 1, SAFE), version=version)
    assert answer.error_code == 0
    assert [one.feature for one in answer.results] == ([TRANSACTION_VERSION] if version == 1 else [])
    assert finalised(client) == (2, {**NEWEST, TRANSACTION_VERSION: 1})
    assert update(client, (TRANSACTION_VERSION, 2, UPGRADE), version=version).error_code == 0
    assert finalised(client) == (3, NEWEST)


def test_the_oldest_version_says_whether_lowering_is_allowed(client: RawClient):
    def lower(*, allowed: bool) -> Any:
        key = FeatureUpdateKey(feature=TRANSACTION_VERSION, max_version_level=1, allow_downgrade=allowed)
        return client.ask(UpdateFeaturesRequest(feature_updates=[key]), 0)

    assert lower(allowed=False).error_code == ErrorCode.INVALID_UPDATE_VERSION
    answer = lower(allowed=True)
    assert (answer.error_code, len(answer.results)) == (0, 1)
    assert finalised(client)[1][TRANSACTION_VERSION] == 1
    assert lower(allowed=True).error_code == 0, "it is so already"
    assert update(client, (TRANSACTION_VERSION, 2, UPGRADE), version=0).error_code == 0
    assert finalised(client)[1] == NEWEST


def test_validate_only_changes_no_level(client: RawClient):
    assert update(client, (TRANSACTION_VERSION, 1, UNSAFE), validate_only=True).error_code == 0
    refused = update(client, (TRANSACTION_VERSION, 3, UPGRADE), validate_only=True)
    assert refused.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert finalised(client) == (1, NEWEST)


def test_all_updates_are_made_or_none(client: RawClient):
    refused = update(client, (TRANSACTION_VERSION, 1, SAFE), ("nobody.version", 1, UPGRADE), version=1)
    assert refused.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert "feature nobody.version. Broker 1 does not support this feature" in refused.error_message
    assert refused.results == []
    assert finalised(client) == (1, NEWEST)


def test_an_update_to_the_same_level_keeps_the_epoch(client: RawClient):
    assert update(client, (TRANSACTION_VERSION, 2, SAFE), (GROUP_VERSION, 1, UPGRADE)).error_code == 0
    assert update(client).error_code == 0
    assert finalised(client) == (1, NEWEST)


def test_levels_survive_a_restart(tmp_path: Path):
    with EmbeddedBroker(data_dir=tmp_path) as broker:
        with RawClient(broker.bootstrap_servers) as client:
            assert update(client, (TRANSACTION_VERSION, 0, SAFE)).error_code == 0
        broker.kill()
        broker.restart()
        with RawClient(broker.bootstrap_servers) as client:
            assert finalised(client) == (2, {GROUP_VERSION: 1, PEER_VERSION: 1, PENSTOCK_VERSION: 2})


def test_without_group_version_there_are_no_groups_of_the_consumer_protocol(client: RawClient):
    find_coordinator(client, "g", GROUP)
    assert update(client, (GROUP_VERSION, 0, SAFE)).error_code == 0
    assert heartbeat(client) == ErrorCode.UNSUPPORTED_VERSION
    described = client.ask(ConsumerGroupDescribeRequest(group_ids=["g", "h"]), 1).groups
    assert [(one.group_id, one.error_code) for one in described] == [
        ("g", ErrorCode.UNSUPPORTED_VERSION),
        ("h", ErrorCode.UNSUPPORTED_VERSION),
    ]
    assert update(client, (GROUP_VERSION, 1, UPGRADE)).error_code == 0
    assert heartbeat(client) == 0


@pytest.mark.parametrize(
    ("level", "written", "new_epochs"), [(0, {0}, False), (1, {1}, False), (2, {1}, True)]
)
def test_transactions_are_of_the_finalised_level(level: int, written: set[int], new_epochs: bool):
    """The records of their state, and whether a client that looks has each transaction end with a new epoch."""

    async def transact(client: Client) -> bool:
        producer = TransactionalProducer(client, "billing")
        await producer.start()
        before = producer.producer_id, producer.producer_epoch
        for _ in range(2):
            producer.begin()
            await producer.send("t", [NewRecord(None, b"x")])
            await producer.commit()
        return (producer.producer_id, producer.producer_epoch) != before

    with EmbeddedBroker(settings={"transaction.state.log.num.partitions": 1}) as broker:
        with RawClient(broker.bootstrap_servers) as client:
            client.create_topic("t")
            assert update(client, (TRANSACTION_VERSION, level, SAFE)).error_code == 0
            with BlockingClient(broker.bootstrap_servers) as blocking:
                assert blocking.run(transact(blocking.client)) == new_epochs
            values = values_in(client.fetch("__transaction_state", 0).records)
            assert {int.from_bytes(value[:2]) for value in values if value} == written
        broker.kill()
        broker.restart()  # what was written is read again, whichever form it has
        with BlockingClient(broker.bootstrap_servers) as blocking:
            assert blocking.run(transact(blocking.client)) == new_epochs


def test_a_client_that_uses_version_2_requests_at_level_0_loses_nothing(client: RawClient):
    client.create_topic("t")
    assert update(client, (TRANSACTION_VERSION, 0, SAFE)).error_code == 0
    producer = Transactions(client)
    assert producer.send("t").error_code == 0  # Produce v12: the leader adds the partition
    producer.finish(commit=True)  # EndTxn v5
    assert producer.epoch == 1


def test_raising_penstock_version_keeps_older_versions_from_opening_the_data(tmp_path: Path):
    old = {"penstock.feature.levels.max": "penstock.version=1"}
    with (
        EmbeddedBroker(data_dir=tmp_path, settings=old) as broker,
        RawClient(broker.bootstrap_servers) as client,
    ):
        assert finalised(client) == (1, {**NEWEST, PENSTOCK_VERSION: 1})
        refused = update(client, (PENSTOCK_VERSION, 2, UPGRADE))
        assert "Broker 1 only supports versions 1" in refused.error_message
    for _ in range(2):  # the new program reads what the old one wrote, and the old one what the new one did
        with EmbeddedBroker(data_dir=tmp_path) as broker:
            pass
        with EmbeddedBroker(data_dir=tmp_path, settings=old) as broker:
            pass
    with EmbeddedBroker(data_dir=tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
        assert finalised(client) == (1, {**NEWEST, PENSTOCK_VERSION: 1}), "a restart does not raise it"
        assert update(client, (PENSTOCK_VERSION, 2, UPGRADE)).error_code == 0
    with pytest.raises(UserError, match=r"written by a newer version: penstock\.version 2 .* is needed"):
        EmbeddedBroker(data_dir=tmp_path, settings=old).start()
    with EmbeddedBroker(data_dir=tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
        assert update(client, (PENSTOCK_VERSION, 1, SAFE)).error_code == 0
    with EmbeddedBroker(data_dir=tmp_path, settings=old):
        pass


def test_a_version_that_does_not_support_a_finalised_level_exits_with_an_error_and_changes_nothing(
    tmp_path: Path,
):
    with EmbeddedBroker(data_dir=tmp_path):
        written = (tmp_path / "meta.properties").read_text().splitlines()
        assert "penstock.data.version=2" in written, "a new directory is marked at its first start"
    older = EmbeddedBroker(
        data_dir=tmp_path, settings={"penstock.feature.levels.max": "transaction.version=1"}
    )
    for _ in range(2):
        with pytest.raises(
            UserError, match=r"transaction\.version is finalised at level 2, and this broker only"
        ):
            older.start()
    with EmbeddedBroker(data_dir=tmp_path) as broker:
        assert broker._life is not None
        assert broker._life.broker._directory.was_closed_cleanly
