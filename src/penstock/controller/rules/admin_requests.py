"""ElectLeaders and AlterPartitionReassignments: decided partition by partition, carried out as one change.

The balancer's requests are decided here too.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from penstock.base.errors import ErrorCode, Refusal
from penstock.base.ids import TopicPartition
from penstock.cluster.metadata import MetadataImage, PartitionState, Topic
from penstock.cluster.metadata_changes import Change
from penstock.controller.rules import majority_partitions
from penstock.controller.rules.leader_election import elect, elect_preferred
from penstock.controller.rules.reassignment import (
    begin_reassignment,
    cancel_reassignment,
    complete_reassignment,
)

UNKNOWN = Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
NONE = Refusal(ErrorCode.NONE)


class RequestedReplicas(NamedTuple):
    """The replicas that a partition is to have; None cancels its reassignment."""

    where: TopicPartition
    replicas: tuple[int, ...] | None
    instead_of: tuple[int, ...] | None = (
        None  # only if these are its replicas, and it is not being reassigned
    )


@dataclass
class PartitionDecisions:
    """The decisions so far: the change, and the outcome for each partition."""

    image: MetadataImage
    topics: dict[str, Topic] = field(default_factory=dict)
    outcomes: dict[TopicPartition, Refusal] = field(default_factory=dict)

    @property
    def change(self) -> Change:
        return Change(topics=self.topics)

    def state(self, where: TopicPartition) -> PartitionState | None:
        topic = self.topics.get(where.topic) or self.image.topic(where.topic)
        if topic is None or not 0 <= where.partition < len(topic.partitions):
            return None
        return topic.partitions[where.partition]

    def counts_majority(self, where: TopicPartition) -> bool:
        topic = self.image.topic(where.topic)
        return topic is not None and topic.counts_majority

    def put(self, where: TopicPartition, state: PartitionState) -> None:
        topic = self.topics.get(where.topic) or self.image.topic(where.topic)
        assert topic is not None
        partitions = list(topic.partitions)
        partitions[where.partition] = state
        self.topics[where.topic] = replace(topic, partitions=tuple(partitions))
        self.outcomes[where] = NONE


def decide_elections(
    image: MetadataImage, partitions: Iterable[TopicPartition] | None, *, unclean: bool
) -> PartitionDecisions:
    """Elect the preferred leaders; with `unclean`, any replica where there is no leader. None means all partitions."""
    decisions = PartitionDecisions(image)
    alive = image.alive()
    asked_for = all_partitions(image) if partitions is None else partitions
    for where in asked_for:
        state = decisions.state(where)
        if state is None:
            decisions.outcomes[where] = UNKNOWN
            continue
        if decisions.counts_majority(where):
            rule = majority_partitions.elect_unclean if unclean else majority_partitions.elect_preferred
            elected = rule(state, alive)
        else:
            elected = elect(state, alive, unclean=True) if unclean else elect_preferred(state, alive)
        if elected is not state:
            decisions.put(where, elected)
        elif unclean or state.leader == state.replicas[0]:
            # A request for all partitions is answered only with those that changed or failed.
            if partitions is not None:
                decisions.outcomes[where] = Refusal(
                    ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."
                )
        else:
            code = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
            decisions.outcomes[where] = Refusal(
                code, f"Broker {state.replicas[0]} is not in sync, or not alive."
            )
    return decisions


def decide_reassignments(
    image: MetadataImage, asked_for: Iterable[RequestedReplicas], *, keeps_factor: bool
) -> PartitionDecisions:
    """Begin, change or cancel reassignments. `keeps_factor`: another replication factor is rejected."""
    decisions = PartitionDecisions(image)
    alive = image.alive()
    for where, replicas, instead_of in asked_for:
        state = decisions.state(where)
        if state is None:
            decisions.outcomes[where] = UNKNOWN
            continue
        if instead_of is not None and (state.adding or state.removing or state.replicas != instead_of):
            code = ErrorCode.INVALID_REPLICA_ASSIGNMENT
            decisions.outcomes[where] = Refusal(code, "It has other replicas by now.")
            continue
        if replicas is None:
            if not state.adding and not state.removing:
                code = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
                decisions.outcomes[where] = Refusal(code, "No partition reassignment is in progress.")
            elif decisions.counts_majority(where):
                decisions.put(where, majority_partitions.cancel_reassignment(state))
            else:
                decisions.put(where, cancel_reassignment(state, alive))
            continue
        problem = _problem(state, replicas, alive, keeps_factor=keeps_factor)
        if problem is not None:
            decisions.outcomes[where] = Refusal(*problem)
        elif decisions.counts_majority(where):
            decisions.put(where, majority_partitions.begin_reassignment(state, replicas))
        else:
            decisions.put(where, complete_reassignment(begin_reassignment(state, replicas, alive), alive))
    return decisions


def all_partitions(image: MetadataImage) -> list[TopicPartition]:
    return [
        TopicPartition(topic.name, number)
        for topic in image.topics()
        for number in range(len(topic.partitions))
    ]


def ongoing_reassignments(image: MetadataImage) -> Mapping[TopicPartition, PartitionState]:
    """The partitions that are being reassigned."""
    return {
        TopicPartition(topic.name, number): state
        for topic in image.topics()
        for number, state in enumerate(topic.partitions)
        if state.adding or state.removing
    }


def _problem(
    state: PartitionState, replicas: tuple[int, ...], alive: list[int], *, keeps_factor: bool
) -> tuple[ErrorCode, str] | None:
    invalid = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    if not replicas:
        return invalid, "The manual partition assignment includes an empty replica list."
    if len(set(replicas)) < len(replicas):
        return invalid, f"The replicas {list(replicas)} name a broker twice."
    if min(replicas) < 0:
        return invalid, f"The replicas {list(replicas)} name a broker with a negative id."
    missing = [broker for broker in replicas if broker not in alive and broker not in state.replicas]
    if missing:
        return invalid, f"Broker {missing[0]} is not there."
    wanted = len(state.present_replicas) if not state.removing else len(state.replicas) - len(state.adding)
    if keeps_factor and len(replicas) != wanted:
        code = ErrorCode.INVALID_REPLICATION_FACTOR
        return code, f"The replication factor would change from {wanted} to {len(replicas)}."
    return None
