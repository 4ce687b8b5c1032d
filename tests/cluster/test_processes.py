"""Three broker processes, a real ZooKeeper, and librdkafka: the guarantees of a cluster while its processes die.

One cluster serves the module; a test leaves it as it found it, with all brokers running.
"""

import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ElectionType, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    NewPartitions,
)
from kazoo.client import KazooClient

from peers.cluster import PenstockCluster, controller_of
from peers.kafka import run_tool
from peers.penstock import PenstockProcess
from peers.process import ProcessEndedError
from penstock.base.errors import ErrorCode
from penstock.base.ids import CONSUMER_OFFSETS
from penstock.cli.main import main
from penstock.core.coordinator_shard import partition_for
from penstock.wire.messages.delete_topics import DeleteTopicsRequest
from penstock.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from penstock.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.cluster.driving import (
    PATIENCE_S,
    REASSIGN_PARTITIONS,
    Writer,
    change_broker_config,
    change_topic_config,
    create,
    isr,
    leader,
    metadata,
    metadata_at,
    read_all,
    topic_config,
    until,
    watermarks,
)
from tests.raw_client import RawClient, batch_of

pytestmark = pytest.mark.foreign


@pytest.fixture(scope="module")
def cluster(needs_zookeeper: None) -> Iterator[PenstockCluster]:
    # Who plans moves by hand has no use for a balancer that undoes them.
    settings = {
        "group.initial.rebalance.delay.ms": 0,
        "penstock.balance.enable": "false",
        "penstock.shutdown.notice.ms": 1000,  # one test asks meanwhile, on a machine that may be busy
    }
    with PenstockCluster(settings=settings) as cluster:
        yield cluster


def test_any_broker_accepts_metadata_changes_and_all_brokers_get_them(cluster, topic):
    brokers = list(cluster.brokers.values())
    for number, broker in enumerate(brokers):
        each = AdminClient({"bootstrap.servers": broker.bootstrap})
        create(each, f"{topic}-{number}", partitions=3, replicas=2)
        each.create_partitions([NewPartitions(f"{topic}-{number}", 4)])[f"{topic}-{number}"].result(
            PATIENCE_S
        )
    for broker in brokers:
        until(
            lambda at=broker: all(
                len(found.partitions) == 4
                for name, found in metadata_at(at).topics.items()
                if name.startswith(topic)
            )
        )
        seen = metadata_at(broker)
        assert sorted(seen.brokers) == [1, 2, 3]
        assert seen.controller_id in (1, 2, 3)
        assert len([name for name in seen.topics if name.startswith(topic)]) == 3


def test_any_broker_asks_the_controller_for_clients_and_waits_for_the_next_one_when_it_dies(
    cluster, admin, topic
):
    for node_id, broker in cluster.brokers.items():
        with RawClient(broker.bootstrap) as raw:
            assert raw.ask(MetadataRequest(topics=[]), 12).controller_id == node_id
            # An old version says in another field what is to be deleted.
            create(admin, f"{topic}-old")
            deleting = DeleteTopicsRequest(topic_names=[f"{topic}-old"], timeout_ms=PATIENCE_S * 1000)
            assert [each.error_code for each in raw.ask(deleting, 4).responses] == [0]
    died = controller_of(cluster.bootstrap)
    others = [broker for node_id, broker in cluster.brokers.items() if node_id != died]
    clients = [AdminClient({"bootstrap.servers": broker.bootstrap}) for broker in others]
    for client in clients:
        metadata(client)
    cluster.brokers[died].kill()
    for number, client in enumerate(clients):
        create(client, f"{topic}-{number}", replicas=2)
    assert controller_of(others[0].bootstrap) != died
    cluster.brokers[died].start()


def test_nothing_acknowledged_is_lost_or_doubled_when_each_broker_dies_in_turn(cluster, admin, topic):
    create(admin, topic, min_insync_replicas="2")
    writer = Writer(cluster, topic, **{"enable.idempotence": True})
    for node_id, broker in cluster.brokers.items():
        writer.send(500)
        broker.kill()
        until(lambda gone=node_id: leader(admin, topic) not in (-1, gone))
        writer.send(500)
        broker.start()
        until(lambda: isr(admin, topic) == {1, 2, 3})
    writer.flush()
    assert not writer.errors
    assert len(writer.acknowledged) == writer.sent
    assert read_all(cluster, topic, writer.sent) == Counter(range(writer.sent))


