"""AlterPartition, decided: a leader asks for another in-sync set, and the controller sees whether that may be."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from penstock.base.errors import ErrorCode
from penstock.cluster.changes import Change
from penstock.cluster.metadata import MetadataImage, PartitionState, Topic
from penstock.controller.rules.leader_election import elect, finish_exchange
from penstock.controller.rules.majorities import agree

NO_EPOCH = -1


class PartitionProposal(NamedTuple):
    """What a leader asks for one partition. `isr` are node ids with the broker epochs that the leader knows."""

    topic_id: bytes
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: Sequence[tuple[int, int]]


class Verdict(NamedTuple):
    """What comes of a proposal: the state that holds now, or an error."""

    proposal: PartitionProposal
    error: ErrorCode
    state: PartitionState | None = None


def judge(
    image: MetadataImage,
    leader: int,
    proposals: Sequence[PartitionProposal],
    *,
    min_isr: Callable[[Topic], int],
) -> tuple[Change, list[Verdict], set[int]]:
    """What to change, what to tell the leader of each partition, and whose registrations must not have changed.

    `min_isr` knows each topic's `min.insync.replicas`.
    """
    topics: dict[str, Topic] = {}
    verdicts: list[Verdict] = []
    joining: set[int] = set()
    for proposal in proposals:
        known = image.topic_by_id(proposal.topic_id)
        topic = None if known is None else topics.get(known.name, known)
        if topic is None or not 0 <= proposal.partition < len(topic.partitions):
            verdicts.append(Verdict(proposal, ErrorCode.UNKNOWN_TOPIC_ID))
            continue
        state = topic.partitions[proposal.partition]
        error = _error(state, leader, proposal, image)
        if error is not ErrorCode.NONE:
            verdicts.append(Verdict(proposal, error))
            continue
        wanted = {node_id for node_id, _ in proposal.isr}
        isr = tuple(each for each in state.replicas if each in wanted)
        joining |= wanted - set(state.isr)
        before = state
        if topic.counts_majority:
            state = agree(state, isr)
        elif set(isr) != set(state.isr):
            elr = state.elr_after(isr, min_isr=min_isr(topic))
            state = state.changed(
                isr=isr,
                # A leader that gives up could not serve anybody if it led again.
                elr=tuple(each for each in elr if each != leader),
            )
            state = finish_exchange(state, image.alive())
            if leader not in wanted:  # it cannot write, and gives up
                state = elect(state, image.alive())
        if state is not before:
            partitions = list(topic.partitions)
            partitions[proposal.partition] = state
            topics[topic.name] = replace(topic, partitions=tuple(partitions))
        verdicts.append(Verdict(proposal, ErrorCode.NONE, state))
    return Change(topics=topics), verdicts, joining


def _error(
    state: PartitionState, leader: int, proposal: PartitionProposal, image: MetadataImage
) -> ErrorCode:
    if proposal.leader_epoch > state.leader_epoch or proposal.partition_epoch > state.partition_epoch:
        return ErrorCode.NOT_CONTROLLER  # the leader knows more than this controller does
    if proposal.leader_epoch < state.leader_epoch or state.leader != leader:
        return ErrorCode.FENCED_LEADER_EPOCH
    if proposal.partition_epoch < state.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    members = {node_id for node_id, _ in proposal.isr}
    if not members <= set(state.replicas):
        return ErrorCode.INVALID_REQUEST
    if leader not in members and not members & set(state.isr) & set(image.alive()):
        return ErrorCode.OPERATION_NOT_ATTEMPTED  # nobody could lead in its place
    for node_id, epoch in proposal.isr:
        broker = image.brokers.get(node_id)
        if node_id in state.isr:
            continue
        if broker is None or broker.fenced or epoch not in (NO_EPOCH, broker.epoch):
            return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE
