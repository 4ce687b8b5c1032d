"""ConsumerGroupHeartbeat: members join, stay, change their subscriptions, and leave.

The responses are those of Kafka 4.3.1, by member epoch:

    0     joins, or rejoins if it is a member: the response has its epoch and its whole assignment
    > 0   stays; the previous epoch is accepted too if the response with the current one may have got lost
    -1    leaves
    -2    a static member leaves temporarily: it owns its partitions until its session times out, and a member that
          joins with its instance id gets them
"""

from dataclasses import replace

from penstock.base.errors import ErrorCode, Refusal
from penstock.core.coordinator_shard import Decision
from penstock.core.groups import consumer_records as records
from penstock.core.groups.consumer_draft import Draft
from penstock.core.groups.consumer_group import ConsumerGroup
from penstock.core.groups.consumer_member import AWAY, JOINING, LEAVING, ConsumerMember, MemberState
from penstock.core.groups.consumer_rebalancing import ConsumerRebalancing
from penstock.core.groups.consumer_requests import UNCHANGED, ConsumerHeartbeat, HeartbeatAnswer, check
from penstock.core.groups.consumer_settings import ConsumerGroupSettings, TimesOf
from penstock.core.groups.kinds import GroupTable
from penstock.core.groups.migration import Migration
from penstock.core.groups.partition_sets import Assignment, is_within
from penstock.core.groups.regex import ExpressionError, compile_expression


class ConsumerHeartbeats:
    """ConsumerGroupHeartbeat, for all consumer groups of a shard."""

    def __init__(
        self,
        groups: GroupTable,
        rebalancing: ConsumerRebalancing,
        migration: Migration,
        settings: ConsumerGroupSettings,
        times_of: TimesOf,
    ) -> None:
        self._groups = groups
        self._rebalancing = rebalancing
        self._migration = migration
        self._settings = settings
        self._times_of = times_of

    def heartbeat(self, request: ConsumerHeartbeat, now_ms: int) -> Decision[HeartbeatAnswer]:
        refusal = check(request, self._settings.assignors)
        if refusal is not None:
            return Decision(refusal)
        if request.member_epoch in (LEAVING, AWAY):
            return self._leave(request, now_ms)
        draft = self._open(request)
        if isinstance(draft, Refusal):
            return Decision(draft)
        member = self._find(draft, request)
        if isinstance(member, Refusal):
            return Decision(member)
        described = _described(member, request)
        refusal = _check_regex(draft.group, request.subscribed_regex)
        if refusal is not None:
            return Decision(refusal)
        self._migration.release(draft, now_ms)
        return self._carry_on(draft, member, described, request, now_ms)

    def _carry_on(
        self,
        draft: Draft,
        member: ConsumerMember,
        described: ConsumerMember,
        request: ConsumerHeartbeat,
        now_ms: int,
    ) -> Decision[HeartbeatAnswer]:
        """The request is valid: update the member and its group, and take the member's next step."""
        group_id = draft.group.group_id
        if described != draft.group.members.get(described.member_id):
            draft.write(records.member_description(group_id, described))
        changed = _subscribes_differently(described, member)
        if described.subscribed_names != member.subscribed_names:
            draft.bump_epoch()
        self._rebalancing.update_subscribed_topics(draft, now_ms, changed=changed)
        self._rebalancing.update_target_assignment(draft, now_ms)
        moved = self._rebalancing.reconcile_member(draft, described, request.owned, now_ms)
        self._rebalancing.await_heartbeat(group_id, moved, now_ms)
        # A member that owns other partitions than assigned has not got our last response, or not yet acted on it.
        knows = request.owned is None or request.owned == moved.assigned
        has_news = moved.assigned != member.assigned or request.member_epoch != member.epoch
        tell_all = request.is_full or has_news or not knows
        return draft.decision(
            HeartbeatAnswer(
                member_id=moved.member_id,
                member_epoch=moved.epoch,
                heartbeat_interval_ms=self._times_of(group_id).heartbeat_interval_ms,
                assignment=moved.assigned if tell_all else None,
            )
        )

    def _open(self, request: ConsumerHeartbeat) -> Draft | Refusal:
        """The group that the member is in or joins: a new one, or one upgraded from the classic protocol."""
        group = self._groups.find(request.group_id, ConsumerGroup)
        if group is not None:
            return Draft(group)
        if request.member_epoch != JOINING:
            return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {request.group_id} not found.")
        other = self._groups.get(request.group_id)
        return Draft.of_new_group(request.group_id) if other is None else self._migration.upgrade(other)

    # Finding the member

    def _find(self, draft: Draft, request: ConsumerHeartbeat) -> ConsumerMember | Refusal:
        """The member that sent the request; a new one if it joins."""
        group = draft.group
        static = None if request.instance_id is None else group.static_member(request.instance_id)
        if request.member_epoch == JOINING:
            if static is not None:
                return self._take_over(draft, static, request)
            return self._join(group, request)
        if request.instance_id is not None:
            if static is None:
                return Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {request.instance_id} is unknown.")
            if static.member_id != request.member_id:
                return _fenced(static, request)
        member = group.members.get(request.member_id)
        if member is None:
            return _unknown(request)
        return _check_epoch(member, request.member_epoch, request.owned) or member

    def _join(self, group: ConsumerGroup, request: ConsumerHeartbeat) -> ConsumerMember | Refusal:
        member_id = request.member_id or request.new_member_id
        member = group.members.get(member_id)
        if member is not None:
            return member
        if len(group.members) >= self._settings.members_max:
            return Refusal(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The consumer group has reached its maximum capacity of {self._settings.members_max} members.",
            )
        return ConsumerMember(member_id=member_id)

    def _take_over(
        self, draft: Draft, static: ConsumerMember, request: ConsumerHeartbeat
    ) -> ConsumerMember | Refusal:
        """A static member rejoins under another member id: it gets its partitions back."""
        if not static.is_away and static.classic is None:
            return Refusal(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Static member {request.member_id} with instance id {request.instance_id} cannot join the group "
                f"because the instance id is owned by {static.member_id} member.",
            )
        return replace_static(draft, static, request.member_id or request.new_member_id, self._rebalancing)

    # Leaving

    def _leave(self, request: ConsumerHeartbeat, now_ms: int) -> Decision[HeartbeatAnswer]:
        group = self._groups.find(request.group_id, ConsumerGroup)
        if group is None:
            return Decision.refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} not found.")
        draft = Draft(group)
        member = _leaving_member(group, request)
        if isinstance(member, Refusal):
            return Decision(member)
        answer = HeartbeatAnswer(member_id=request.member_id, member_epoch=request.member_epoch)
        if request.member_epoch == AWAY:
            away = replace(member, epoch=AWAY, previous_epoch=member.epoch)
            draft.write(records.member_place(group.group_id, away))
        else:
            self._rebalancing.remove_members(draft, [member.member_id], now_ms)
            self._migration.downgrade_if_due(group, draft, now_ms)
        return draft.decision(answer)


