"""The interface that offset requests, listing, deletion and expiry need of a group, whatever its kind."""

from collections.abc import Collection, Iterable
from enum import StrEnum
from typing import Protocol

from penstock.base.errors import ErrorCode
from penstock.records.internal.record import InternalRecord

CONSUMER_PROTOCOL_TYPE = "consumer"

# Requests without a member id or generation.
NO_MEMBER = ""
NO_GENERATION = -1


class GroupType(StrEnum):
    """The kinds of groups, with the names that ListGroups gives them. Share and streams groups are not served yet."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


class Group(Protocol):
    """A group of any kind. Checks return NONE or the error that rejects the request."""

    @property
    def group_id(self) -> str: ...

    @property
    def type(self) -> GroupType: ...

    @property
    def replaceable_by(self) -> Collection[GroupType]:
        """The kinds that may take over the group's id while it has no members."""
        ...

    @property
    def protocol_type(self) -> str:
        """What its members do together: "consumer", "connect" and so on; empty if it never had members."""
        ...

    @property
    def state_name(self) -> str:
        """As listings show it: Stable, Empty and so on."""
        ...

    @property
    def is_empty(self) -> bool:
        """No members: offsets may be committed without membership, and the group may be deleted."""
        ...

    def check_commit(
        self,
        *,
        member_id: str,
        instance_id: str | None,
        generation: int,
        transactional: bool,
        version: int,
        partitions: Collection[tuple[bytes, int]],
    ) -> ErrorCode:
        """May these offsets be committed? The generation is the member epoch in the consumer protocol; the
        version is that of the request, as older clients do not know all errors; partitions are by topic id."""
        ...

    def committed(self, *, member_id: str, now_ms: int) -> None:
        """A commit of this member was accepted; in the classic protocol it extends the session like a heartbeat."""
        ...

    def check_fetch(self, *, member_id: str | None, member_epoch: int) -> ErrorCode:
        """May this member fetch offsets?"""
        ...

    def check_offset_delete(self) -> ErrorCode:
        """May offsets of topics without subscribers be deleted?"""
        ...

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether offsets of this topic are in use: not to be deleted, and not to expire."""
        ...

    def offsets_age_from_ms(self, commit_timestamp_ms: int) -> int | None:
        """When the retention of an offset with this commit timestamp starts; None while it does not expire."""
        ...

    def tombstones(self) -> Iterable[InternalRecord]:
        """The records that delete the group, without its offsets."""
        ...
