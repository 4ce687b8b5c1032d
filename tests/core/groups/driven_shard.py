"""A shard with a log, as the runtime drives it: decide, append, replay, answer; and fail over at any time.

Records go through their bytes, so that what is replayed is what a log can hold.
"""

from dataclasses import replace
from itertools import count
from typing import NamedTuple

from penstock.base.errors import ErrorCode, Refusal
from penstock.core.coordinator_shard import BatchProducer, Decision, Pending
from penstock.core.groups.requests import (
    ClientInfo,
    DeleteOffsets,
    FetchOffsets,
    Heartbeat,
    Join,
    Leave,
    LeavingMember,
    OffsetCommit,
    OffsetToCommit,
    SupportedProtocol,
    Sync,
)
from penstock.core.groups.settings import GroupSettings
from penstock.core.groups.shard import GroupShard
from penstock.records.consumer_protocol import Subscription, write_subscription
from penstock.records.internal.group_records import GROUP_RECORDS

GROUP = "readers"
SETTINGS = GroupSettings(initial_rebalance_delay_ms=3_000)
NO_COORDINATOR = Refusal(ErrorCode.NOT_COORDINATOR)


class Waiting:
    """The answer to a request, as soon as there is one."""

    def __init__(self):
        self.response = None

    @property
    def is_answered(self):
        return self.response is not None

    def __getattr__(self, name):
        assert self.response is not None, "still waiting"
        return getattr(self.response, name)


class Written(NamedTuple):
    """A record in the log, or a marker (no key)."""

    key: bytes | None
    value: bytes | None
    producer: BatchProducer | None
    committed: bool = False


def subscription(*topics):
    return write_subscription(Subscription(topics=list(topics)))


