"""What a leader and the controller say to each other about an ISR: a `Proposal`, and the `Verdict` on it.

The leader's side is `services.replication.isr_manager`, the controller's `controller.rules.isr`. Between two brokers
both travel as AlterPartition: `controller.controller_link` and `apis.k56_alter_partition` translate.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from penstock.base.errors import ErrorCode
from penstock.base.ids import TopicIdPartition

UNKNOWN_EPOCH: Final = -1


class Proposal(NamedTuple):
    """The ISR that a leader asks the controller for, and the state of the partition that it is based on."""

    isr: tuple[int, ...]
    broker_epochs: tuple[
        int, ...
    ]  # of each member, from its last fetch; UNKNOWN_EPOCH if it has not fetched yet
    leader_epoch: int
    partition_epoch: int


class ProposalOutcome(Enum):
    """What a verdict means for the proposal."""

    ACCEPTED = "the verdict holds the ISR that counts now"
    REJECTED = "nothing has changed, and the proposal can no longer be accepted: the ISR is as before"
    SUPERSEDED = "newer metadata, which is still to come, holds the ISR; until then both sets count"
    UNKNOWN = "the proposal may have been accepted or not: it is sent again"


_OUTCOMES: Final[Mapping[ErrorCode, ProposalOutcome]] = {
    ErrorCode.NONE: ProposalOutcome.ACCEPTED,
    # With these two the controller says that the partition epoch is the current one and that it changed nothing: then
    # no controller before or after it can have accepted the proposal either.
    ErrorCode.INELIGIBLE_REPLICA: ProposalOutcome.REJECTED,
    ErrorCode.OPERATION_NOT_ATTEMPTED: ProposalOutcome.REJECTED,
    ErrorCode.FENCED_LEADER_EPOCH: ProposalOutcome.SUPERSEDED,
    ErrorCode.INVALID_REQUEST: ProposalOutcome.SUPERSEDED,
    ErrorCode.INVALID_UPDATE_VERSION: ProposalOutcome.SUPERSEDED,
    ErrorCode.NEW_LEADER_ELECTED: ProposalOutcome.SUPERSEDED,
    ErrorCode.UNKNOWN_TOPIC_ID: ProposalOutcome.SUPERSEDED,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ProposalOutcome.SUPERSEDED,
}


class Verdict(NamedTuple):
    """The controller's answer to a proposal: an error, or the partition's state as it is now."""

    error: ErrorCode = ErrorCode.NONE
    leader: int = -1
    leader_epoch: int = UNKNOWN_EPOCH
    isr: tuple[int, ...] = ()
    partition_epoch: int = UNKNOWN_EPOCH

    @property
    def outcome(self) -> ProposalOutcome:
        return _OUTCOMES.get(self.error, ProposalOutcome.UNKNOWN)


Proposals: TypeAlias = Mapping[TopicIdPartition, Proposal]
Verdicts: TypeAlias = Mapping[TopicIdPartition, Verdict]
