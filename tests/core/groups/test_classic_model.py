"""Classic groups under random interleavings: members that join, die, leave and come back, and coordinators that fail.

Each member is a small consumer that does what the protocol asks of it, one request at a time. What must hold after
every step is in the invariants; in the end, with no more disturbances, every member has its assignment again.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.base.errors import ErrorCode, Refusal
from penstock.core.groups.settings import GroupSettings
from penstock.records.internal.group_records import GROUP_RECORDS
from penstock.records.internal.group_shapes import GroupMetadataKey
from tests.core.groups.driven_shard import GROUP, DrivenShard, Waiting, subscription

SESSION_MS, REBALANCE_MS = 10_000, 20_000
COUNT_OF_MEMBERS = 4

members = st.integers(0, COUNT_OF_MEMBERS - 1)


class Member:
    """A consumer, as far as the group sees it."""

    def __init__(self, shard, number, instance_id):
        self.shard = shard
        self.number = number
        self.instance_id = instance_id
        self.topics = ("orders",)
        self.restart()

    def restart(self):
        self.member_id = ""
        self.generation = -1
        self.assignment = None
        self.joining = None
        self.syncing = None

    @property
    def is_waiting(self):
        return any(
            isinstance(each, Waiting) and not each.is_answered for each in (self.joining, self.syncing)
        )

    def step(self):
        """Send the next request, or take the answer to the last."""
        if self.is_waiting:
            return
        if self.joining is not None:
            self.take_join_answer()
        elif self.syncing is not None:
            self.take_sync_answer()
        elif self.assignment is None:
            self.join()
        else:
            self.heartbeat()

    def join(self):
        self.assignment = None
        self.joining = self.shard.join(
            self.member_id,
            instance_id=self.instance_id,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            protocols={"range": subscription(*self.topics), "sticky": subscription(*self.topics)},
        )

    def take_join_answer(self):
        answer, self.joining = self.joining, None
        answer = getattr(answer, "response", answer)
        if isinstance(answer, Refusal):
            return
        if answer.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
        elif answer.error is ErrorCode.NONE:
            self.member_id, self.generation = answer.member_id, answer.generation
            assert answer.protocol == "range"
            is_leader = answer.leader == self.member_id
            assert bool(answer.members) == is_leader
            shares = {each.member_id: share(answer.generation, each.member_id) for each in answer.members}
            if answer.skip_assignment:
                shares = {}
            self.syncing = self.shard.sync(
                self.member_id, self.generation, shares, instance_id=self.instance_id
            )
        elif answer.error is not ErrorCode.REBALANCE_IN_PROGRESS:
            assert answer.error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)
            self.restart()

    def take_sync_answer(self):
        answer, self.syncing = self.syncing, None
        answer = getattr(answer, "response", answer)
        if isinstance(answer, Refusal):
            return
        if answer.error is ErrorCode.NONE:
            self.assignment = answer.assignment
        else:
            self.take_error(answer.error)

    def heartbeat(self):
        self.take_error(self.shard.heartbeat(self.member_id, self.generation, instance_id=self.instance_id))

    def take_error(self, error):
        if error is ErrorCode.NONE:
            return
        self.assignment = None
        if error is ErrorCode.REBALANCE_IN_PROGRESS:
            return
        assert error in (
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.ILLEGAL_GENERATION,
            ErrorCode.FENCED_INSTANCE_ID,
        )
        if error is not ErrorCode.ILLEGAL_GENERATION:
            self.restart()


def share(generation, member_id):
    """What the leader of a generation gives a member: anything that tells both."""
    return f"{generation}:{member_id}".encode()


class Groups(RuleBasedStateMachine):
    @initialize(static=st.sets(members))
    def begin(self, static):
        self.shard = DrivenShard(
            GroupSettings(initial_rebalance_delay_ms=1_000, new_member_join_timeout_ms=15_000)
        )
        self.members = [
            Member(self.shard, number, f"instance-{number}" if number in static else None)
            for number in range(COUNT_OF_MEMBERS)
        ]

    @rule(number=members, times=st.integers(1, 3))
    def a_member_goes_on(self, number, times):
        for _ in range(times):
            self.members[number].step()

    @rule()
    def all_go_on(self):
        for member in self.members:
            member.step()

    @rule(number=members)
    def a_member_dies_and_restarts(self, number):
        self.members[number].restart()

    @rule(number=members)
    def a_member_leaves(self, number):
        member = self.members[number]
        if member.member_id:
            self.shard.leave((member.member_id, member.instance_id))
        member.restart()

    @rule(number=members)
    def an_administrator_removes_an_instance(self, number):
        self.shard.leave(("", f"instance-{number}"))

    @rule(number=members, topics=st.sampled_from([("orders",), ("orders", "payments"), ()]))
    def a_member_changes_its_subscription(self, number, topics):
        member = self.members[number]
        if not member.is_waiting and member.syncing is None and member.member_id:
            member.topics = topics
            member.join()

    @rule(number=members)
    def a_member_commits(self, number):
        member = self.members[number]
        answer = self.shard.commit(
            {("orders", 0): 1},
            member_id=member.member_id,
            instance_id=member.instance_id,
            generation=member.generation,
        )
        if answer == (ErrorCode.NONE,) and member.generation >= 0:
            assert member.generation == self.group.generation

    @rule(duration_ms=st.sampled_from([1, 500, 1_000, 3_000, 9_999, 10_000, 20_000]))
    def time_passes(self, duration_ms):
        self.shard.pass_time(duration_ms)

    @rule()
    def the_coordinator_fails(self):
        self.shard.fail_over()

    @rule()
    def the_group_is_deleted(self):
        self.shard.delete_group()

    @property
    def group(self):
        return self.shard.shard.groups.get(GROUP)

    @invariant()
    def the_group_knows_every_waiting_join_and_sync(self):
        """Else it would wait for ever."""
        known = set()
        for member in self.group.members.values() if self.group else ():
            known.update({member.joining, member.syncing} - {None})
        assert known == set(self.shard.waiting)

    @invariant()
    def a_session_timer_runs_for_every_member_that_does_not_wait(self):
        deadlines = self.shard.shard.deadlines
        if self.group is None:
            assert len(deadlines) == 1
            return
        for member in self.group.members.values():
            assert member.needs_no_heartbeat or self.group.session_key(member.member_id) in deadlines
        for member_id in self.group.expected:
            assert self.group.session_key(member_id) in deadlines
        assert (self.group.join_key in deadlines) == (self.group.state == "PreparingRebalance")
        if self.group.unsynced:
            assert self.group.sync_key in deadlines
        assert (self.group.state == "Empty") == (not self.group.members) or (
            self.group.state == "PreparingRebalance"
        )

    @invariant()
    def a_generation_has_one_leader_and_one_assignment(self):
        """As the log has it; a static member that came back has what its predecessor had."""
        shares, last = {}, 0
        for record in self.shard.records:
            if not isinstance(record.key, GroupMetadataKey):
                continue
            if record.value is None:
                shares, last = {}, 0
                continue
            assert record.value.generation >= last
            last = record.value.generation
            given = [member.assignment for member in record.value.members]
            assert shares.setdefault(last, given) == given

    @invariant()
    def members_have_what_the_leader_of_their_generation_gave_them(self):
        for member in self.members:
            if member.assignment and member.instance_id is None:
                assert member.assignment == share(member.generation, member.member_id)

    @invariant()
    def another_coordinator_would_know_all_that_is_settled(self):
        other = DrivenShard(self.shard.settings)
        other.log = self.shard.log
        other.now_ms = self.shard.now_ms
        other.fail_over()
        assert other.committed() == self.shard.committed()
        if self.group is not None and self.group.state in ("Stable", "Empty"):
            assert other.describe() == self.shard.describe()
            assert other.shard.groups[GROUP].generation == self.group.generation

    def teardown(self):
        """Without disturbances every member gets its assignment, all of one generation."""
        if not hasattr(self, "shard"):
            return
        for _ in range(120):
            for member in self.members:
                member.step()
            self.shard.pass_time(1_000)
        assert self.group.state == "Stable"
        assert {member.generation for member in self.members} == {self.group.generation}
        assert {member.member_id for member in self.members} == set(self.group.members)
        for member in self.members:
            assert member.assignment == self.group.members[member.member_id].assignment != b""


TestGroups = Groups.TestCase
TestGroups.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


def test_what_is_written_can_be_read_by_others():
    """The model goes through bytes: here is what they look like."""
    shard = DrivenShard()
    (member_id,) = shard.stable_group(1)
    key, value = shard.log[-1].key, shard.log[-1].value
    assert key == b"\x00\x02\x00\x07readers"
    assert value.startswith(b"\x00\x03\x00\x08consumer\x00\x00\x00\x01\x00\x05range")
    assert GROUP_RECORDS.decode(key, value).value.members[0].member_id == member_id
