"""AlterPartition between two brokers: the controller decodes the leader's proposal, and the leader the verdict."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.apis.k56_alter_partition import _answer, _proposal
from penstock.base.errors import ErrorCode
from penstock.controller.controller_link import _proposed_partition, _verdict
from penstock.core.isr_proposals import UNKNOWN_EPOCH, Proposal, Verdict
from penstock.wire.messages.alter_partition import PartitionData

NUMBERS = st.integers(0, 1 << 30)
MEMBERS = st.lists(st.tuples(NUMBERS, st.integers(UNKNOWN_EPOCH, 1 << 40)))


@given(members=MEMBERS, leader_epoch=NUMBERS, partition_epoch=NUMBERS)
def test_the_controller_reads_the_proposal_that_the_leader_made(
    members: list[tuple[int, int]], leader_epoch: int, partition_epoch: int
) -> None:
    isr, epochs = tuple(member for member, _ in members), tuple(epoch for _, epoch in members)
    proposal = Proposal(isr, epochs, leader_epoch, partition_epoch)
    assert _proposal(_proposed_partition(3, proposal)) == proposal


def test_members_without_broker_epochs_as_version_2_sends_them_have_unknown_epochs() -> None:
    asked = PartitionData(new_isr=[1, 2], leader_epoch=5, partition_epoch=7)
    assert _proposal(asked) == Proposal((1, 2), (UNKNOWN_EPOCH, UNKNOWN_EPOCH), 5, 7)


@given(
    verdict=st.builds(
        Verdict,
        error=st.just(ErrorCode.NONE),
        leader=NUMBERS,
        leader_epoch=NUMBERS,
        isr=st.lists(NUMBERS).map(tuple),
        partition_epoch=NUMBERS,
    )
)
def test_the_leader_reads_the_verdict_that_the_controller_gave(verdict: Verdict) -> None:
    assert _verdict(_answer(3, verdict)) == verdict


def test_the_leader_reads_the_error_that_the_controller_gave() -> None:
    assert _verdict(_answer(3, Verdict(ErrorCode.INELIGIBLE_REPLICA))).error is ErrorCode.INELIGIBLE_REPLICA
