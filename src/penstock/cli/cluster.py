"""`penstock cluster`: describe, upgrade, up."""

import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from penstock.cli import cluster_features
from penstock.cli.confirm import add_yes
from penstock.cli.output import count_of, print_json, print_lines, table
from penstock.cli.parsing import Parser, add_verb, add_verbs, finish_verb, positive, run_verb
from penstock.cli.session import connected
from penstock.client.client import Client
from penstock.client.cluster import NO_NODE, KnownPartition, KnownTopic
from penstock.client.features import describe_features
from penstock.client.topics import ClusterDescription, describe_cluster, with_eligible

run = run_verb


def add_arguments(parser: Parser) -> None:
    parser.usage = f"{parser.prog} VERB [options]"
    verbs = add_verbs(parser)
    verb = add_verb(
        verbs,
        "describe",
        "show brokers, leaders and ISRs, and why partitions are under-replicated",
        "[options]",
    )
    finish_verb(verb, _describe)

    verb = add_verb(
        verbs,
        "upgrade",
        "raise feature levels to what all brokers support, after a rolling upgrade",
        "[options]",
    )
    add_yes(verb)
    finish_verb(verb, cluster_features.upgrade)

    verb = add_verb(
        verbs, "up", "run ZooKeeper and several brokers here, for development, until Ctrl-C", "[options]"
    )
    verb.add_argument("-n", type=positive, default=3, metavar="COUNT", help="how many brokers (default 3)")
    verb.add_argument(
        "--listen",
        default="127.0.0.1:9092",
        metavar="HOST:PORT",
        help="of the first broker; the others have the next ports (default 127.0.0.1:9092)",
    )
    verb.add_argument(
        "--data-dir",
        default="penstock-cluster",
        metavar="DIR",
        help="data and logs (default ./penstock-cluster)",
    )
    verb.add_argument(
        "--zookeeper-jars",
        metavar="DIR",
        type=Path,
        help="where ZooKeeper's jars are, or PENSTOCK_ZOOKEEPER_JARS (default: this machine's)",
    )
    verb.set_defaults(act=_up)


class Lacking(NamedTuple):
    """An under-replicated partition, with the reason."""

    topic: str
    partition: KnownPartition
    reasons: tuple[str, ...]


def _describe(arguments: Namespace) -> int:
    with connected(arguments) as blocking:
        cluster, topics = blocking.run(look(blocking.client))
        features = blocking.run(describe_features(blocking.client))
    alive = {broker.node_id for broker in cluster.brokers}
    lacking = list(find_lacking(topics, alive))
    if arguments.json:
        print_json({**_as_json(cluster, topics, lacking), "features": cluster_features.as_json(features)})
    else:
        print_lines([*as_text(cluster, topics, lacking), "", *cluster_features.as_text(features)])
    return 0


def _up(arguments: Namespace) -> int:
    from penstock.cli.cluster_up import run_cluster

    return run_cluster(
        brokers=arguments.n,
        listen=arguments.listen,
        data=Path(arguments.data_dir).resolve(),
        output=sys.stdout,
        zookeeper_jars=arguments.zookeeper_jars,
    )


async def look(client: Client) -> tuple[ClusterDescription, list[KnownTopic]]:
    return await describe_cluster(client), await with_eligible(client, await client.refresh(None))


def find_lacking(topics: Sequence[KnownTopic], alive: set[int]) -> Iterator[Lacking]:
    """The partitions that have no leader or are under-replicated, with the reasons."""
    for topic in topics:
        for partition in topic.partitions:
            missing = [each for each in partition.replicas if each not in partition.isr]
            reasons = [
                f"broker {each} has not caught up" if each in alive else f"broker {each} is offline"
                for each in missing
            ]
            if partition.leader == NO_NODE:
                electable = ", ".join(map(str, (*partition.isr, *partition.elr))) or "none"
                reasons.insert(0, f"no leader: of the replicas that may lead ({electable}) none is online")
            if reasons:
                yield Lacking(topic.name, partition, tuple(reasons))


def as_text(
    cluster: ClusterDescription, topics: Sequence[KnownTopic], lacking: Sequence[Lacking]
) -> Iterator[str]:
    leads, holds, isr = _counts(topics)
    partitions = sum(len(topic.partitions) for topic in topics)
    brokers = count_of(len(cluster.brokers), "broker")
    yield f"cluster {cluster.cluster_id}: {brokers}, controller {cluster.controller_id}"
    yield f"{count_of(len(topics), 'topic')}, {count_of(partitions, 'partition')}"
    yield ""
    yield from table(
        ("BROKER", "ADDRESS", "RACK", "LEADS", "REPLICAS", "ISR"),
        [
            (
                broker.node_id,
                str(broker.address),
                broker.rack or "-",
                leads[broker.node_id],
                holds[broker.node_id],
                isr[broker.node_id],
            )
            for broker in cluster.brokers
        ],
    )
    yield ""
    if not lacking:
        yield "every partition has all its replicas in the ISR"
        return
    yield f"{count_of(len(lacking), 'partition')} under-replicated:"
    yield from table(
        ("TOPIC", "PARTITION", "LEADER", "REPLICAS", "ISR", "ELR", "WHY"),
        [
            (
                each.topic,
                each.partition.partition,
                "none" if each.partition.leader == NO_NODE else str(each.partition.leader),
                _list(each.partition.replicas),
                _list(each.partition.isr),
                _list(each.partition.elr),
                "; ".join(each.reasons),
            )
            for each in lacking
        ],
        indent="  ",
    )


def _as_json(
    cluster: ClusterDescription, topics: Sequence[KnownTopic], lacking: Sequence[Lacking]
) -> dict[str, object]:
    leads, holds, isr = _counts(topics)
    return {
        "cluster_id": cluster.cluster_id,
        "controller": cluster.controller_id,
        "brokers": [
            {
                "id": broker.node_id,
                "address": str(broker.address),
                "rack": broker.rack,
                "leads": leads[broker.node_id],
                "replicas": holds[broker.node_id],
                "isr": isr[broker.node_id],
            }
            for broker in cluster.brokers
        ],
        "topics": len(topics),
        "partitions": sum(len(topic.partitions) for topic in topics),
        "under_replicated": [
            {
                "topic": each.topic,
                "partition": each.partition.partition,
                "leader": None if each.partition.leader == NO_NODE else each.partition.leader,
                "replicas": list(each.partition.replicas),
                "isr": list(each.partition.isr),
                "elr": list(each.partition.elr),
                "why": list(each.reasons),
            }
            for each in lacking
        ],
    }


def _counts(topics: Sequence[KnownTopic]) -> tuple[Counter[int], Counter[int], Counter[int]]:
    """By broker: the partitions it leads, has a replica of, and is in the ISR of."""
    partitions = [partition for topic in topics for partition in topic.partitions]
    return (
        Counter(partition.leader for partition in partitions),
        Counter(each for partition in partitions for each in partition.replicas),
        Counter(each for partition in partitions for each in partition.isr),
    )


def _list(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers)) or "none"