class DrivenShard:
    """Requests are methods with the answers as results; one that waits is a `Waiting`."""

    def __init__(self, settings=SETTINGS, kinds=(), record_format=GROUP_RECORDS):
        self.settings = settings
        self.kinds = kinds
        self.record_format = record_format
        self.now_ms = 1_000_000
        self.log: list[Written] = []
        self._suffixes = count(1)
        self._load()

    def _load(self):
        self.waiting: dict[Pending, Waiting] = {}
        self.shard = GroupShard(self.settings, self.kinds)
        for offset, written in enumerate(self.log):
            self._replay(written, offset)
        self.shard.loaded(self.now_ms)

    def fail_over(self, **settings):
        """Another coordinator takes over; waiting requests are answered that there is no coordinator."""
        self.settings = replace(self.settings, **settings)
        for waiting in self.waiting.values():
            waiting.response = NO_COORDINATOR
        self._load()

    def _replay(self, written, offset):
        if written.key is None:
            self.shard.replay_marker(written.producer, committed=written.committed, offset=offset)
            return
        record = self.record_format.decode(written.key, written.value)
        self.shard.replay(record, offset=offset, producer=written.producer)

    def _append(self, written):
        self.log.append(written)
        self._replay(written, len(self.log) - 1)

    def carry_out(self, decision: Decision):
        response = decision.response
        if isinstance(response, Pending):
            response = self.waiting[decision.response] = Waiting()
        for record in decision.records:
            self._append(Written(*self.record_format.encode(record), decision.producer))
        for pending, answer in decision.completes:
            self.waiting.pop(pending).response = answer
        return response

    @property
    def records(self):
        """All that was written, as records."""
        return [self.record_format.decode(written.key, written.value) for written in self.log if written.key]

    def marker(self, producer_id, *, committed):
        self._append(Written(None, None, BatchProducer(producer_id, 0), committed))

    def pass_time(self, duration_ms):
        """Every timer on the way is served at its time."""
        end_ms = self.now_ms + duration_ms
        while (deadline_ms := self.shard.deadline()) is not None and deadline_ms <= end_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            for decision in self.shard.expire(self.now_ms):
                self.carry_out(decision)
        self.now_ms = end_ms

    # Requests

    def join(self, member_id="", **fields):
        """As a consumer with the range assignor, unless `fields` say otherwise."""
        topics = fields.pop("topics", ("orders",))
        protocols = fields.pop("protocols", {"range": subscription(*topics)})
        defaults = {
            "group_id": GROUP,
            "client": ClientInfo("app", "/127.0.0.1"),
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            "protocol_type": "consumer",
            "new_member_suffix": str(next(self._suffixes)),
        }
        request = Join(
            member_id=member_id,
            protocols=tuple(SupportedProtocol(*each) for each in protocols.items()),
            **(defaults | fields),
        )
        return self.carry_out(self.shard.join_group(request, self.now_ms))

    def sync(self, member_id, generation, assignments=None, *, group_id=GROUP, **fields):
        request = Sync(
            group_id=group_id,
            member_id=member_id,
            generation=generation,
            assignments=tuple((assignments or {}).items()),
            **fields,
        )
        return self.carry_out(self.shard.sync_group(request, self.now_ms))

    def heartbeat(self, member_id, generation, *, group_id=GROUP, instance_id=None):
        request = Heartbeat(
            group_id=group_id, member_id=member_id, generation=generation, instance_id=instance_id
        )
        return self.carry_out(self.shard.heartbeat(request, self.now_ms))

    def await_rebalance(self, member_id, generation, *, group_id=GROUP):
        """After a heartbeat that was answered with NONE."""
        request = Heartbeat(group_id=group_id, member_id=member_id, generation=generation)
        return self.carry_out(self.shard.await_rebalance(request, self.now_ms))

    def leave(self, *members, group_id=GROUP):
        leaving = [LeavingMember(each) if isinstance(each, str) else LeavingMember(*each) for each in members]
        return self.carry_out(self.shard.leave_group(Leave(group_id=group_id, members=leaving), self.now_ms))

    def commit(self, offsets, *, producer_id=None, **fields):
        """`offsets` is {(topic, partition): offset}."""
        request = OffsetCommit(
            **{"group_id": GROUP} | fields,
            offsets=[
                OffsetToCommit(*position, offset) if isinstance(offset, int) else offset
                for position, offset in offsets.items()
            ],
        )
        if producer_id is None:
            return self.carry_out(self.shard.commit_offsets(request, self.now_ms))
        producer = BatchProducer(producer_id, 0)
        return self.carry_out(self.shard.commit_offsets_in_transaction(request, producer, self.now_ms))

    def fetch(self, *positions, **fields):
        request = FetchOffsets(**{"group_id": GROUP} | fields, partitions=positions or None)
        return self.carry_out(self.shard.fetch_offsets(request))

    def committed(self, group_id=GROUP):
        """{(topic, partition): offset} of all that counts."""
        return {(each.topic, each.partition): each.offset for each in self.fetch(group_id=group_id)}

    def delete_offsets(self, *positions, group_id=GROUP):
        request = DeleteOffsets(group_id=group_id, partitions=positions)
        return self.carry_out(self.shard.delete_offsets(request))

    def delete_group(self, group_id=GROUP):
        return self.carry_out(self.shard.delete_group(group_id))

    def describe(self, group_id=GROUP):
        return self.carry_out(self.shard.describe_group(group_id))

    def listed(self, *, states=(), types=()):
        listing = self.shard.list_groups(states=states, types=types)
        while True:
            try:
                next(listing)
            except StopIteration as stop:
                return self.carry_out(stop.value)

    @property
    def state(self):
        return self.describe().state

    # Stories that many tests begin with

    def join_with_new_id(self, **fields):
        """As clients do since version 4: ask for an id, and join with it. The id and the answer to come."""
        member_id = self.join(**fields).member_id
        return member_id, self.join(member_id, **fields)

    def stable_group(self, count_of_members=2, **fields):
        """Members of a settled group, the leader first; each was assigned its own id."""
        joining = [self.join_with_new_id(**fields) for _ in range(count_of_members)]
        self.pass_time(self.settings.initial_rebalance_delay_ms * 2)
        ids = [member_id for member_id, _ in joining]
        generation = joining[0][1].generation
        assignments = {member_id: member_id.encode() for member_id in ids}
        answers = [self.sync(member_id, generation, assignments) for member_id in ids]
        assert [answer.assignment for answer in answers] == [member_id.encode() for member_id in ids]
        return ids
