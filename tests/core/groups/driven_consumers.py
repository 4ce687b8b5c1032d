"""A shard whose groups speak the consumer protocol: topics that change, consumers that behave, work in slices."""

from itertools import count

from penstock.base.ids import TopicId
from penstock.core.groups.consumer_groups import ConsumerGroups, consumer_groups
from penstock.core.groups.consumer_requests import ConsumerHeartbeat
from penstock.core.groups.consumer_settings import ConsumerGroupSettings, GroupTimes
from penstock.core.groups.partition_sets import NOTHING
from penstock.core.groups.requests import ClientInfo
from penstock.core.groups.subscriptions import SubscribableTopic
from penstock.records.internal.group_records import GROUP_RECORDS
from tests.core.groups.driven_shard import GROUP, SETTINGS, DrivenShard


class KnownTopics:
    """Implements `subscriptions.Topics`."""

    def __init__(self, **partition_counts):
        self.version = 0
        self._topics = {}
        self._ids = count(1)
        for name, partition_count in partition_counts.items():
            self.put(name, partition_count)

    def put(self, name, partition_count):
        """Create the topic, or give it more partitions."""
        self.version += 1
        known = self._topics.get(name)
        topic_id = TopicId(next(self._ids).to_bytes(16, "big")) if known is None else known.topic_id
        self._topics[name] = SubscribableTopic(name, topic_id, partition_count)

    def delete(self, name):
        self.version += 1
        del self._topics[name]

    def named(self, name):
        return self._topics.get(name)

    def with_id(self, topic_id):
        return next((topic for topic in self._topics.values() if topic.topic_id == topic_id), None)

    def names(self):
        return list(self._topics)

    def partitions(self, **partitions):
        """An assignment by names: `partitions(orders=[0, 1])`."""
        return {self._topics[name].topic_id: frozenset(numbers) for name, numbers in partitions.items()}


class DrivenConsumers(DrivenShard):
    """Work is done at once unless `holds_work` is set; then `step` does one slice of it."""

    def __init__(
        self,
        topics=None,
        *,
        settings=SETTINGS,
        times=None,
        more_kinds=(),
        record_format=GROUP_RECORDS,
        **consumer_settings,
    ):
        self.topics = KnownTopics(orders=4) if topics is None else topics
        self.times = GroupTimes() if times is None else times
        self.work = []
        self.holds_work = False
        self.steps = 0
        consumer = consumer_groups(
            self.topics, ConsumerGroupSettings(**consumer_settings), lambda group_id: self.times
        )
        super().__init__(settings, [consumer, *more_kinds], record_format)

    def carry_out(self, decision):
        response = super().carry_out(decision)
        if decision.work is not None:
            self.work.append(decision.work)
        while self.work and not self.holds_work:
            self.step()
        return response

    def step(self):
        """One slice of the work that is to be done."""
        self.steps += 1
        try:
            next(self.work[0])
        except StopIteration as end:
            self.work.pop(0)
            if end.value is not None:
                self.carry_out(end.value)

    def fail_over(self, **settings):
        self.work = []
        super().fail_over(**settings)

    def beat(self, member_id, epoch, *, group_id=GROUP, **fields):
        """ConsumerGroupHeartbeat."""
        request = ConsumerHeartbeat(
            group_id=group_id,
            member_id=member_id,
            member_epoch=epoch,
            client=fields.pop("client", ClientInfo("app", "/127.0.0.1")),
            **fields,
        )
        return self.carry_out(self.shard.kind(ConsumerGroups).consumer_group_heartbeat(request, self.now_ms))

    def enter(self, member_id, *topics, **fields):
        """The first heartbeat of a member."""
        defaults = {
            "rebalance_timeout_ms": 60_000,
            "owned": NOTHING,
            "subscribed_names": topics or ("orders",),
        }
        return self.beat(member_id, 0, **(defaults | fields))

    def describe_consumers(self, group_id=GROUP):
        return self.carry_out(self.shard.kind(ConsumerGroups).consumer_group_describe(group_id))

    @property
    def group(self):
        return self.shard.groups[GROUP]

    def owned_by_all(self, *consumers):
        """How many partitions the consumers own together; no partition is owned twice."""
        held = [(topic, p) for each in consumers for topic, ps in each.owned.items() for p in ps]
        assert len(held) == len(set(held)), "a partition in two hands"
        return len(held)


class Consumer:
    """A well-behaved member: gives up at once what it is no longer assigned, and says so with its next heartbeat."""

    def __init__(self, shard, member_id, *topics, **fields):
        self.shard = shard
        self.member_id = member_id
        self.owned = NOTHING
        self.epoch = 0
        self.instance_id = fields.get("instance_id")
        self._topics = topics
        self._fields = fields

    def enter(self):
        self.owned = NOTHING
        return self._hear(self.shard.enter(self.member_id, *self._topics, **self._fields))

    def beat(self, **fields):
        fields = {"owned": self.owned, "instance_id": self.instance_id} | fields
        return self._hear(self.shard.beat(self.member_id, self.epoch, **fields))

    def leave(self):
        self.owned = NOTHING
        return self.shard.beat(self.member_id, -1, instance_id=self.instance_id)

    def go_away(self):
        self.owned = NOTHING
        return self.shard.beat(self.member_id, -2, instance_id=self.instance_id)

    def _hear(self, answer):
        if hasattr(answer, "member_epoch"):
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.owned = answer.assignment
        return answer


def settle(*consumers, rounds=4):
    """Heartbeats of all until nothing changes any more."""
    for _ in range(rounds):
        for consumer in consumers:
            consumer.beat()
