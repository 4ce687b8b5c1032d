"""From a change of members or topics to the target assignment of a consumer group, and to each member.

    update_subscribed_topics   resolve regular expressions; bump the group epoch if the subscribed topics changed
    update_target_assignment   compute the target assignment if it is behind the group epoch
    reconcile_member           one member's next step to its target assignment
    remove_members             members left or were evicted, and their partitions are free

Each writes to a `Draft`. Small groups are done within the request. What takes longer (`assigned_at_once_max`,
`matched_at_once_max`) is computed beside the requests, in slices; meanwhile members keep their assignment. Which groups
are being computed is not durable: a new coordinator finds a target assignment behind the group epoch and computes it.
"""

from collections.abc import Generator, Mapping, Sequence
from typing import Final, TypeVar

from penstock.base.ids import TopicId
from penstock.core.coordinator_shard import Decision, Work
from penstock.core.deadlines import Deadlines, Key
from penstock.core.groups import consumer_records as records
from penstock.core.groups.assignors import ASSIGNORS, Assignments, Assignor, MemberToAssign
from penstock.core.groups.consumer_draft import Draft
from penstock.core.groups.consumer_group import ConsumerGroup
from penstock.core.groups.consumer_member import ConsumerMember, MemberState
from penstock.core.groups.consumer_settings import ConsumerGroupSettings, TimesOf
from penstock.core.groups.kinds import GroupTable
from penstock.core.groups.partition_sets import Assignment
from penstock.core.groups.reconciliation import reconcile
from penstock.core.groups.regex import Expression, ExpressionError, compile_expression
from penstock.core.groups.subscriptions import Topics, hash_of, matching

R = TypeVar("R")

# Members whose new targets are written in one batch: encoding them takes a few milliseconds.
_TARGETS_IN_ONE_BATCH: Final = 100
_MATCHES_NOTHING: Final = "a^"
# Of a search for topics; each takes about a millisecond at most.
_STEPS_AT_ONCE_MAX: Final = 20