def replace_static(
    draft: Draft, old: ConsumerMember, member_id: str, rebalancing: ConsumerRebalancing
) -> ConsumerMember:
    """A new process with the same instance id: it owns nothing yet, and gets the target assignment of the old one."""
    group_id = draft.group.group_id
    target = draft.group.target_of(old.member_id)
    draft.write(*records.no_member(group_id, old.member_id))
    rebalancing.cancel_timers(group_id, old.member_id)
    new = replace(
        old,
        member_id=member_id,
        epoch=JOINING,
        previous_epoch=JOINING,
        state=MemberState.STABLE,
        pending_revocation={},
        classic=None,
    )
    draft.write(records.target(group_id, member_id, target))
    draft.write(records.member_description(group_id, new), records.member_place(group_id, new))
    return new


def _leaving_member(group: ConsumerGroup, request: ConsumerHeartbeat) -> ConsumerMember | Refusal:
    if request.instance_id is None:
        return group.members.get(request.member_id) or _unknown(request)
    static = group.static_member(request.instance_id)
    if static is None:
        return Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {request.instance_id} is unknown.")
    return static if static.member_id == request.member_id else _fenced(static, request)


def _unknown(request: ConsumerHeartbeat) -> Refusal:
    return Refusal(
        ErrorCode.UNKNOWN_MEMBER_ID,
        f"Member {request.member_id} is not a member of group {request.group_id}.",
    )


def _fenced(static: ConsumerMember, request: ConsumerHeartbeat) -> Refusal:
    return Refusal(
        ErrorCode.FENCED_INSTANCE_ID,
        f"Static member {request.member_id} with instance id {request.instance_id} was fenced by member "
        f"{static.member_id}.",
    )


def _check_epoch(member: ConsumerMember, epoch: int, owned: Assignment | None) -> Refusal | None:
    if epoch == member.epoch:
        return None
    may_have_missed_an_answer = (
        epoch == member.previous_epoch and owned is not None and is_within(owned, member.assigned)
    )
    if epoch < member.epoch and may_have_missed_an_answer:
        return None
    compared = "greater" if epoch > member.epoch else "smaller"
    return Refusal(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {compared} member epoch ({epoch}) than the one known by the group "
        f"coordinator ({member.epoch}). The member must abandon all its partitions and rejoin.",
    )


def _described(member: ConsumerMember, request: ConsumerHeartbeat) -> ConsumerMember:
    """The member with the metadata of this request; from now on it speaks the consumer protocol."""
    described = replace(
        member,
        instance_id=request.instance_id if request.instance_id is not None else member.instance_id,
        rack_id=request.rack_id if request.rack_id is not None else member.rack_id,
        client_id=request.client.client_id,
        client_host=request.client.host,
        classic=None,
    )
    if request.rebalance_timeout_ms != UNCHANGED:
        described = replace(described, rebalance_timeout_ms=request.rebalance_timeout_ms)
    if request.server_assignor is not None:
        described = replace(described, server_assignor=request.server_assignor)
    if request.subscribed_names is not None:
        described = replace(described, subscribed_names=frozenset(request.subscribed_names))
    if request.subscribed_regex is not None:
        described = replace(described, subscribed_regex=request.subscribed_regex or None)
    return member if described == member else described


def _subscribes_differently(one: ConsumerMember, other: ConsumerMember) -> bool:
    return (one.subscribed_names, one.subscribed_regex) != (other.subscribed_names, other.subscribed_regex)


def _check_regex(group: ConsumerGroup, regex: str | None) -> Refusal | None:
    if regex is None or regex in group.regexes:
        return None
    try:
        compile_expression(regex)
    except ExpressionError as error:
        return Refusal(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {error.reason}.",
        )
    return None
