"""A rolling upgrade of three broker processes: one after the other is restarted with a newer program under load.

The older program is this one, told by a setting to support no more than older levels.
"""

import threading
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient

from peers.cluster import PenstockCluster
from peers.penstock import PenstockProcess
from peers.process import ProcessEndedError
from penstock.base.errors import ErrorCode
from penstock.cli.main import main
from penstock.wire.messages.api_versions import ApiVersionsRequest
from penstock.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.cluster.driving import Writer, create, isr, read_all, until
from tests.raw_client import RawClient

pytestmark = pytest.mark.foreign

LEVELS_MAX = "penstock.feature.levels.max"
OLD = {LEVELS_MAX: "penstock.version=1,transaction.version=1"}
SAME = {"group.version": 1, "penstock.peer.version": 1}
BEFORE = {**SAME, "penstock.version": 1, "transaction.version": 1}
AFTER = {**SAME, "penstock.version": 2, "transaction.version": 2}


@pytest.fixture
def cluster(needs_zookeeper: None) -> Iterator[PenstockCluster]:
    with PenstockCluster(settings={"penstock.balance.enable": "false", **OLD}) as cluster:
        yield cluster


class Load:
    """Writes on its own thread, a little at a time, until the block ends."""

    def __init__(self, cluster: PenstockCluster, topic: str) -> None:
        self.writer = Writer(cluster, topic, **{"enable.idempotence": True})
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load")

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()
        self.writer.flush()

    def _run(self) -> None:
        while not self._stopped.wait(0.01):
            self.writer.send(1)


def levels(broker: PenstockProcess) -> dict[str, int]:
    """What this broker says is finalised."""
    with RawClient(broker.bootstrap) as client:
        answer = client.ask(ApiVersionsRequest(client_software_name="tests", client_software_version="1"), 4)
        return {each.name: each.max_version_level for each in answer.finalized_features}


def refusal_to_raise(broker: PenstockProcess, *, version: int) -> str:
    """What comes of asking this broker, which may not be the controller."""
    update = FeatureUpdateKey(feature="penstock.version", max_version_level=2)
    answers = []

    def is_answered() -> bool:
        with RawClient(broker.bootstrap) as client:
            answers.append(client.ask(UpdateFeaturesRequest(feature_updates=[update]), version))
        return answers[-1].error_code != ErrorCode.NOT_CONTROLLER  # a new one is just being elected

    until(is_answered)
    assert answers[-1].error_code == ErrorCode.INVALID_UPDATE_VERSION
    return str(answers[-1].error_message)


def test_a_cluster_is_upgraded_one_broker_at_a_time_while_it_is_written_to(
    cluster: PenstockCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    def upgrade(*more: str, expected: int = 0) -> str:
        code = main(["cluster", "upgrade", "-b", cluster.bootstrap, *more])
        said = capsys.readouterr()
        assert code == expected, said
        return said.out

    def old_ones_named(message: str) -> set[int]:
        return {each for each in cluster.brokers if f"Broker {each} only supports versions 1" in message}

    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    create(admin, "written", min_insync_replicas="2")
    assert [levels(broker) for broker in cluster.brokers.values()] == [BEFORE] * 3
    assert "every feature is at the highest level" in upgrade()

    with Load(cluster, "written") as load:
        for node_id, broker in cluster.brokers.items():
            for version, asked in enumerate(cluster.brokers.values()):
                assert old_ones_named(refusal_to_raise(asked, version=version)) == set(range(node_id, 4))
            broker.stop()
            del broker.settings[LEVELS_MAX]
            broker.start()
            until(lambda: isr(admin, "written") == {1, 2, 3})
            if node_id == 1:
                assert "penstock.version stops below 2: 1-2 by broker 1, 1 by broker 2" in upgrade("--yes")
        assert [levels(broker) for broker in cluster.brokers.values()] == [BEFORE] * 3

        assert "penstock.version would be raised from 1 to 2" in upgrade(expected=2)
        assert levels(cluster.brokers[1]) == BEFORE, "it was only shown"
        assert "transaction.version was raised from 1 to 2" in upgrade("--yes")
        for broker in cluster.brokers.values():
            until(lambda broker=broker: levels(broker) == AFTER)
            assert "penstock.data.version=2" in (broker.data / "meta.properties").read_text().splitlines()

    assert load.writer.errors == []
    seen = read_all(cluster, "written", load.writer.sent)
    assert seen == dict.fromkeys(range(load.writer.sent), 1), "everything once"

    # From now on an older program is kept off, and its attempt costs nothing.
    last = cluster.brokers[3]
    last.stop()
    last.settings[LEVELS_MAX] = "transaction.version=1"
    with pytest.raises(
        ProcessEndedError, match=r"transaction\.version is finalised at level 2, and this broker"
    ):
        last.start()
    del last.settings[LEVELS_MAX]
    last.start()
    until(lambda: isr(admin, "written") == {1, 2, 3})