class ConsumerRebalancing:
    """The steps, for all consumer groups of a shard."""

    def __init__(
        self,
        groups: GroupTable,
        deadlines: Deadlines,
        topics: Topics,
        settings: ConsumerGroupSettings,
        times_of: TimesOf,
    ) -> None:
        self._groups = groups
        self._deadlines = deadlines
        self._topics = topics
        self._settings = settings
        self._times_of = times_of
        # By group: the version of the topics that its subscriptions were last compared with.
        self._compared_version: dict[str, int] = {}
        # By group and regular expression: the version of the topics that it was last matched with, and what matched.
        self._matched: dict[str, dict[str, tuple[int, frozenset[str]]]] = {}
        self._assigning: set[str] = set()
        self._resolving: set[str] = set()

    # Timers

    @staticmethod
    def session_key(group_id: str, member_id: str) -> Key:
        return ("consumer", "session", group_id, member_id)

    @staticmethod
    def revocation_key(group_id: str, member_id: str) -> Key:
        return ("consumer", "revocation", group_id, member_id)

    @staticmethod
    def assignment_key(group_id: str) -> Key:
        return ("consumer", "assignment", group_id)

    def forget_group(self, group_id: str) -> None:
        """The group was deleted."""
        self._compared_version.pop(group_id, None)
        self._matched.pop(group_id, None)
        self._deadlines.cancel(self.assignment_key(group_id))

    # Subscriptions

    def update_subscribed_topics(self, draft: Draft, now_ms: int, *, changed: bool) -> None:
        """`changed` says that a member's subscription changed; whether topics changed is found here."""
        group = draft.group
        if not changed and self._compared_version.get(group.group_id) == self._topics.version:
            return
        self._resolve_regexes(draft, now_ms)
        changes = self._bump_epoch_if_topics_changed(draft)
        if not changes:  # else the append may fail, and the change has to be found again
            self._compared_version[group.group_id] = self._topics.version

    def _bump_epoch_if_topics_changed(self, draft: Draft) -> bool:
        """Bump the group epoch if the subscribed topics or their partitions changed; whether they did."""
        metadata_hash = hash_of(draft.group.subscribed_topics(), self._topics)
        if metadata_hash == draft.group.metadata_hash:
            return False
        draft.bump_epoch(metadata_hash)
        return True

    def _resolve_regexes(self, draft: Draft, now_ms: int) -> None:
        group = draft.group
        in_use = group.regexes_in_use()
        draft.write(
            *(records.no_regex(group.group_id, regex) for regex in group.regexes if regex not in in_use)
        )
        stale = [regex for regex in in_use if not self._is_current(draft.group, regex)]
        if not stale or group.group_id in self._resolving:
            return
        names = self._topics.names()
        version = self._topics.version
        search = matching({regex: _compiled(regex) for regex in stale}, names)
        if len(stale) * len(names) <= self._settings.matched_at_once_max:
            matched = finish_soon(search)
            if matched is not None:
                self._store_resolved(draft, matched, version, now_ms)
                return
        self._resolving.add(group.group_id)
        draft.work = self._resolve_in_slices(group.group_id, search, version, now_ms)

    def _is_current(self, group: ConsumerGroup, regex: str) -> bool:
        """Whether the log has the topics that match now; topic versions in the log are another coordinator's."""
        resolved = group.regexes.get(regex)
        matched = self._matched.get(group.group_id, {}).get(regex)
        return resolved is not None and matched == (self._topics.version, resolved.topics)

    def _store_resolved(
        self, draft: Draft, matched: Mapping[str, frozenset[str]], version: int, now_ms: int
    ) -> None:
        in_use = draft.group.regexes_in_use()
        found = self._matched.get(draft.group.group_id, {}) | {
            regex: (version, topics) for regex, topics in matched.items()
        }
        self._matched[draft.group.group_id] = {regex: found[regex] for regex in in_use if regex in found}
        for regex, topics in matched.items():
            known = draft.group.regexes.get(regex)
            if regex in in_use and (known is None or known.topics != topics):
                draft.write(
                    records.resolved_regex(
                        draft.group.group_id, regex, topics, version=version, timestamp_ms=now_ms
                    )
                )
                draft.bump_epoch()

    def _resolve_in_slices(
        self,
        group_id: str,
        search: Generator[None, None, dict[str, frozenset[str]]],
        version: int,
        now_ms: int,
    ) -> Work:
        matched = yield from search
        self._resolving.discard(group_id)
        group = self._groups.find(group_id, ConsumerGroup)
        if group is None:
            return None
        draft = Draft(group)
        self._store_resolved(draft, matched, version, now_ms)
        self._bump_epoch_if_topics_changed(draft)
        # Members may have joined with another expression, and topics been created: compare again at the next heartbeat.
        self._compared_version.pop(group_id, None)
        self.update_target_assignment(draft, now_ms)
        return draft.decision(None)

    # Assignments

    def update_target_assignment(self, draft: Draft, now_ms: int) -> None:
        """Compute the target assignment for the group epoch: at once, or in slices if the group is large."""
        group = draft.group
        if group.target_epoch >= group.epoch or not group.members or group.group_id in self._assigning:
            return
        key = self.assignment_key(group.group_id)
        if key in self._deadlines:
            return
        members, counts = self._assignor_input(group)
        if len(members) + sum(counts.values()) <= self._settings.assigned_at_once_max:
            assignments = finish(self._assignor(group)(members, counts))
            changed = _changed_targets(group, assignments)
            draft.write(*(records.target(group.group_id, *each) for each in changed.items()))
            draft.write(records.target_epoch(group.group_id, epoch=group.epoch, timestamp_ms=now_ms))
            return
        interval_ms = self._times_of(group.group_id).assignment_interval_ms
        due_ms = group.target_timestamp_ms + interval_ms
        if now_ms < due_ms or draft.work is not None:
            self._deadlines.set(key, max(now_ms, due_ms))
        else:
            self._assigning.add(group.group_id)
            draft.work = self._assign_in_slices(group.group_id, now_ms)

    def update_due_target_assignment(self, group_id: str, now_ms: int) -> Decision[None] | None:
        """Compute the target assignment that had to wait for the assignment interval."""
        group = self._groups.find(group_id, ConsumerGroup)
        if group is None:
            return None
        draft = Draft(group)
        self.update_target_assignment(draft, now_ms)
        return draft.decision(None)

    def _assignor_input(self, group: ConsumerGroup) -> tuple[list[MemberToAssign], dict[TopicId, int]]:
        ids_of: dict[frozenset[str], frozenset[TopicId]] = {}
        counts: dict[TopicId, int] = {}
        members = []
        for member in group.members.values():
            names = group.topics_of(member)
            if names not in ids_of:
                known = [topic for name in sorted(names) if (topic := self._topics.named(name)) is not None]
                counts.update((topic.topic_id, topic.partition_count) for topic in known)
                ids_of[names] = frozenset(topic.topic_id for topic in known)
            members.append(
                MemberToAssign(
                    member_id=member.member_id,
                    instance_id=member.instance_id,
                    rack_id=member.rack_id,
                    subscribed=ids_of[names],
                    assigned=_owned_part_of_target(group, member),
                )
            )
        return members, counts

    def assignor_of(self, group: ConsumerGroup) -> str:
        """The name of the assignor the group uses."""
        return group.preferred_assignor(self._settings.assignors[0])

    def _assignor(self, group: ConsumerGroup) -> Assignor:
        return ASSIGNORS[self.assignor_of(group)]

    def _assign_in_slices(self, group_id: str, now_ms: int) -> Work:
        group = self._groups.find(group_id, ConsumerGroup)
        if group is None:
            self._assigning.discard(group_id)
            return None
        epoch = group.epoch
        members, counts = self._assignor_input(group)
        yield
        assignments: Assignments = yield from self._assignor(group)(members, counts)
        return self._write_targets(group_id, epoch, list(assignments.items()), now_ms)

    def _write_targets(
        self, group_id: str, epoch: int, targets: Sequence[tuple[str, Assignment]], now_ms: int
    ) -> Decision[None] | None:
        """Write some targets now, the others after these. The target epoch comes last: after a fail-over in between,
        the target assignment is computed again."""
        group = self._groups.find(group_id, ConsumerGroup)
        if group is None:
            self._assigning.discard(group_id)
            return None
        now, later = targets[:_TARGETS_IN_ONE_BATCH], targets[_TARGETS_IN_ONE_BATCH:]
        written = [records.target(group_id, *each) for each in _changed_targets(group, dict(now)).items()]
        if later:
            return Decision(
                None, tuple(written), work=self._write_other_targets(group_id, epoch, later, now_ms)
            )
        self._assigning.discard(group_id)
        if group.epoch > epoch:
            interval_ms = self._times_of(group_id).assignment_interval_ms
            self._deadlines.set(self.assignment_key(group_id), now_ms + interval_ms)
        written.append(records.target_epoch(group_id, epoch=epoch, timestamp_ms=now_ms))
        return Decision(None, tuple(written))

    def _write_other_targets(
        self, group_id: str, epoch: int, targets: Sequence[tuple[str, Assignment]], now_ms: int
    ) -> Work:
        yield
        return self._write_targets(group_id, epoch, targets, now_ms)

    # Members

    def reconcile_member(
        self, draft: Draft, member: ConsumerMember, owned: Assignment | None, now_ms: int
    ) -> ConsumerMember:
        """The member after its next step; it has its rebalance timeout to revoke partitions."""
        group = draft.group
        moved = reconcile(
            member,
            target=group.target_of(member.member_id),
            target_epoch=group.target_epoch,
            owned=owned,
            free_of=group.free_of,
        )
        if moved is member:
            return member
        draft.write(records.member_place(group.group_id, moved))
        key = self.revocation_key(group.group_id, member.member_id)
        if moved.state is MemberState.UNREVOKED:
            self._deadlines.set(key, now_ms + moved.rebalance_timeout_ms)
        else:
            self._deadlines.cancel(key)
        return moved

    def remove_members(self, draft: Draft, member_ids: Sequence[str], now_ms: int) -> None:
        """Remove members and compute a new target assignment for the others."""
        group_id = draft.group.group_id
        for member_id in member_ids:
            draft.write(*records.no_member(group_id, member_id))
            self.cancel_timers(group_id, member_id)
        draft.bump_epoch()
        self.update_subscribed_topics(draft, now_ms, changed=True)
        self.update_target_assignment(draft, now_ms)

    def await_heartbeat(self, group_id: str, member: ConsumerMember, now_ms: int) -> None:
        timeout_ms = self._times_of(group_id).session_timeout_ms
        if member.classic is not None:
            timeout_ms = member.classic.session_timeout_ms
        self._deadlines.set(self.session_key(group_id, member.member_id), now_ms + timeout_ms)

    def await_revocation(self, group_id: str, member: ConsumerMember, now_ms: int) -> None:
        """Start the revocation timeout, unless it runs already."""
        key = self.revocation_key(group_id, member.member_id)
        if key not in self._deadlines:
            self._deadlines.set(key, now_ms + member.rebalance_timeout_ms)

    def cancel_revocation_timeout(self, group_id: str, member_id: str) -> None:
        self._deadlines.cancel(self.revocation_key(group_id, member_id))

    def cancel_timers(self, group_id: str, member_id: str) -> None:
        self._deadlines.cancel(self.session_key(group_id, member_id))
        self._deadlines.cancel(self.revocation_key(group_id, member_id))


