"""A third kind of group, known to this module alone: the shard lists, describes, deletes and expires its groups,
replays its records and fires its timers, and neither the shard nor the other kinds had to be changed for it.

The kind: a lease, which one member holds until its timer fires.
"""

import pytest

from penstock.base.errors import ErrorCode, Refusal
from penstock.core.coordinator_shard import Decision
from penstock.core.groups.group import GroupType
from penstock.core.groups.kinds import GroupKind
from penstock.records.internal.group_records import GROUP_RECORDS
from penstock.records.internal.record import InternalRecord, RecordFormat, RecordKey, RecordType, RecordValue
from penstock.schema import words
from tests.core.groups.driven_consumers import DrivenConsumers
from tests.core.groups.driven_shard import GROUP

LEASE_MS = 1_000
RETENTION_MS = 7 * 24 * 60 * 60_000


class LeaseKey(RecordKey):
    TYPE = 99
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = None

    group: str = words.string("0")


class LeaseValue(RecordValue):
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = None

    member_id: str = words.string("0")


class LeaseGroup:
    """Implements `group.Group`."""

    type = GroupType.SHARE
    replaceable_by = frozenset()
    protocol_type = "lease"

    def __init__(self, group_id):
        self.group_id = group_id
        self.member_id = ""

    @property
    def state_name(self):
        return "Empty" if self.is_empty else "Stable"

    @property
    def is_empty(self):
        return not self.member_id

    def check_commit(self, *, member_id, **_):
        return ErrorCode.NONE if member_id == self.member_id else ErrorCode.UNKNOWN_MEMBER_ID

    def committed(self, *, member_id, now_ms):
        pass

    def check_fetch(self, *, member_id, member_epoch):
        return ErrorCode.NONE

    def check_offset_delete(self):
        return ErrorCode.NONE

    def is_subscribed_to(self, topic):
        return not self.is_empty

    def offsets_age_from_ms(self, commit_timestamp_ms):
        return commit_timestamp_ms

    def tombstones(self):
        return [InternalRecord(LeaseKey(group=self.group_id), None)]


class LeaseGroups(GroupKind):
    group_type = GroupType.SHARE
    record_keys = (LeaseKey,)

    def __init__(self, shard):
        self._groups = shard.groups
        self._deadlines = shard.deadlines

    def take_lease(self, group_id, member_id, now_ms):
        group = self._groups.get(group_id)
        if group is not None and group.type is not self.group_type:
            return Decision.refused(ErrorCode.GROUP_ID_NOT_FOUND)
        self._start_timer(group_id, now_ms)
        return Decision(None, (InternalRecord(LeaseKey(group=group_id), LeaseValue(member_id=member_id)),))

    def describe_lease(self, group_id):
        group = self._groups.find(group_id, LeaseGroup)
        return Decision.refused(ErrorCode.GROUP_ID_NOT_FOUND) if group is None else Decision(group.member_id)

    def replay(self, record):
        group_id = record.key.group
        if record.value is not None:
            group = self._groups.find(group_id, LeaseGroup)
            if group is None:
                group = self._groups[group_id] = LeaseGroup(group_id)
            group.member_id = record.value.member_id
        elif self._groups.find(group_id, LeaseGroup) is not None:
            del self._groups[group_id]

    def loaded(self, now_ms):
        for group in self._groups.all_of(LeaseGroup):
            if not group.is_empty:
                self._start_timer(group.group_id, now_ms)

    def expire(self, key, now_ms):
        yield Decision(None, (InternalRecord(LeaseKey(group=key[1]), LeaseValue(member_id="")),))

    def _start_timer(self, group_id, now_ms):
        self._deadlines.set((self.group_type, group_id), now_ms + LEASE_MS)


class WithLeases(RecordFormat):
    """All records of the topic, and the lease's."""

    def __init__(self):
        super().__init__(RecordType(LeaseKey, LeaseValue, 0))
        self._types = {**GROUP_RECORDS._types, **self._types}


class DrivenLeases(DrivenConsumers):
    """A shard with classic, consumer and lease groups."""

    def __init__(self):
        super().__init__(more_kinds=[LeaseGroups], record_format=WithLeases())

    def take_lease(self, member_id, group_id="lease"):
        return self.carry_out(self.shard.kind(LeaseGroups).take_lease(group_id, member_id, self.now_ms))

    def describe_lease(self, group_id="lease"):
        return self.carry_out(self.shard.kind(LeaseGroups).describe_lease(group_id))


@pytest.fixture
def shard():
    shard = DrivenLeases()
    shard.take_lease("m")
    return shard


