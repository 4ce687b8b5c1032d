"""Offsets under random interleavings of commits, transactions, deletions, time and fail-over, against dictionaries."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.base.errors import ErrorCode
from penstock.core.groups.settings import GroupSettings
from tests.core.groups.driven_shard import DrivenShard

RETENTION_MS, CHECK_MS = 10_000, 1_000

groups = st.sampled_from(["a", "b"])
positions = st.tuples(st.sampled_from(["orders", "payments"]), st.integers(0, 1))
producers = st.integers(1, 3)
offsets = st.dictionaries(positions, st.integers(0, 1_000_000), min_size=1, max_size=4)


class Model:
    """Offsets as one would keep them if nothing ever failed: by group and position, each with the number of its
    commit and the time."""

    def __init__(self):
        self.commits = 0
        self.committed = {}
        self.pending = {}

    def commit(self, group_id, offsets, now_ms, producer_id=None):
        target = self.committed if producer_id is None else self.pending.setdefault(producer_id, {})
        for position, offset in offsets.items():
            self.commits += 1
            target[group_id, position] = self.commits, now_ms, offset

    def end(self, producer_id, *, committed):
        for place, commit in self.pending.pop(producer_id, {}).items():
            if committed and commit > self.committed.get(place, (0,)):
                self.committed[place] = commit

    def delete(self, group_id, position=None):
        for places in (self.committed, *self.pending.values()):
            for place in list(places):
                if place[0] == group_id and position in (None, place[1]):
                    del places[place]

    def expire(self, now_ms):
        """No member ever joins, so that offsets age from their commit."""
        for place, (_, committed_ms, _) in list(self.committed.items()):
            if now_ms - committed_ms >= RETENTION_MS and not self.is_open(place):
                del self.committed[place]

    def is_open(self, place):
        return any(place in pending for pending in self.pending.values())

    def groups(self):
        return {group_id for places in (self.committed, *self.pending.values()) for group_id, _ in places}


class OffsetsOfGroups(RuleBasedStateMachine):
    @initialize()
    def begin(self):
        self.shard = DrivenShard(
            GroupSettings(offsets_retention_ms=RETENTION_MS, offsets_check_interval_ms=CHECK_MS)
        )
        self.model = Model()

    @rule(group_id=groups, offsets=offsets)
    def a_consumer_commits_offsets(self, group_id, offsets):
        answer = self.shard.commit(offsets, group_id=group_id)
        assert answer == (ErrorCode.NONE,) * len(offsets)
        self.model.commit(group_id, offsets, self.shard.now_ms)

    @rule(group_id=groups, offsets=offsets, producer_id=producers)
    def a_producer_commits_offsets_in_a_transaction(self, group_id, offsets, producer_id):
        self.shard.commit(offsets, group_id=group_id, producer_id=producer_id)
        self.model.commit(group_id, offsets, self.shard.now_ms, producer_id)

    @rule(producer_id=producers, committed=st.booleans())
    def a_transaction_ends(self, producer_id, committed):
        self.shard.marker(producer_id, committed=committed)
        self.model.end(producer_id, committed=committed)

    @rule(group_id=groups, position=positions)
    def an_offset_is_deleted(self, group_id, position):
        self.shard.delete_offsets(position, group_id=group_id)
        self.model.delete(group_id, position)

    @rule(group_id=groups)
    def a_group_is_deleted(self, group_id):
        self.shard.delete_group(group_id)
        self.model.delete(group_id)

    @rule(steps=st.sampled_from([1, 2, 5, 9, 10, 11]))
    def time_passes(self, steps):
        for _ in range(steps):
            self.shard.pass_time(CHECK_MS)
            self.model.expire(self.shard.now_ms)

    @rule()
    def the_coordinator_fails(self):
        self.shard.fail_over()

    @invariant()
    def what_counts_is_what_the_model_has(self):
        for group_id in "ab":
            committed = {
                position: offset
                for (group, position), (_, _, offset) in self.model.committed.items()
                if group == group_id
            }
            assert self.shard.committed(group_id) == committed

    @invariant()
    def what_is_open_in_the_model_is_unstable(self):
        for group_id in "ab":
            for topic in "orders", "payments":
                for partition in 0, 1:
                    (answer,) = self.shard.fetch((topic, partition), group_id=group_id, require_stable=True)
                    is_open = self.model.is_open((group_id, (topic, partition)))
                    assert (answer.error is ErrorCode.UNSTABLE_OFFSET_COMMIT) == is_open

    @invariant()
    def a_group_with_offsets_is_listed_and_one_without_goes(self):
        listed = {group.group_id for group in self.shard.listed()}
        assert self.model.groups() <= listed

    def teardown(self):
        """When all transactions are over and all is old, nothing is left, neither in memory nor for the next."""
        if not hasattr(self, "shard"):
            return
        for producer_id in 1, 2, 3:
            self.shard.marker(producer_id, committed=True)
        self.shard.pass_time(RETENTION_MS + CHECK_MS)
        assert self.shard.listed() == ()
        offsets = self.shard.shard.offsets
        assert (offsets._committed, offsets._pending, offsets._open) == ({}, {}, {})
        self.shard.fail_over()
        assert self.shard.listed() == ()


TestOffsetsOfGroups = OffsetsOfGroups.TestCase
TestOffsetsOfGroups.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
