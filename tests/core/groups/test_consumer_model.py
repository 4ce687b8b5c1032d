"""Random stories of a group, with fail-over at any step: no partition in two hands, and all assigned in the end."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.base.errors import Refusal
from penstock.core.groups.consumer_group import ConsumerGroup
from penstock.core.groups.consumer_settings import GroupTimes
from penstock.core.groups.partition_sets import NOTHING, count, is_within
from tests.core.groups.driven_consumers import Consumer, DrivenConsumers, KnownTopics
from tests.core.groups.driven_shard import GROUP

NAMES = ("a", "b", "c")
MEMBERS = ("m1", "m2", "m3", "m4")
members = st.sampled_from(MEMBERS)


class GroupStories(RuleBasedStateMachine):
    """The model: what each consumer believes to own, from the answers it got."""

    @initialize(at_once=st.booleans(), counts=st.tuples(*(st.integers(1, 5) for _ in NAMES)))
    def begin(self, at_once, counts):
        topics = KnownTopics(**dict(zip(NAMES, counts, strict=True)))
        limits = {} if at_once else {"assigned_at_once_max": 0, "matched_at_once_max": 0}
        times = GroupTimes(assignment_interval_ms=1_000)
        self.shard = DrivenConsumers(topics, times=times, **limits)
        self.shard.holds_work = not at_once
        self.consumers = {}

    @rule(
        member_id=members,
        topics=st.sets(st.sampled_from(NAMES)),
        regex=st.sampled_from([None, "[ab]", "c.*"]),
    )
    def enter(self, member_id, topics, regex):
        consumer = self.consumers.get(member_id)
        if consumer is None:
            fields = {"subscribed_names": sorted(topics), "subscribed_regex": regex}
            consumer = self.consumers[member_id] = Consumer(self.shard, member_id, **fields)
        assert not isinstance(consumer.enter(), Refusal)

    @rule(member_id=members)
    def beat(self, member_id):
        """A fenced member abandons its partitions and joins again, as the response demands."""
        consumer = self.consumers.get(member_id)
        if consumer is not None and isinstance(consumer.beat(), Refusal):
            consumer.enter()

    @rule(member_id=members)
    def beat_whose_answer_is_lost(self, member_id):
        consumer = self.consumers.get(member_id)
        if consumer is not None:
            self.shard.beat(member_id, consumer.epoch, owned=consumer.owned)

    @rule(member_id=members)
    def leave(self, member_id):
        consumer = self.consumers.pop(member_id, None)
        if consumer is not None:
            consumer.leave()

    @rule(name=st.sampled_from(NAMES), more=st.integers(1, 3))
    def grow(self, name, more):
        self.shard.topics.put(name, self.shard.topics.named(name).partition_count + more)

    @rule(steps=st.integers(1, 30))
    def work(self, steps):
        for _ in range(steps):
            if self.shard.work:
                self.shard.step()

    @rule(duration_ms=st.sampled_from([500, 5_000, 30_000]))
    def pass_time(self, duration_ms):
        self.shard.pass_time(duration_ms)
        group = self.shard.shard.groups.get(GROUP)
        for member_id in list(self.consumers):
            if not isinstance(group, ConsumerGroup) or member_id not in group.members:
                del self.consumers[member_id]  # its session is over: it stops reading

    @rule()
    def fail_over(self):
        before = _durable(self.shard)
        self.shard.fail_over()
        assert _durable(self.shard) == before

    @invariant()
    def no_partition_is_owned_twice(self):
        self.shard.owned_by_all(*self.consumers.values())

    @invariant()
    def the_coordinator_knows_of_everything_that_is_owned(self):
        group = self.shard.shard.groups.get(GROUP)
        for member_id, consumer in self.consumers.items():
            assert is_within(consumer.owned, group.members[member_id].held)

    def teardown(self):
        """Left alone, the group comes to rest: everything that is subscribed to is owned."""
        if not getattr(self, "consumers", None):
            return
        for _ in range(12):
            while self.shard.work:
                self.shard.step()
            self.shard.pass_time(1_000)
            for member_id in self.consumers:
                self.beat(member_id)
        if self.consumers:
            group = self.shard.group
            assert group.state_name == "Stable"
            assert group.members.keys() == self.consumers.keys()
            topics = [self.shard.topics.named(name) for name in group.subscribed_topics()]
            assert self.shard.owned_by_all(*self.consumers.values()) == sum(
                topic.partition_count for topic in topics if topic is not None
            )
            for consumer in self.consumers.values():
                assert count(consumer.owned) == count(group.target_of(consumer.member_id) or NOTHING)


def _durable(shard):
    group = shard.shard.groups.get(GROUP)
    return None if group is None else vars(group)


TestGroupStories = GroupStories.TestCase
TestGroupStories.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
