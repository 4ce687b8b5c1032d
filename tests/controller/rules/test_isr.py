"""Which ISRs the controller accepts."""

import pytest

from penstock.base.errors import ErrorCode
from penstock.base.ids import TopicId, TopicIdPartition
from penstock.cluster.metadata import BrokerRegistration, MetadataImage, PartitionState, Topic
from penstock.controller.rules.isr import judge_proposals
from penstock.core.isr_proposals import Proposal, Verdict

ID = TopicId(b"t" * 16)


def image() -> MetadataImage:
    made = MetadataImage("cluster")
    made.apply_topic(Topic("t", ID, (PartitionState(1, 5, (1, 2, 3), (1, 2), 7),)))
    for node_id in (1, 2, 3):
        made.apply_broker(BrokerRegistration(node_id, None, {}, epoch=10 + node_id))
    made.apply_broker(BrokerRegistration(4, None, {}, epoch=14, fenced=True))
    return made


def judged(
    known: MetadataImage, leader: int, *proposals: tuple[TopicIdPartition, Proposal], min_isr: int = 1
):
    change, verdicts, joining = judge_proposals(known, leader, dict(proposals), min_isr=lambda _: min_isr)
    return change, list(verdicts.values()), joining


def asked(
    *members: tuple[int, int], leader_epoch: int = 5, partition_epoch: int = 7, topic_id: bytes = ID
) -> tuple[TopicIdPartition, Proposal]:
    isr, epochs = tuple(member for member, _ in members), tuple(epoch for _, epoch in members)
    return TopicIdPartition(topic_id, 0), Proposal(isr, epochs, leader_epoch, partition_epoch)


def accepted(state: PartitionState) -> Verdict:
    return Verdict(ErrorCode.NONE, state.leader, state.leader_epoch, state.isr, state.partition_epoch)


def test_a_follower_that_has_caught_up_joins():
    change, (verdict,), joining = judged(image(), 1, asked((1, 11), (2, 12), (3, 13)))
    assert verdict == Verdict(ErrorCode.NONE, leader=1, leader_epoch=5, isr=(1, 2, 3), partition_epoch=8)
    assert accepted(change.topics["t"].partitions[0]) == verdict
    assert joining == {3}


def test_a_lagging_replica_leaves_the_isr_and_no_broker_is_looked_up():
    change, (verdict,), joining = judged(image(), 1, asked((1, 11)))
    assert change.topics["t"].partitions[0].isr == (1,)
    assert (verdict.error, joining) == (ErrorCode.NONE, set())


def test_what_is_so_already_changes_nothing():
    change, (verdict,), _ = judged(image(), 1, asked((1, 11), (2, 12)))
    assert change.is_empty
    assert (verdict.error, verdict.partition_epoch) == (ErrorCode.NONE, 7)


@pytest.mark.parametrize(
    ("leader", "proposal", "code"),
    [
        (2, asked((2, 12)), ErrorCode.FENCED_LEADER_EPOCH),
        (1, asked((1, 11), leader_epoch=4), ErrorCode.FENCED_LEADER_EPOCH),
        (1, asked((1, 11), leader_epoch=6), ErrorCode.NOT_CONTROLLER),
        (1, asked((1, 11), partition_epoch=6), ErrorCode.INVALID_UPDATE_VERSION),
        (1, asked((1, 11), partition_epoch=8), ErrorCode.NOT_CONTROLLER),
        (1, asked(), ErrorCode.OPERATION_NOT_ATTEMPTED),
        (1, asked((3, 13)), ErrorCode.OPERATION_NOT_ATTEMPTED),
        (1, asked((1, 11), (4, 14)), ErrorCode.INVALID_REQUEST),
        (1, asked((1, 11), (2, 12), (3, 12)), ErrorCode.INELIGIBLE_REPLICA),
        (1, asked((1, 11), topic_id=b"x" * 16), ErrorCode.UNKNOWN_TOPIC_ID),
    ],
)
def test_what_is_refused(leader, proposal, code):
    change, (verdict,), _ = judged(image(), leader, proposal)
    assert verdict.error is code
    assert change.is_empty


def test_a_leader_that_leaves_the_set_is_followed_by_another_member():
    change, (verdict,), joining = judged(image(), 1, asked((2, 12)), min_isr=2)
    state = change.topics["t"].partitions[0]
    assert (verdict, joining) == (accepted(state), set())
    assert (state.leader, state.leader_epoch, state.isr) == (2, 6, (2,))
    assert state.elr == (), "it could not serve anybody"


def test_a_leader_stays_if_no_other_replica_could_lead():
    known = image()
    known.apply_broker(BrokerRegistration(2, None, {}, epoch=12, fenced=True))
    change, (verdict,), _ = judged(known, 1, asked((2, 12)))
    assert verdict.error is ErrorCode.OPERATION_NOT_ATTEMPTED
    assert change.is_empty


def test_a_fenced_broker_does_not_join():
    known = image()
    known.apply_broker(BrokerRegistration(3, None, {}, epoch=13, fenced=True))
    _, (verdict,), _ = judged(known, 1, asked((1, 11), (2, 12), (3, 13)))
    assert verdict.error is ErrorCode.INELIGIBLE_REPLICA


@pytest.mark.parametrize(("min_isr", "elr"), [(1, ()), (2, (2,)), (3, (2,))])
def test_who_leaves_a_set_that_is_then_too_small_stays_eligible(min_isr, elr):
    change, _, _ = judged(image(), 1, asked((1, 11)), min_isr=min_isr)
    assert change.topics["t"].partitions[0].elr == elr


@pytest.mark.parametrize(("min_isr", "elr"), [(2, ()), (3, (2,))])
def test_the_elr_is_emptied_when_the_isr_reaches_min_isr(min_isr, elr):
    known = image()
    known.apply_topic(Topic("t", ID, (PartitionState(1, 5, (1, 2, 3), (1,), 7, elr=(2,)),)))
    change, _, _ = judged(known, 1, asked((1, 11), (3, 13)), min_isr=min_isr)
    state = change.topics["t"].partitions[0]
    assert (state.isr, state.elr) == ((1, 3), elr)