def test_below_min_insync_replicas_nothing_is_acknowledged_and_fetches_continue(
    cluster, admin, topic, capsys
):
    create(admin, topic, min_insync_replicas="2")
    writer = Writer(cluster, topic, **{"message.timeout.ms": 3_000})
    writer.send(100)
    writer.flush()
    assert len(writer.acknowledged) == 100
    for node_id in (2, 3):
        cluster.brokers[node_id].kill()
    until(lambda: leader(admin, topic) == 1 and isr(admin, topic) == {1})
    # Brokers that have just gone are still named to clients; what the others have can be told all the same.
    assert main(["topic", "describe", topic, "-b", cluster.bootstrap]) == 0
    assert "eligible" in capsys.readouterr().out.lower()
    writer.send(10)
    writer.flush()
    assert len(writer.acknowledged) == 100
    assert len(writer.errors) == 10
    assert read_all(cluster, topic, 100) == Counter(range(100))
    for node_id in (2, 3):
        cluster.brokers[node_id].start()
    until(lambda: isr(admin, topic) == {1, 2, 3})
    later = Writer(cluster, topic)
    later.send(10)
    later.flush()
    assert len(later.acknowledged) == 10


def test_a_replica_that_left_the_isr_below_min_isr_is_in_the_elr_until_min_isr_is_lowered(
    cluster, admin, topic, capsys
):
    create(admin, topic, min_insync_replicas="2")
    writer = Writer(cluster, topic)
    writer.send(10)
    writer.flush()
    for node_id in (2, 3):
        cluster.brokers[node_id].stop()

    def shown() -> tuple[list[int], list[int]]:
        assert main(["cluster", "describe", "-b", cluster.brokers[1].bootstrap, "--json"]) == 0
        lacking = json.loads(capsys.readouterr().out)["under_replicated"]
        (found,) = [each for each in lacking if each["topic"] == topic]
        return found["isr"], found["elr"]

    until(lambda: shown() == ([1], [3]))
    # After a restart the last member of the ISR serves what was committed, without another replica to ask.
    cluster.brokers[1].stop()
    cluster.brokers[1].start()
    assert read_all(cluster, topic, 10) == Counter(range(10))
    assert shown() == ([1], [3])
    change_topic_config(admin, topic, "min.insync.replicas", "1")
    until(lambda: shown() == ([1], []))
    writer.send(10)
    writer.flush()
    assert len(writer.acknowledged) == 20
    for node_id in (2, 3):
        cluster.brokers[node_id].start()
    until(lambda: isr(admin, topic) == {1, 2, 3})


def test_deleted_records_stay_deleted_on_the_next_leader(cluster, admin, topic):
    create(admin, topic)
    writer = Writer(cluster, topic)
    writer.send(10)
    writer.flush()
    deleted = admin.delete_records([TopicPartition(topic, 0, 7)])
    (result,) = [each.result(PATIENCE_S) for each in deleted.values()]
    assert result.low_watermark == 7
    # The leader dies at once: each follower must have the new log start offset already.
    led = leader(admin, topic)
    cluster.brokers[led].kill()
    until(lambda: leader(admin, topic) not in (-1, led))
    assert watermarks(cluster, topic) == (7, 10)
    cluster.brokers[led].start()
    until(lambda: isr(admin, topic) == {1, 2, 3})


def test_a_topic_that_is_created_while_a_broker_is_away_gets_its_replica_when_it_returns(
    cluster, admin, topic
):
    create(admin, f"{topic}-before")
    cluster.brokers[3].kill()
    until(lambda: isr(admin, f"{topic}-before") == {1, 2})
    create(admin, topic, partitions=3)
    for partition in range(3):
        assert leader(admin, topic, partition) in (1, 2)
        assert isr(admin, topic, partition) == {1, 2}
    writer = Writer(cluster, topic)
    writer.send(100)
    writer.flush()
    assert len(writer.acknowledged) == 100
    cluster.brokers[3].start()
    until(lambda: all(isr(admin, topic, partition) == {1, 2, 3} for partition in range(3)))


def test_a_controlled_shutdown_transfers_leadership_first(cluster, admin, topic):
    create(admin, topic, partitions=3)
    writer = Writer(cluster, topic)
    writer.send(300)
    cluster.brokers[1].stop()
    writer.send(300)
    writer.flush()
    assert not writer.errors
    assert 1 not in {leader(admin, topic, partition) for partition in range(3)}
    cluster.brokers[1].start()
    until(lambda: all(isr(admin, topic, partition) == {1, 2, 3} for partition in range(3)))


def test_a_produce_request_to_a_stopping_broker_gets_the_new_leader(cluster, admin, topic):
    create(admin, topic)
    led = leader(admin, topic)
    stops, stays = cluster.brokers[led], cluster.brokers[led % 3 + 1]
    question = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
    with RawClient(stops.bootstrap) as raw, RawClient(stays.bootstrap) as other, ThreadPoolExecutor() as pool:
        assert raw.produce(topic, batch_of(b"x")).error_code == ErrorCode.NONE
        stopping = pool.submit(stops.stop)
        leads = led
        while leads in (-1, led):
            leads = other.ask(question, 12).topics[0].partitions[0].leader_id
        # By a connection that had nothing under way when that happened.
        told = raw.produce(topic, batch_of(b"y"))
        assert (told.error_code, told.current_leader.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, leads)
        stopping.result(PATIENCE_S)
    stops.start()
    until(lambda: isr(admin, topic) == {1, 2, 3})


def test_groups_and_transactions_continue_when_their_coordinator_dies(cluster, admin, topic):
    create(admin, topic)
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "transactional.id": topic, "transaction.timeout.ms": 60_000}
    )
    producer.init_transactions(PATIENCE_S)
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([topic])
    seen: list[int] = []

    def take(count: int) -> None:
        until(lambda: _poll_into(consumer, seen) or len(seen) >= count)
        _commit(consumer)

    for number, broker in enumerate(cluster.brokers.values()):
        producer.begin_transaction()
        producer.produce(topic, str(number))
        broker.kill()
        _commit_transaction(producer)
        take(number + 1)
        broker.start()
        until(lambda: isr(admin, topic) == {1, 2, 3})
    assert seen == [0, 1, 2]
    committed = consumer.committed([TopicPartition(topic, 0)], timeout=PATIENCE_S)
    assert committed[0].offset > 0
    consumer.close()


def _poll_into(consumer: Consumer, seen: list[int]) -> bool:
    message = consumer.poll(0.2)
    if message is not None and message.error() is None:
        seen.append(int(message.value() or b""))
    return False


def _commit(consumer: Consumer) -> None:
    """Commit; while a coordinator fails over that is refused, and clients are to try again."""

    def attempt() -> bool:
        try:
            consumer.commit(asynchronous=False)
        except KafkaException as error:
            if error.args[0].fatal():
                raise
            return False
        return True

    until(attempt)


def _commit_transaction(producer: Producer) -> None:
    def attempt() -> bool:
        try:
            producer.commit_transaction(PATIENCE_S)
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
            return False
        return True

    until(attempt)


def test_a_delayed_commit_to_a_coordinator_that_was_fenced_does_not_set_the_group_back(cluster, admin, topic):
    create(admin, topic)
    place = TopicPartition(topic, 0, 9)
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": topic})
    consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)  # there are coordinators now
    shards = metadata(admin, CONSUMER_OFFSETS).topics[CONSUMER_OFFSETS].partitions
    shard = partition_for(topic, len(shards))
    coordinator = shards[shard].replicas[0]
    lead_again(cluster, admin, shard, coordinator)
    with RawClient(cluster.brokers[coordinator].bootstrap) as client:
        commit = commit_request(topic, topic, 5)
        assert client.ask(commit, 8).topics[0].partitions[0].error_code == 0
        zookeeper = KazooClient(cluster.zookeeper.addresses)
        zookeeper.start()
        try:
            zookeeper.delete(f"/penstock/live/{coordinator}")  # as if its session had expired
        finally:
            zookeeper.stop()
            zookeeper.close()
        until(lambda: leader(admin, CONSUMER_OFFSETS, shard) not in (coordinator, -1))
        until(lambda: has_committed(consumer, place))
        lead_again(cluster, admin, shard, coordinator)
        # The client has long asked another broker; this is what the network had kept.
        with pytest.raises(ConnectionError):
            client.ask(commit, 8)
    consumer.close()
    # One that asks for the coordinator now: who was it meanwhile may answer before it hears that it is not any more.
    reader = Consumer({"bootstrap.servers": cluster.brokers[coordinator].bootstrap, "group.id": topic})
    assert committed(reader, place) == 9
    reader.close()


def test_a_paused_coordinator_that_was_replaced_answers_nothing_stale(cluster, admin, topic):
    create(admin, topic)
    first = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": topic})
    first.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    first.close()
    shards = metadata(admin, CONSUMER_OFFSETS).topics[CONSUMER_OFFSETS].partitions
    shard = partition_for(topic, len(shards))
    coordinator = leader(admin, CONSUMER_OFFSETS, shard)
    broker = cluster.brokers[coordinator]
    others = {node_id: each for node_id, each in cluster.brokers.items() if each is not broker}
    asked = OffsetFetchRequestTopics(name=topic, partition_indexes=[0])
    fetch = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=topic, topics=[asked])])
    with RawClient(broker.bootstrap) as client:
        told = client.ask(fetch, 8).groups[0].topics[0].partitions[0]
        assert (told.error_code, told.committed_offset) == (0, 1)
        broker.pause()
        try:
            until(lambda: any(commits(each, topic, 9) for each in others.values()))
            client.send(fetch, 8)  # it lies in the broker's socket
        finally:
            broker.resume()
        with pytest.raises(ConnectionError):
            client.receive_frame()
    until(lambda: "this process was paused for more than half a ZooKeeper session" in broker.output)
    lead_again(cluster, admin, shard, shards[shard].replicas[0])


def commits(broker: PenstockProcess, topic: str, offset: int) -> bool:
    """Whether the broker is the coordinator of the group that is called as its topic, and has the offset committed."""
    with RawClient(broker.bootstrap) as client:
        answer = client.ask(commit_request(topic, topic, offset), 8)
    return bool(answer.topics[0].partitions[0].error_code == 0)


def lead_again(cluster: PenstockCluster, admin: AdminClient, shard: int, preferred: int) -> None:
    """Have the preferred broker lead a shard of the groups, when it can; returns when that broker knows that it does.

    Other brokers may know it earlier. Until it does, a broker answers its group's requests with NOT_COORDINATOR.
    """
    until(lambda: preferred in isr(admin, CONSUMER_OFFSETS, shard))
    admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(CONSUMER_OFFSETS, shard)]).result(PATIENCE_S)
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=CONSUMER_OFFSETS)])
    with RawClient(cluster.brokers[preferred].bootstrap) as client:

        def leads() -> bool:
            partitions = client.ask(asked, 12).topics[0].partitions
            return any(each.partition_index == shard and each.leader_id == preferred for each in partitions)

        until(leads)


def has_committed(consumer: Consumer, place: TopicPartition) -> bool:
    try:
        consumer.commit(offsets=[place], asynchronous=False)
    except KafkaException:
        return False
    return True


def committed(consumer: Consumer, place: TopicPartition) -> int:
    """What the coordinator says, as soon as it can be asked."""
    found: list[TopicPartition] = []

    def look() -> bool:
        try:
            found.extend(consumer.committed([place], timeout=5))
        except KafkaException:
            return False
        return True

    until(look)
    return int(found[0].offset)


def commit_request(group: str, topic: str, offset: int) -> OffsetCommitRequest:
    place = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    return OffsetCommitRequest(
        group_id=group, topics=[OffsetCommitRequestTopic(name=topic, partitions=[place])]
    )


def test_a_second_broker_with_the_same_id_is_refused_and_the_first_keeps_running(
    cluster, admin, topic, tmp_path
):
    twin = cluster.broker(1, tmp_path)
    with pytest.raises(ProcessEndedError, match="another broker with node id 1 is in this cluster"):
        twin.start()
    create(admin, topic)
    assert sorted(metadata_at(cluster.brokers[1]).brokers) == [1, 2, 3]


