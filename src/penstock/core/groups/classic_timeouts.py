"""The timers of classic groups: sessions, rebalances, SyncGroup, and held heartbeats."""

from penstock.base.errors import ErrorCode
from penstock.core.deadlines import Key
from penstock.core.groups.classic_group import (
    COMPLETING_REBALANCE,
    PREPARING_REBALANCE,
    STABLE,
    ClassicGroup,
)
from penstock.core.groups.classic_rebalance import ClassicRebalancing
from penstock.core.groups.effects import Effects
from penstock.core.groups.settings import GroupSettings


class ClassicTimeouts:
    """What happens to a group when one of its timers is due."""

    def __init__(self, settings: GroupSettings, rebalancing: ClassicRebalancing) -> None:
        self._settings = settings
        self._rebalancing = rebalancing

    def loaded(self, group: ClassicGroup, now_ms: int) -> None:
        """Another coordinator had this group: each member gets a full session timeout to send a heartbeat."""
        for member in group.members.values():
            group.await_heartbeat(member, now_ms)
        if len(group.members) > self._settings.members_max:
            self._rebalancing.begin(group, now_ms, Effects())

    def expire(self, group: ClassicGroup, key: Key, now_ms: int, effects: Effects) -> None:
        """A timer of the group, by its key, is due."""
        match key[1]:
            case "join":
                self._rebalancing.rebalance_timed_out(group, now_ms, effects)
            case "sync":
                self._rebalancing.sync_timed_out(group, now_ms, effects)
            case "hold":
                self._heartbeat_held_long_enough(group, key[3], effects)
            case _:
                self._session_timed_out(group, key[3], now_ms, effects)

    def _heartbeat_held_long_enough(self, group: ClassicGroup, member_id: str, effects: Effects) -> None:
        member = group.members.get(member_id)
        if member is not None:
            member.answer_heartbeat(ErrorCode.REQUEST_TIMED_OUT, effects)

    def _session_timed_out(self, group: ClassicGroup, member_id: str, now_ms: int, effects: Effects) -> None:
        """Evict the member, or forget the member id that was given out and not used."""
        member = group.members.get(member_id)
        if member is not None and member.needs_no_heartbeat:
            return  # its session starts again when its JoinGroup or SyncGroup is answered
        if member is None and member_id not in group.expected:
            return
        group.evict(member_id, effects)
        if member is not None and group.state in (STABLE, COMPLETING_REBALANCE):
            self._rebalancing.begin(group, now_ms, effects)
        elif group.state is PREPARING_REBALANCE and group.all_joined:
            self._rebalancing.complete_join(group, now_ms, effects)
