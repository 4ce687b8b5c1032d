"""Faults planted by hand in clusters, to test whether the simulation detects them.

Each patches the broker's code. `DETECTED_BY` has, for each, the seed of a `cluster_plan` that detects it;
`python -m tests.sim.find_planted` searches again. Some have a plan of their own instead (`found/`, `test_found`).
"""

import asyncio
from collections.abc import Collection
from typing import Any

import pytest

from penstock.base.errors import ErrorCode, Refusal
from penstock.cluster.metadata import NO_LEADER, PartitionState
from penstock.cluster.topic_deletions import Deletions
from penstock.cluster.topic_spec import TopicSpec
from penstock.controller import broker_registry, majority_elections
from penstock.controller.controller import Controller
from penstock.controller.controller_fencing import FencedStore
from penstock.controller.rules import isr, leader_election, majority_partitions, reassignment
from penstock.controller.rules.balancing import _Planner
from penstock.controller.rules.majority_partitions import Report
from penstock.core import producer_state, replication
from penstock.core.isr_proposals import UNKNOWN_EPOCH
from penstock.core.rejected_sequences import RejectedSequences
from penstock.core.replication import Leadership
from penstock.services.metadata_publisher import BrokerMetadataPublisher
from penstock.services.replicas.leader import LeaderRole
from penstock.services.replicas.replica import Replica
from penstock.services.replicas.replica_opener import ReplicaOpener
from penstock.services.replication.replica_appender import ReplicaAppender
from penstock.storage.recovery import _Opening
from penstock.storage.recovery_scan import RecoveryScan
from penstock.world.store import NodeExistsError, Operation
from tests.sim.planted import Plant, Planted

SEEDS_MAX = 300

PLANTED: list[Planted] = []


def planted(plant: Plant) -> Plant:
    PLANTED.append(Planted(plant.__name__, plant))
    return plant


@planted
def leader_elected_outside_the_in_sync_set(patch: pytest.MonkeyPatch) -> None:
    """The first replica that is alive leads."""

    def first(replicas: tuple[int, ...], able: Collection[int], alive: Collection[int]) -> int:
        return next((each for each in replicas if each in alive), NO_LEADER)

    patch.setattr(leader_election, "_first", first)


@planted
def leader_epoch_not_raised(patch: pytest.MonkeyPatch) -> None:
    """The next leader goes on in the epoch of the last."""

    def led(state: PartitionState, leader: int, in_sync_set: tuple[int, ...]) -> PartitionState:
        return genuine(state, leader, in_sync_set)._replace(leader_epoch=state.leader_epoch)

    genuine = leader_election.with_leader
    patch.setattr(leader_election, "with_leader", led)


@planted
def unclean_broker_stays_in_sync(patch: pytest.MonkeyPatch) -> None:
    """A broker that returns after an unclean shutdown counts as having its whole log."""

    def unfence_replica(*arguments: Any, **named: Any) -> PartitionState:
        return genuine(*arguments, **{**named, "keeps_all": True})

    genuine = leader_election.unfence_replica
    patch.setattr(broker_registry, "unfence_replica", unfence_replica)


@planted
def controller_takes_its_successors_change_for_its_own(patch: pytest.MonkeyPatch) -> None:
    """A controller that has been replaced, and does not know it, goes on: neither its epoch nor a number stops it."""

    async def attempt(self: FencedStore, operations: list[Operation]) -> None:
        try:
            await genuine(self, operations)
        except NodeExistsError:
            return

    genuine = FencedStore._try
    patch.setattr(FencedStore, "_epoch_check", lambda self: [])
    patch.setattr(FencedStore, "_try", attempt)


@planted
def high_watermark_ignores_followers(patch: pytest.MonkeyPatch) -> None:
    """acks=all is answered when the leader has it."""
    patch.setattr(Leadership, "compute_high_watermark", lambda self, own_offset: own_offset)


@planted
def high_watermark_ignores_members_not_yet_out(patch: pytest.MonkeyPatch) -> None:
    """A follower that is proposed to leave does not count any more, whatever the controller says."""

    def members(self: Leadership) -> frozenset[int]:
        return frozenset(self.agreed.isr if self.pending is None else self.pending.isr)

    patch.setattr(Leadership, "members", property(members))