def test_the_data_directory_of_a_broker_that_is_alone_is_refused(cluster, tmp_path: Path):
    with PenstockProcess(tmp_path) as alone:
        create(AdminClient({"bootstrap.servers": alone.bootstrap}), "t", replicas=1)
    for path in ("", "/other"):
        stranger = PenstockProcess(
            tmp_path, arguments=["--zookeeper", f"{cluster.zookeeper.addresses}{path}", "--node-id", "1"]
        )
        with pytest.raises(ProcessEndedError, match="belongs to a standalone broker"):
            stranger.start()
    assert (tmp_path / "t-0").is_dir(), "what the directory holds is still there"


def test_a_data_directory_is_refused_without_its_own_cluster_and_serves_in_it_again(
    cluster, admin, topic, tmp_path: Path
):
    create(admin, topic)
    writer = Writer(cluster, topic)
    writer.send(100)
    writer.flush()
    broker = cluster.brokers[3]
    broker.stop()
    other = ["--zookeeper", f"{cluster.zookeeper.addresses}/another"]
    for arguments, says in (
        ([], "belongs to broker 3 of cluster"),
        (other, "ZooKeeper knows no cluster"),
    ):
        with pytest.raises(ProcessEndedError, match=says):
            PenstockProcess(broker.data, arguments=[*arguments, "--node-id", "3"]).start()
    with (
        PenstockProcess(tmp_path, arguments=[*other, "--node-id", "1"]),
        pytest.raises(ProcessEndedError, match="start it with the ZooKeeper of its own cluster"),
    ):
        PenstockProcess(broker.data, arguments=[*other, "--node-id", "3"]).start()
    broker.start()
    until(lambda: isr(admin, topic) == {1, 2, 3})
    assert read_all(cluster, topic, 100) == Counter(range(100))


def test_deleting_a_topic_with_the_longest_name_ends_no_broker_and_a_broker_that_was_away_deletes_it_too(
    cluster, admin
):
    topic = "t" * 249
    create(admin, topic, partitions=3, file_delete_delay_ms="0")
    away = cluster.brokers[3]
    away.stop()
    admin.delete_topics([topic])[topic].result(PATIENCE_S)
    assert len(list(away.data.glob("ttt*"))) == 3
    away.start()
    for broker in cluster.brokers.values():
        until(lambda data=broker.data: not list(data.glob("ttt*")))
        assert broker.running


def test_a_damaged_topic_node_is_named_and_costs_no_data(cluster, admin, topic):
    create(admin, topic)
    writer = Writer(cluster, topic)
    writer.send(100)
    writer.flush()
    broker = cluster.brokers[3]
    broker.stop()
    zookeeper = KazooClient(cluster.zookeeper.addresses)
    zookeeper.start()
    try:
        node = f"/penstock/topics/{topic}"
        until(lambda: isr(admin, topic) == {1, 2})
        whole, _ = zookeeper.get(node)
        zookeeper.set(node, whole[:-20])
        with pytest.raises(ProcessEndedError, match=f"the node /topics/{topic} is damaged"):
            broker.start()
        assert (broker.data / f"{topic}-0").is_dir()
        zookeeper.set(node, whole)
    finally:
        zookeeper.stop()
        zookeeper.close()
    broker.start()
    until(lambda: isr(admin, topic) == {1, 2, 3})
    assert read_all(cluster, topic, 100) == Counter(range(100))


def test_cluster_describe_shows_under_replicated_partitions_and_why(cluster, admin, topic, capsys):
    create(admin, topic)

    def described(*options: str) -> str:
        assert main(["cluster", "describe", "-b", cluster.brokers[1].bootstrap, *options]) == 0
        return capsys.readouterr().out

    until(lambda: "every partition has all its replicas in the ISR" in described())
    cluster.brokers[3].kill()
    until(lambda: "broker 3 is offline" in described())
    document = json.loads(described("--json"))
    assert [broker["id"] for broker in document["brokers"]] == [1, 2]
    (lacking,) = [each for each in document["under_replicated"] if each["topic"] == topic]
    assert (sorted(lacking["isr"]), lacking["why"]) == ([1, 2], ["broker 3 is offline"])
    cluster.brokers[3].start()
    until(lambda: "every partition has all its replicas in the ISR" in described())


