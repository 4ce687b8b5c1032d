"""A thousand members that join one group, as messages: the classic protocol, and the new one.

They come evenly over two seconds and send a heartbeat every second, so that the broker has many of them to look after
but is not flooded. A group is settled when every partition belongs to exactly one member and all are of one
generation; the members leave when it is.
"""

import itertools
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from bench.load.coordinators import GROUP, find_coordinator
from bench.load.members import CLASSIC, CONSUMER
from bench.load.raw import LoadError
from bench.load.talks import Pause, Question, Talk, hold
from penstock.base.errors import ErrorCode
from penstock.records.consumer_protocol import (
    AssignedTopic,
    Assignment,
    Subscription,
    read_assignment,
    write_assignment,
    write_subscription,
)
from penstock.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from penstock.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from penstock.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from penstock.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from penstock.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

_ARRIVAL_S = 2.0
_HEARTBEAT_S = 1.0
_TIMEOUT_MS = 60_000
_PATIENCE_S = 120
_PROTOCOL = "range"
_TYPE = "consumer"
_LEAVING = -1

_JOIN_VERSION = 9
_SYNC_VERSION = 5
_HEARTBEAT_VERSION = 4
_LEAVE_VERSION = 5
_CONSUMER_VERSION = 1

_numbers = itertools.count()


class _Place(NamedTuple):
    """What a member has, in which generation or epoch."""

    generation: int
    partitions: frozenset[tuple[Any, int]]


class _Group:
    """What all its members know together."""

    def __init__(self, name: str, topics: Mapping[str, int], members: int) -> None:
        self.name = name
        self.topics = topics
        self.settled_at: float | None = None
        self._deadline = time.perf_counter() + _PATIENCE_S
        self._size = members
        self._partitions = sum(topics.values())
        self._places: dict[int, _Place] = {}
        self._generations: Counter[int] = Counter()
        self._held = 0

    def moved(self, number: int, place: _Place) -> None:
        """A member has another place now."""
        before = self._places.get(number)
        if before is not None:
            self._generations[before.generation] -= 1
            self._held -= len(before.partitions)
        self._places[number] = place
        self._generations[place.generation] += 1
        self._held += len(place.partitions)
        if (
            self.settled_at is None
            and self._held == self._partitions
            and self._generations[place.generation] == self._size
            and len(set().union(*(each.partitions for each in self._places.values()))) == self._partitions
        ):
            self.settled_at = time.perf_counter()

    @property
    def is_settled(self) -> bool:
        assert time.perf_counter() < self._deadline, (
            f"not settled: {self._held} of {self._partitions} partitions, generations {self._generations}"
        )
        return self.settled_at is not None


def gather(bootstrap: str, protocol: str, topics: Mapping[str, int], *, members: int) -> float:
    """So many members join a group that reads all the topics; the seconds until it is settled."""
    group = _Group(f"gathering-{protocol}-{next(_numbers)}", topics, members)
    hold(bootstrap, [find_coordinator(GROUP, group.name)])
    talk: Callable[[_Group, int], Talk[str]] = {CLASSIC: _classic, CONSUMER: _consumer}[protocol]
    started = time.perf_counter()
    names = hold(
        bootstrap, [_after(number / members * _ARRIVAL_S, talk(group, number)) for number in range(members)]
    )
    assert group.settled_at is not None
    if protocol == CLASSIC:
        hold(bootstrap, [_leave(group, names)])
    return group.settled_at - started


def _after(seconds: float, talk: Talk[str]) -> Talk[str]:
    yield Pause(seconds)
    return (yield from talk)


# The classic protocol.


def _classic(group: _Group, number: int) -> Talk[str]:
    member_id = ""
    while not group.is_settled:
        joined = yield from _join(group, member_id)
        member_id = joined.member_id
        synced = yield from _sync(group, joined)
        if synced is None:
            continue
        group.moved(number, _Place(joined.generation_id, frozenset(read_assignment(synced.assignment))))
        yield from _stay(group, joined)
    return member_id