@planted
def high_watermark_ignores_members_being_added(patch: pytest.MonkeyPatch) -> None:
    """A follower that is proposed counts when the leader has heard that it is in sync, and not before."""
    patch.setattr(Leadership, "members", property(lambda self: frozenset(self.agreed.isr)))


@planted
def earlier_life_of_a_follower_counts(patch: pytest.MonkeyPatch) -> None:
    """A follower is in sync with what it fetched in the life before."""
    patch.setattr(Leadership, "_is_eligible", lambda *_: True)
    patch.setattr(Leadership, "_broker_epoch", lambda *_: UNKNOWN_EPOCH)


@planted
def divergence_not_cut(patch: pytest.MonkeyPatch) -> None:
    """A follower keeps what its leader does not have."""

    async def cut(self: ReplicaAppender, *_: Any) -> None:
        await asyncio.sleep(1)  # else it asks again at once, and its leader, and that is most of the run

    patch.setattr(ReplicaAppender, "_truncate_diverging", cut)


@planted
def hole_in_a_replica_kept(patch: pytest.MonkeyPatch) -> None:
    """What a power cut tore out of a replica's log stays there as damage, and it counts as in sync."""
    patch.setattr(ReplicaOpener, "_ends_at_damage", lambda *_: False)


@planted
def gap_between_segments_of_a_replica_kept(patch: pytest.MonkeyPatch) -> None:
    """A replica that lacks whole segments in the middle of its log stays in sync."""

    def note_gap_before(self: RecoveryScan, *segments: Any) -> None:
        genuine(self, *segments)
        if self._has_ended:
            patch.setattr(self, "_config", self._config.__class__())

    genuine = RecoveryScan._note_gap_before
    patch.setattr(RecoveryScan, "_note_gap_before", note_gap_before)


@planted
def lost_beginning_of_a_replica_not_seen(patch: pytest.MonkeyPatch) -> None:
    """A log starts where a power cut has left its first segment."""
    patch.setattr(_Opening, "has_lost_its_beginning", lambda *_: False)


@planted
def epoch_goes_on_without_a_replica(patch: pytest.MonkeyPatch) -> None:
    """Who has not heard that its replica was taken away and given back counts as having what it is about to delete."""

    def reduced(state: PartitionState, alive: Collection[int], **changed: tuple[int, ...]) -> PartitionState:
        return leader_election.elect(state.changed(**{"adding": (), **changed}), alive)

    patch.setattr(reassignment, "_with_fewer_replicas", reduced)


@planted
def drained_broker_keeps_its_replicas(patch: pytest.MonkeyPatch) -> None:
    """Others lead, and that is all."""
    patch.setattr(_Planner, "_move_off_leaving", lambda _: None)


@planted
def reassignment_never_ends(patch: pytest.MonkeyPatch) -> None:
    """New replicas have caught up, and the old stay."""
    patch.setattr(isr, "complete_reassignment", lambda state, _: state)


@planted
def stray_controller_decides(patch: pytest.MonkeyPatch) -> None:
    """A broker that is not the controller, and cannot ask it, finds reasons of its own to refuse."""

    async def create_topic(self: Controller, new: TopicSpec, *, validate_only: bool = False) -> Any:
        refusal = self._plan_topic(new)
        return refusal if isinstance(refusal, Refusal) else await genuine(self, new)

    genuine = Controller.create_topic
    patch.setattr(Controller, "create_topic", create_topic)


@planted
def full_disk_stops_the_metadata(patch: pytest.MonkeyPatch) -> None:
    """A broker that cannot make room for a topic follows no further, and its controller takes the topic back."""
    patch.setattr(BrokerMetadataPublisher, "follow", BrokerMetadataPublisher.apply)


# Where majorities count.


@planted
def leader_appointed_on_one_report(patch: pytest.MonkeyPatch) -> None:
    """The controller does not wait for a majority of the replicas."""
    patch.setattr(majority_partitions, "majority_of", lambda _: 1)


@planted
def reporting_replica_follows_on(patch: pytest.MonkeyPatch) -> None:
    """A replica reports its log end before it knows that there is no leader, and goes on following the old one."""
    patch.setattr(Replica, "epoch_error", lambda *_: ErrorCode.NONE)
    patch.setattr(Replica, "report", lambda self: (self.log.epochs.latest_epoch, self.log.end_offset))