def test_a_broker_is_not_drained_while_balancing_is_off(cluster, capsys):
    assert main(["broker", "drain", "1", "-b", cluster.bootstrap]) == 1
    assert "penstock.balance.enable=true" in capsys.readouterr().err
    assert main(["broker", "describe", "9", "-b", cluster.bootstrap]) == 1
    assert "there is no broker 9; the cluster has 1, 2, 3" in capsys.readouterr().err


@pytest.mark.needs("kafka")
def test_kafkas_tool_moves_replicas_and_preferred_leaders(cluster, admin, topic, tmp_path):
    create(admin, topic, replicas=1)
    writer = Writer(cluster, topic)
    writer.send(1000)
    writer.flush()
    Writer(cluster, topic).fill(3_000_000)
    holder = leader(admin, topic)
    wanted = [node_id for node_id in (1, 2, 3) if node_id != holder]
    plan = tmp_path / "plan.json"
    plan.write_text(
        json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": wanted}]})
    )
    at = ("--bootstrap-server", cluster.bootstrap, "--reassignment-json-file", plan)
    shown = run_tool(REASSIGN_PARTITIONS, *at, "--execute", "--throttle", "1000").stdout
    assert "Successfully started partition reassignment" in shown
    # The first answer has a megabyte, and a quarter of an hour is to pass before the next.
    shown = run_tool(REASSIGN_PARTITIONS, *at, "--verify").stdout
    assert f"Reassignment of partition {topic}-0 is still in progress" in shown
    assert topic_config(admin, topic, "follower.replication.throttled.replicas")
    for node_id in (1, 2, 3):
        change_broker_config(admin, node_id, "leader.replication.throttled.rate", "1000000000")
        change_broker_config(admin, node_id, "follower.replication.throttled.rate", "1000000000")
    until(lambda: isr(admin, topic) == set(wanted))
    shown = run_tool(REASSIGN_PARTITIONS, *at, "--verify").stdout
    assert f"Reassignment of partition {topic}-0 is completed" in shown
    until(lambda: not topic_config(admin, topic, "follower.replication.throttled.replicas"))
    assert read_all(cluster, topic, 1000) == Counter(range(1000))
    assert leader(admin, topic) == wanted[0]


def test_topic_move_reassigns_replicas_shows_the_progress_and_cancels(cluster, admin, topic, capsys):
    def penstock(*words: object) -> str:
        code = main([*map(str, words), "-b", cluster.bootstrap])
        said = capsys.readouterr()
        assert code == 0, said
        return said.out

    create(admin, topic, replicas=1)
    Writer(cluster, topic).fill(3_000_000)
    holder = leader(admin, topic)
    others = [node_id for node_id in (1, 2, 3) if node_id != holder]
    wanted = ",".join(map(str, others))
    # The first answer has a megabyte, and a quarter of an hour is to pass before the next.
    for name in ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas"):
        penstock("topic", "config", topic, "--set", f"{name}=*")
    rates = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
    for node_id in (1, 2, 3):
        penstock("broker", "config", node_id, *(word for each in rates for word in ("--set", f"{each}=1000")))
    try:
        assert "is in progress" in penstock("topic", "move", f"{topic}:0", "--to", wanted, "--no-wait")
        assert penstock("topic", "move", topic, "--cancel") == f"cancelled 1 move of topic {topic}\n"
        until(lambda: isr(admin, topic) == {holder})
    finally:
        for node_id in (1, 2, 3):
            penstock("broker", "config", node_id, *(word for each in rates for word in ("--unset", each)))
    assert penstock("topic", "move", topic, "--cancel") == f"cancelled 0 moves of topic {topic}\n"
    *underway, moved = penstock("topic", "move", topic, "--to", wanted).splitlines()
    assert moved == f"moved 1 partition of topic {topic} to brokers {wanted}"
    assert all(line.startswith("1 partition in progress, ") for line in underway)
    until(lambda: isr(admin, topic) == set(others))  # another broker may be asked, which is behind
    until(lambda: leader(admin, topic) == others[0])

    assert main(["topic", "move", topic, "--to", "1,9", "-b", cluster.bootstrap]) == 1
    assert f"penstock: cannot move {topic}-0: " in capsys.readouterr().err