def _join(group: _Group, member_id: str) -> Talk[JoinGroupResponse]:
    metadata = write_subscription(Subscription(topics=list(group.topics)))
    while True:
        request = JoinGroupRequest(
            group_id=group.name,
            session_timeout_ms=_TIMEOUT_MS // 2,
            rebalance_timeout_ms=_TIMEOUT_MS,
            member_id=member_id,
            protocol_type=_TYPE,
            protocols=[JoinGroupRequestProtocol(name=_PROTOCOL, metadata=metadata)],
        )
        answer: JoinGroupResponse = yield Question(request, _JOIN_VERSION, JoinGroupResponse)
        if not answer.error_code:
            return answer
        _require(answer.error_code, ErrorCode.MEMBER_ID_REQUIRED)
        member_id = answer.member_id


def _sync(group: _Group, joined: JoinGroupResponse) -> Talk[SyncGroupResponse | None]:
    """None if the group gathers again already."""
    request = SyncGroupRequest(
        group_id=group.name,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type=_TYPE,
        protocol_name=_PROTOCOL,
        assignments=_shares(group.topics, joined.members),  # only the leader gets the members
    )
    answer: SyncGroupResponse = yield Question(request, _SYNC_VERSION, SyncGroupResponse)
    if answer.error_code:
        _require(answer.error_code, ErrorCode.REBALANCE_IN_PROGRESS)
        return None
    return answer


def _shares(
    topics: Mapping[str, int], members: Sequence[JoinGroupResponseMember]
) -> list[SyncGroupRequestAssignment]:
    everything = [(topic, partition) for topic, count in topics.items() for partition in range(count)]
    shares = []
    for index, member in enumerate(members):
        share: dict[str, list[int]] = {}
        for topic, partition in everything[index :: len(members)]:
            share.setdefault(topic, []).append(partition)
        assigned = [AssignedTopic(topic=topic, partitions=found) for topic, found in share.items()]
        blob = write_assignment(Assignment(assigned_partitions=assigned))
        shares.append(SyncGroupRequestAssignment(member_id=member.member_id, assignment=blob))
    return shares


def _stay(group: _Group, joined: JoinGroupResponse) -> Talk[None]:
    """Until the group gathers again, or is settled."""
    request = HeartbeatRequest(
        group_id=group.name, generation_id=joined.generation_id, member_id=joined.member_id
    )
    while not group.is_settled:
        yield Pause(_HEARTBEAT_S)
        answer = yield Question(request, _HEARTBEAT_VERSION, HeartbeatResponse)
        if answer.error_code:
            _require(answer.error_code, ErrorCode.REBALANCE_IN_PROGRESS)
            return


def _leave(group: _Group, member_ids: Sequence[str]) -> Talk[None]:
    members = [MemberIdentity(member_id=member_id) for member_id in member_ids]
    request = LeaveGroupRequest(group_id=group.name, members=members)
    answer = yield Question(request, _LEAVE_VERSION, LeaveGroupResponse)
    _require(answer.error_code, ErrorCode.NONE)


# The new protocol.


def _consumer(group: _Group, number: int) -> Talk[str]:
    member_id = f"{group.name}-member-{number:05}"
    owned: list[TopicPartitions] = []
    answer = yield from _beat(group, member_id, 0, owned)
    while not group.is_settled:
        news = answer.assignment
        if news is not None:
            owned = news.topic_partitions
        held = frozenset((each.topic_id, partition) for each in owned for partition in each.partitions)
        group.moved(number, _Place(answer.member_epoch, held))
        if news is None:
            yield Pause(_HEARTBEAT_S)
        answer = yield from _beat(group, member_id, answer.member_epoch, owned)
    yield from _beat(group, member_id, _LEAVING, None)
    return member_id


def _beat(
    group: _Group, member_id: str, epoch: int, owned: list[TopicPartitions] | None
) -> Talk[ConsumerGroupHeartbeatResponse]:
    request = ConsumerGroupHeartbeatRequest(
        group_id=group.name, member_id=member_id, member_epoch=epoch, topic_partitions=owned
    )
    if epoch == 0:
        request.rebalance_timeout_ms = _TIMEOUT_MS
        request.subscribed_topic_names = list(group.topics)
    answer: ConsumerGroupHeartbeatResponse = yield Question(
        request, _CONSUMER_VERSION, ConsumerGroupHeartbeatResponse
    )
    _require(answer.error_code, ErrorCode.NONE)
    return answer


def _require(code: int, expected: ErrorCode) -> None:
    if code != expected:
        raise LoadError(f"a member was answered {ErrorCode(code).name}")
