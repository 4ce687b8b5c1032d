"""Which ISR changes the controller accepts: leaders propose (AlterPartition), the controller judges each proposal.

An ISR also shrinks without a proposal, when the controller fences a broker: `rules.leader_election`.
"""

from collections.abc import Callable
from dataclasses import replace

from penstock.base.errors import ErrorCode
from penstock.base.ids import TopicIdPartition
from penstock.cluster.metadata import MetadataImage, PartitionState, Topic
from penstock.cluster.metadata_changes import Change
from penstock.controller.rules.leader_election import elect
from penstock.controller.rules.majority_partitions import accept_isr
from penstock.controller.rules.reassignment import complete_reassignment
from penstock.core.isr_proposals import UNKNOWN_EPOCH, Proposal, Proposals, Verdict


def judge_proposals(
    image: MetadataImage,
    leader: int,
    proposals: Proposals,
    *,
    min_isr: Callable[[Topic], int],
) -> tuple[Change, dict[TopicIdPartition, Verdict], set[int]]:
    """The change that the accepted proposals make, the verdict on each proposal, and the brokers that join an ISR:
    their registrations must not change before the change is written.

    `min_isr` returns a topic's `min.insync.replicas`.
    """
    topics: dict[str, Topic] = {}
    verdicts: dict[TopicIdPartition, Verdict] = {}
    joining: set[int] = set()
    for where, proposal in proposals.items():
        known = image.topic_by_id(where.topic_id)
        topic = None if known is None else topics.get(known.name, known)
        if topic is None or not 0 <= where.partition < len(topic.partitions):
            verdicts[where] = Verdict(ErrorCode.UNKNOWN_TOPIC_ID)
            continue
        before = topic.partitions[where.partition]
        error = _error(before, leader, proposal, image)
        if error is not ErrorCode.NONE:
            verdicts[where] = Verdict(error)
            continue
        joining.update(set(proposal.isr) - set(before.isr))
        after = _with_isr(before, topic, leader, proposal, image, min_isr=min_isr(topic))
        if after is not before:
            partitions = list(topic.partitions)
            partitions[where.partition] = after
            topics[topic.name] = replace(topic, partitions=tuple(partitions))
        verdicts[where] = Verdict(
            ErrorCode.NONE, after.leader, after.leader_epoch, after.isr, after.partition_epoch
        )
    return Change(topics=topics), verdicts, joining


def _with_isr(
    state: PartitionState,
    topic: Topic,
    leader: int,
    proposal: Proposal,
    image: MetadataImage,
    *,
    min_isr: int,
) -> PartitionState:
    """The partition with the proposed ISR; the same object if that is its ISR already."""
    isr = tuple(node_id for node_id in state.replicas if node_id in proposal.isr)
    if topic.counts_majority:
        return accept_isr(state, isr)
    if set(isr) == set(state.isr):
        return state
    # A leader that leaves the ISR cannot write: it is no candidate for the next election either.
    elr = tuple(node_id for node_id in state.elr_after(isr, min_isr=min_isr) if node_id != leader)
    state = complete_reassignment(state.changed(isr=isr, elr=elr), image.alive())
    return state if leader in isr else elect(state, image.alive())


def _error(state: PartitionState, leader: int, proposal: Proposal, image: MetadataImage) -> ErrorCode:
    if proposal.leader_epoch > state.leader_epoch or proposal.partition_epoch > state.partition_epoch:
        return ErrorCode.NOT_CONTROLLER  # the leader has newer metadata than this controller
    if proposal.leader_epoch < state.leader_epoch or state.leader != leader:
        return ErrorCode.FENCED_LEADER_EPOCH
    if proposal.partition_epoch < state.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    members = set(proposal.isr)
    if not members <= set(state.replicas):
        return ErrorCode.INVALID_REQUEST
    if leader not in members and not members & set(state.isr) & set(image.alive()):
        return ErrorCode.OPERATION_NOT_ATTEMPTED  # no member of the ISR could lead in its place
    for node_id, epoch in zip(proposal.isr, proposal.broker_epochs, strict=True):
        broker = image.brokers.get(node_id)
        if node_id in state.isr:
            continue
        if broker is None or broker.fenced or epoch not in (UNKNOWN_EPOCH, broker.epoch):
            return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE
