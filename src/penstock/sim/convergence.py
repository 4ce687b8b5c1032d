"""Whether a cluster has converged: one controller, equal metadata, and replicas in place, in the ISR and identical."""

import json
from collections.abc import Container, Iterable, Iterator, Sequence

from penstock.apis.context import Services
from penstock.base.ids import TopicPartition
from penstock.cluster.metadata import CONTROLLER, PartitionState, Topic
from penstock.controller.rules.balancing import BrokerFact, Limits, PartitionFact, plan
from penstock.services.replicas.replica import Replica
from penstock.sim.node import Node
from penstock.sim.shared_store import SharedStore
from penstock.storage import file_names


def differences(store: SharedStore, nodes: Iterable[Node], *, all_online: bool) -> list[str]:
    """One line per difference from a converged cluster in which all nodes run.

    Without `all_online`, replicas may be offline because of a failed disk, which lasts until their node restarts, and
    reassignments need not be complete.
    """
    members = list(nodes)
    down = [node.host for node in members if node.broker is None]
    if down:
        return [f"{', '.join(down)} does not run"]
    services = {node.node_id: node.broker.services for node in members if node.broker is not None}
    topics = store.topics()
    offline = _offline(services)
    failed = offline.items() if all_online else ()
    problems = [
        *_controllers(store, services),
        *_registrations(store, services),
        *(problem for topic in topics for problem in _unready(topic, {} if all_online else offline)),
        *(f"{name}-{index} is offline at {', '.join(map(str, where))}" for (name, index), where in failed),
        *(problem for each in services.values() for problem in _image(store, topics, each)),
    ]
    if problems or not all_online:
        return problems
    problems += _misplaced(store, topics, services)
    if problems:
        return problems
    return [problem for topic in topics for problem in _unlike(topic, members)]


def _controllers(store: SharedStore, services: dict[int, Services]) -> Iterator[str]:
    content = store.content(CONTROLLER)
    if content is None:
        yield "there is no controller"
        return
    elected = json.loads(content)["node_id"]
    active = [node_id for node_id, each in services.items() if each.cluster.controller.is_active]
    if active != [elected]:
        yield f"broker {elected} was elected, but the active controllers are {active}"
    for node_id, each in services.items():
        if each.cluster.image.controller_id != elected:
            yield f"broker {node_id} takes {each.cluster.image.controller_id} for the controller, not {elected}"


def _registrations(store: SharedStore, services: dict[int, Services]) -> Iterator[str]:
    brokers, living = store.brokers(), store.living()
    for node_id in services:
        if node_id not in living:
            yield f"broker {node_id} has no session that counts"
        if node_id not in brokers or brokers[node_id].fenced:
            yield f"broker {node_id} is not part of the cluster"


def _offline(services: dict[int, Services]) -> dict[tuple[str, int], list[int]]:
    """The partitions whose logs have failed, and where."""
    found: dict[tuple[str, int], list[int]] = {}
    for node_id, each in services.items():
        for partition in each.logs.replicas.all():
            if partition.log.failed is not None:
                found.setdefault((partition.topic, partition.index), []).append(node_id)
    return found


def _unready(topic: Topic, offline: Container[tuple[str, int]]) -> Iterator[str]:
    for index, state in enumerate(topic.partitions):
        problem = None if (topic.name, index) in offline else _unready_state(state)
        if problem is not None:
            yield f"{topic.name}-{index} {problem}: {state}"


def _unready_state(state: PartitionState) -> str | None:
    if state.leader not in state.isr:
        return "has no leader"
    if set(state.isr) != set(state.replicas):
        return "has replicas that are not in sync"
    return None


def _misplaced(store: SharedStore, topics: list[Topic], services: dict[int, Services]) -> Iterator[str]:
    """Reassignments in progress, replicas on drained or wrong brokers, and uneven shares of replicas."""
    drained = store.draining()
    takers = [node_id for node_id in services if node_id not in drained]
    replicas: dict[tuple[str, int], tuple[int, ...]] = {}
    facts = []
    for topic in topics:
        for index, state in enumerate(topic.partitions):
            replicas[topic.name, index] = state.replicas
            facts.append(
                PartitionFact(TopicPartition(topic.name, index), state.leader, state.replicas, state.isr)
            )
            if state.adding or state.removing:
                yield f"{topic.name}-{index} is being moved: {state}"
            if drained.intersection(state.replicas) and len(takers) >= len(state.replicas):
                yield f"{topic.name}-{index} is on a drained broker, {sorted(drained)}: {state}"
            if state.leader in drained and not drained.issuperset(state.replicas):
                yield f"{topic.name}-{index} is led by a drained broker: {state}"
    for node_id, each in services.items():
        for partition in each.logs.replicas.all():
            if node_id not in replicas.get((partition.topic, partition.index), ()):
                yield f"broker {node_id} holds {partition.topic}-{partition.index}, which is elsewhere"
    brokers = [BrokerFact(node_id, is_leaving=node_id in drained) for node_id in services]
    left = plan(brokers, facts, Limits(leaders=1_000, replicas=1_000))
    if not left.is_empty:
        yield f"the brokers' shares are not even: {left}"


def _image(store: SharedStore, topics: list[Topic], services: Services) -> Iterator[str]:
    image, name = services.cluster.image, f"broker {services.node.node_id}"
    known = {topic.name: topic for topic in image.topics()}
    for topic in topics:
        if known.pop(topic.name, None) != topic:
            yield f"{name} knows {topic.name} as {image.topic(topic.name)}, which is {topic}"
    for topic in known.values():
        yield f"{name} knows {topic.name}, which does not exist"
    if image.brokers != store.brokers():
        yield f"{name} knows other brokers than there are: {image.brokers}, not {store.brokers()}"


def _unlike(topic: Topic, nodes: Sequence[Node]) -> Iterator[str]:
    """Partitions whose replicas differ. Compacted topics are not compared: each replica compacts on its own."""
    if topic.configs.get("cleanup.policy") != "delete":
        return
    for index, state in enumerate(topic.partitions):
        contents = {
            node.node_id: _content(node, topic.name, index)
            for node in nodes
            if node.node_id in state.replicas
        }
        different = [node_id for node_id, content in contents.items() if content != contents[state.leader]]
        if different:
            sizes = {
                node_id: None if content is None else len(content) for node_id, content in contents.items()
            }
            yield f"{topic.name}-{index} is not the same at {different} as at its leader {state.leader}: {sizes}"


def _content(node: Node, topic: str, index: int) -> bytes | None:
    """The bytes of a replica's log; None if there is no replica."""
    assert node.broker is not None
    partition = node.broker.services.logs.replicas.find_replica(topic, index)
    if not isinstance(partition, Replica):
        return None
    segments = partition.log.segments
    return b"".join(node.disk.content(segment.path(file_names.LOG))[: segment.size] for segment in segments)