def test_a_group_of_a_new_kind_is_listed_among_the_others(shard):
    shard.stable_group()
    shard.enter("consumer", group_id="consumers")
    shard.take_lease("m")
    listed = [(group.group_id, group.protocol_type, group.state, group.type) for group in shard.listed()]
    assert listed == [
        ("lease", "lease", "Stable", "share"),
        (GROUP, "consumer", "Stable", "classic"),
        ("consumers", "consumer", "Stable", "consumer"),
    ]
    assert [group.group_id for group in shard.listed(types=["Share"])] == ["lease"]


def test_a_group_of_a_new_kind_is_described_by_its_own_request_only(shard):
    assert shard.describe_lease() == "m"
    not_classic = Refusal(ErrorCode.GROUP_ID_NOT_FOUND, "Group lease is not a classic group.")
    assert shard.describe("lease") == not_classic
    not_consumer = Refusal(ErrorCode.GROUP_ID_NOT_FOUND, "Group lease is not a consumer group.")
    assert shard.describe_consumers("lease") == not_consumer
    shard.stable_group()
    assert shard.describe_lease(GROUP).code is ErrorCode.GROUP_ID_NOT_FOUND


def test_its_timers_fire_and_start_again_after_a_fail_over(shard):
    shard.pass_time(LEASE_MS - 1)
    shard.fail_over()
    shard.pass_time(LEASE_MS - 1)
    assert shard.describe_lease() == "m"
    shard.pass_time(1)
    assert shard.describe_lease() == ""


def test_a_group_of_a_new_kind_is_deleted_once_it_is_empty(shard):
    assert shard.delete_group("lease") == Refusal(ErrorCode.NON_EMPTY_GROUP)
    shard.commit({("orders", 0): 1}, group_id="lease", member_id="m")
    shard.pass_time(LEASE_MS)
    assert shard.delete_group("lease") is None
    assert (shard.listed(), shard.committed("lease")) == ((), {})
    shard.fail_over()
    assert (shard.listed(), shard.committed("lease")) == ((), {})


def test_it_says_whose_commits_it_takes_and_when_offsets_expire(shard):
    stranger = shard.commit({("orders", 0): 1}, group_id="lease", member_id="stranger")
    assert stranger == Refusal(ErrorCode.UNKNOWN_MEMBER_ID)
    assert shard.commit({("orders", 0): 1}, group_id="lease", member_id="m") == (ErrorCode.NONE,)
    assert shard.committed("lease") == {("orders", 0): 1}
    shard.pass_time(2 * RETENTION_MS)
    assert (shard.listed(), shard.committed("lease")) == ((), {})


def test_offsets_of_its_members_do_not_expire(shard):
    shard.commit({("orders", 0): 1}, group_id="lease", member_id="m")
    for _ in range(20):
        shard.now_ms += RETENTION_MS // 10
        shard.take_lease("m")
        shard.pass_time(1)
    assert shard.committed("lease") == {("orders", 0): 1}


def test_members_of_other_kinds_are_rejected(shard):
    assert shard.join(group_id="lease").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert shard.sync("m", 1, group_id="lease").error is ErrorCode.UNKNOWN_MEMBER_ID
    assert shard.heartbeat("m", 1, group_id="lease") is ErrorCode.UNKNOWN_MEMBER_ID
    assert shard.await_rebalance("m", 1, group_id="lease") is ErrorCode.NONE
    assert shard.leave("m", group_id="lease").code is ErrorCode.UNKNOWN_MEMBER_ID
    assert shard.enter("consumer", group_id="lease").code is ErrorCode.GROUP_ID_NOT_FOUND
    assert shard.beat("consumer", 1, group_id="lease").code is ErrorCode.GROUP_ID_NOT_FOUND
    assert shard.beat("consumer", -1, group_id="lease").code is ErrorCode.GROUP_ID_NOT_FOUND
    assert shard.describe_lease() == "m"


def test_it_is_not_replaced_while_it_is_empty_unless_it_says_so(shard):
    shard.pass_time(LEASE_MS)
    assert shard.join(group_id="lease").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert shard.enter("consumer", group_id="lease").code is ErrorCode.GROUP_ID_NOT_FOUND
    shard.shard.groups["lease"].replaceable_by = frozenset({GroupType.CLASSIC, GroupType.CONSUMER})
    assert shard.join(group_id="lease").error is ErrorCode.MEMBER_ID_REQUIRED
    assert [group.type for group in shard.listed()] == ["classic"]
