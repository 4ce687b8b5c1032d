"""Requests and helpers for tests of group APIs."""

import itertools
from typing import Any

from penstock.base.errors import ErrorCode
from penstock.wire.messages.find_coordinator import FindCoordinatorRequest
from penstock.wire.messages.offset_fetch import OffsetFetchRequest
from penstock.wire.messages.sync_group import SyncGroupRequestAssignment
from tests.group_messages import fetching, joining, syncing
from tests.raw_client import RawClient

# No test waits for members that it does not have.
SETTINGS = {"group.initial.rebalance.delay.ms": "0"}

_numbers = itertools.count()


def new_group(client: RawClient) -> str:
    """A name that no other test uses, and whose coordinator is there."""
    group = f"group-{next(_numbers)}"
    assert client.ask(FindCoordinatorRequest(key=group, key_type=0), 3).error_code == 0
    return group


def join(client: RawClient, group: str, **options: Any) -> Any:
    """The answer to the first member of a group."""
    first = client.ask(joining(group, **options), 9)
    assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
    return client.ask(joining(group, first.member_id, **options), 9)


def stable(client: RawClient, group: str) -> str:
    """The id of the only member of a stable group."""
    member_id: str = join(client, group).member_id
    assignment = SyncGroupRequestAssignment(member_id=member_id, assignment=b"all")
    assert client.ask(syncing(group, member_id, assignments=[assignment]), 5).assignment == b"all"
    return member_id


def committed(client: RawClient, group: str, topic: str) -> int:
    """The offset of partition 0; -1 if there is none."""
    request: OffsetFetchRequest = fetching(group, topic, 0)
    offset: int = client.ask(request, 9).groups[0].topics[0].partitions[0].committed_offset
    return offset
