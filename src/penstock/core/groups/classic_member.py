"""A member of a classic group: its metadata and assignment, and its waiting requests."""

from penstock.base.errors import ErrorCode
from penstock.core.coordinator_shard import Pending
from penstock.core.groups.effects import Effects
from penstock.core.groups.requests import ClientInfo, Join, Joined, SupportedProtocol, Synced
from penstock.records.internal.group_shapes import MemberMetadata


class ClassicMember:
    """Identity and assignment are durable once a generation was written; the rest is lost at fail-over."""

    __slots__ = (
        "assignment",
        "client",
        "held_heartbeat",
        "instance_id",
        "is_new",
        "joining",
        "member_id",
        "protocol_names",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "syncing",
    )

    def __init__(
        self,
        *,
        member_id: str,
        instance_id: str | None,
        client: ClientInfo,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        protocols: tuple[SupportedProtocol, ...],
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client = client
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.protocols = protocols
        self.protocol_names = frozenset(name for name, _ in protocols)
        self.assignment = assignment
        self.joining: Pending[Joined] | None = None
        self.syncing: Pending[Synced] | None = None
        # A heartbeat whose answer is held until the group rebalances.
        self.held_heartbeat: Pending[ErrorCode] | None = None
        # It waits for its first JoinGroup response, so it cannot have sent a heartbeat.
        self.is_new = False

    @classmethod
    def joins(cls, member_id: str, request: Join) -> "ClassicMember":
        """A member as its JoinGroup describes it."""
        member = cls(
            member_id=member_id,
            instance_id=request.instance_id,
            client=request.client,
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            protocols=request.protocols,
        )
        member.is_new = True
        return member

    @classmethod
    def recorded(cls, metadata: MemberMetadata, protocol: str | None) -> "ClassicMember":
        """A member as a record has it: with the one protocol that was chosen."""
        rebalance_timeout_ms = metadata.rebalance_timeout
        if rebalance_timeout_ms == -1:  # version 0 of the record did not tell the two apart
            rebalance_timeout_ms = metadata.session_timeout
        return cls(
            member_id=metadata.member_id,
            instance_id=metadata.group_instance_id,
            client=ClientInfo(metadata.client_id, metadata.client_host),
            session_timeout_ms=metadata.session_timeout,
            rebalance_timeout_ms=rebalance_timeout_ms,
            protocols=(SupportedProtocol(protocol or "", bytes(metadata.subscription)),),
            assignment=bytes(metadata.assignment),
        )

    def record(self, protocol: str | None, assignment: bytes) -> MemberMetadata:
        return MemberMetadata(
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            client_id=self.client.client_id,
            client_host=self.client.host,
            rebalance_timeout=self.rebalance_timeout_ms,
            session_timeout=self.session_timeout_ms,
            subscription=self.metadata_for(protocol),
            assignment=assignment,
        )

    def agrees_with(self, metadata: MemberMetadata, protocol: str | None) -> bool:
        """Whether a record has the metadata of its last JoinGroup; its identity never changes under one member id."""
        return (
            self.session_timeout_ms == metadata.session_timeout
            and self.rebalance_timeout_ms == metadata.rebalance_timeout
            and self.metadata_for(protocol) == metadata.subscription
        )

    def update(self, request: Join) -> None:
        """Take over the metadata of another JoinGroup."""
        self.protocols = request.protocols
        self.protocol_names = frozenset(name for name, _ in request.protocols)
        self.session_timeout_ms = request.session_timeout_ms
        self.rebalance_timeout_ms = request.rebalance_timeout_ms

    def metadata_for(self, protocol: str | None) -> bytes:
        """Its metadata for this protocol; empty if it does not support it."""
        for supported in self.protocols:
            if supported.name == protocol:
                return supported.metadata
        return b""

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def needs_no_heartbeat(self) -> bool:
        """A member that waits for a response sends no heartbeats; a new one may have disconnected, and times out."""
        return not self.is_new and (self.joining is not None or self.syncing is not None)

    def answer_join(self, response: Joined, effects: Effects) -> bool:
        """Answer the waiting request; whether there was one."""
        if self.joining is None:
            return False
        effects.complete(self.joining, response)
        self.joining = None
        return True

    def answer_sync(self, response: Synced, effects: Effects) -> bool:
        """Answer the waiting request; whether there was one."""
        if self.syncing is None:
            return False
        effects.complete(self.syncing, response)
        self.syncing = None
        return True

    def wait_to_join(self, pending: Pending[Joined], effects: Effects) -> None:
        """A second JoinGroup of the same member ends the wait of the first: its sender has given up, or is another."""
        self.answer_join(Joined(error=ErrorCode.REBALANCE_IN_PROGRESS, member_id=self.member_id), effects)
        self.joining = pending

    def wait_to_sync(self, pending: Pending[Synced], effects: Effects) -> None:
        self.answer_sync(Synced(error=ErrorCode.REBALANCE_IN_PROGRESS), effects)
        self.syncing = pending

    def hold_heartbeat(self, pending: Pending[ErrorCode], effects: Effects) -> None:
        self.answer_heartbeat(ErrorCode.NONE, effects)
        self.held_heartbeat = pending

    def answer_heartbeat(self, error: ErrorCode, effects: Effects) -> bool:
        """Answer the held heartbeat; whether there was one."""
        if self.held_heartbeat is None:
            return False
        effects.complete(self.held_heartbeat, error)
        self.held_heartbeat = None
        return True

    def dismiss(self, error: ErrorCode, effects: Effects, *, member_id: str = "") -> None:
        """It is no longer a member: answer its waiting requests with the error."""
        self.answer_join(Joined(error=error, member_id=member_id), effects)
        self.answer_sync(Synced(error=error), effects)
        self.answer_heartbeat(error, effects)