@planted
def half_of_the_replicas_counts(patch: pytest.MonkeyPatch) -> None:
    """A leader takes what half of the replicas have for safe."""
    patch.setattr(replication, "majority_of", lambda count: max(1, count // 2))


@planted
def doubtful_replica_reports(patch: pytest.MonkeyPatch) -> None:
    """With majority election, a broker that returns counts as having all that it acknowledged."""

    def unfence_replica(*arguments: Any, **named: Any) -> PartitionState:
        return genuine(*arguments, **{**named, "keeps_all": True})

    genuine = majority_partitions.unfence_replica
    patch.setattr(majority_partitions, "unfence_replica", unfence_replica)


@planted
def leader_with_the_longest_log_appointed(patch: pytest.MonkeyPatch) -> None:
    """The end of a log counts, and not in which epoch it was written."""

    def choose_leader(state: PartitionState, reports: Any, **named: Any) -> int:
        return genuine(state, {each: Report(0, reports[each].end_offset) for each in reports}, **named)

    genuine = majority_partitions.choose_leader
    patch.setattr(majority_elections, "choose_leader", choose_leader)


@planted
def leader_begins_without_a_record_of_its_own(patch: pytest.MonkeyPatch) -> None:
    """What older leaders wrote is safe as soon as a majority has it."""

    def high_watermark(self: Leadership, own_offset: int) -> int:
        self.start_offset, before = -1, self.start_offset
        try:
            return genuine(self, own_offset)
        finally:
            self.start_offset = before

    genuine = Leadership.compute_high_watermark
    patch.setattr(Leadership, "compute_high_watermark", high_watermark)
    patch.setattr(LeaderRole, "_write_leader_change", lambda self: None)


@planted
def deletions_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Topic deletions are not recorded: a broker that was away keeps the deleted topics' partitions."""
    patch.setattr(Deletions, "add", lambda self, deletions: None)


@planted
def snapshot_knows_one_batch_of_a_producer(patch: pytest.MonkeyPatch) -> None:
    """As in Kafka: a producer with several batches in flight may repeat an earlier one."""
    patch.setattr(producer_state, "_PRODUCERS_WITH_EARLIER", 0)


@planted
def gap_of_the_brokers_making_is_out_of_order(patch: pytest.MonkeyPatch) -> None:
    """The sequences that the broker itself rejected are forgotten."""
    patch.setattr(RejectedSequences, "reason", lambda self, header, *, now_ms: None)


# A seed that detects each.
DETECTED_BY: dict[str, int] = {
    "leader_elected_outside_the_in_sync_set": 3,
    "unclean_broker_stays_in_sync": 5,
    "high_watermark_ignores_followers": 6,
    "divergence_not_cut": 4,
    "hole_in_a_replica_kept": 21,
    "lost_beginning_of_a_replica_not_seen": 57,
    "drained_broker_keeps_its_replicas": 5,
    "reassignment_never_ends": 4,
    "deletions_forgotten": 43,
}

# No seed is known for these: they need several things to come together that plans seldom have.
NOT_DETECTED_YET = (
    "leader_epoch_not_raised",
    "controller_takes_its_successors_change_for_its_own",
    "high_watermark_ignores_members_not_yet_out",
    "high_watermark_ignores_members_being_added",
    "earlier_life_of_a_follower_counts",
    "gap_between_segments_of_a_replica_kept",
    # tests/controller/rules/test_majorities.py sees these.
    "leader_appointed_on_one_report",  # seed 17 did before plans had moves
    "doubtful_replica_reports",  # also detected before plans had moves
    "reporting_replica_follows_on",
    "half_of_the_replicas_counts",
    "leader_with_the_longest_log_appointed",
    "leader_begins_without_a_record_of_its_own",
    "epoch_goes_on_without_a_replica",  # seed 30376 sees it, out of some seven hundred
    "stray_controller_decides",
    "full_disk_stops_the_metadata",
    # Ten times as many operations would do. tests/services/replication/test_in_sync.py sees it.
    "gap_of_the_brokers_making_is_out_of_order",
    # None of the first 300 does any more; tests/core/test_producer_state.py sees it.
    "snapshot_knows_one_batch_of_a_producer",
)