def finish(steps: Generator[None, None, R]) -> R:
    """Run a generator to its end."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: R = end.value
            return result


def finish_soon(steps: Generator[None, None, R]) -> R | None:
    """Run a generator to its end if it has few steps; None if some are left."""
    for _ in range(_STEPS_AT_ONCE_MAX):
        try:
            next(steps)
        except StopIteration as end:
            result: R = end.value
            return result
    return None


def _owned_part_of_target(group: ConsumerGroup, member: ConsumerMember) -> Assignment:
    """The member's target, without partitions that no member owns yet: moving those revokes nothing.

    So a restarted member gets its partitions back if it rejoins before other members were told to take them.
    """
    target = group.target_of(member.member_id)
    if target == member.assigned:
        return target
    kept = ((topic_id, numbers - group.free_of(topic_id, numbers)) for topic_id, numbers in target.items())
    return {topic_id: numbers for topic_id, numbers in kept if numbers}


def _changed_targets(group: ConsumerGroup, assignments: Assignments) -> Assignments:
    """The targets that changed, of members that are still in the group."""
    return {
        member_id: assignment
        for member_id, assignment in assignments.items()
        if member_id in group.members and group.target_of(member_id) != assignment
    }


def _compiled(regex: str) -> Expression:
    """A compiled expression; one that another coordinator accepted and this one does not matches nothing."""
    try:
        return compile_expression(regex)
    except ExpressionError:
        return compile_expression(_MATCHES_NOTHING)
