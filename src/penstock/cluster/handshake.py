"""The handshake in which two brokers prove to each other that they belong to the same cluster. Pure.

    initiator                                      acceptor
      cluster id, node id, broker epoch, nonce  ->
                                                <-  node id, broker epoch, nonce
      proof                                     ->
                                                <-  proof, versions of the APIs between brokers

A proof is an HMAC-SHA256 with the cluster's secret (`cluster.peer_secret`) over the prover's role, the cluster id and
both claims: node id, broker epoch, and a nonce of 32 random bytes for this connection. So a recorded proof is invalid
on another connection (the other side's nonce differs), and so is a proof sent back to its author (the roles differ).
The acceptor proves itself only to an initiator that has proven itself.

The handshake authenticates the broker that opened the connection. It does not encrypt or sign what follows: an attacker
who can change the bytes between two brokers can let them complete the handshake and then insert requests. TLS is needed
against that.
"""

import hashlib
import hmac
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from penstock.base.errors import PeerError
from penstock.base.secret import Secret
from penstock.client.errors import AuthenticationError, UnreachableError
from penstock.wire.private.broker_handshake import (
    BrokerApiVersion,
    BrokerHandshakeRequest,
    BrokerHandshakeResponse,
)
from penstock.world.entropy import Entropy

_NONCE_BYTES: Final = 32
_INITIATOR: Final = b"penstock broker handshake 0: initiator"
_ACCEPTOR: Final = b"penstock broker handshake 0: acceptor"
NOT_REGISTERED: Final = 0  # the broker epoch before the first registration of a process

Versions = Mapping[int, tuple[int, int]]


class BrokerIdentity(NamedTuple):
    """A broker as it has proven itself on a connection: its node id, and the epoch of its registration."""

    node_id: int
    epoch: int


class Claim(NamedTuple):
    """The identity that one side claims, and its nonce."""

    node_id: int
    epoch: int
    nonce: bytes


class PeerCredentials:
    """What a broker needs for the handshake. `epoch` is set at each registration."""

    def __init__(
        self, secret: Secret, entropy: Entropy, *, cluster_id: str, node_id: int, proves: bool = True
    ) -> None:
        self.cluster_id = cluster_id
        self.node_id = node_id
        self.epoch = NOT_REGISTERED
        self.proves = proves  # False if this broker acts as a version without the handshake, in tests
        self._secret = secret
        self._entropy = entropy

    def claim(self) -> Claim:
        """This broker's claim, with a new nonce."""
        return Claim(self.node_id, self.epoch, self._entropy.random_bytes(_NONCE_BYTES))

    def initiator_proof(self, initiator: Claim, acceptor: Claim) -> bytes:
        return self._proof(_INITIATOR, initiator, acceptor)

    def acceptor_proof(self, initiator: Claim, acceptor: Claim) -> bytes:
        return self._proof(_ACCEPTOR, initiator, acceptor)

    def _proof(self, role: bytes, initiator: Claim, acceptor: Claim) -> bytes:
        transcript = hmac.new(self._secret.reveal().encode(), digestmod=hashlib.sha256)
        for part in (role, self.cluster_id.encode(), *_parts(initiator), *_parts(acceptor)):
            # With its length, so that different parts never concatenate to the same bytes.
            transcript.update(len(part).to_bytes(4, "big") + part)
        return transcript.digest()


def _parts(claim: Claim) -> tuple[bytes, bytes, bytes]:
    return str(claim.node_id).encode(), str(claim.epoch).encode(), claim.nonce


def _is_stale(epoch: int, known_epoch: int) -> bool:
    """Whether an epoch is of an earlier registration than the known one; a later one will be in the metadata soon."""
    return NOT_REGISTERED < epoch < known_epoch


class InitiatorHandshake:
    """The side that opened the connection, to the broker `node_id`, known to be registered with `epoch`."""

    def __init__(self, credentials: PeerCredentials, *, node_id: int, epoch: int) -> None:
        self._credentials = credentials
        self._expected = BrokerIdentity(node_id, epoch)
        self._own = credentials.claim()
        self._acceptor: Claim | None = None

    def hello(self) -> BrokerHandshakeRequest:
        own = self._own
        return BrokerHandshakeRequest(
            cluster_id=self._credentials.cluster_id,
            node_id=own.node_id,
            broker_epoch=own.epoch,
            nonce=own.nonce,
        )

    def prove(self, challenge: BrokerHandshakeResponse) -> BrokerHandshakeRequest:
        """The second request; a ClientError if another broker than the expected one answered."""
        acceptor = Claim(challenge.node_id, challenge.broker_epoch, bytes(challenge.nonce))
        expected = self._expected
        if acceptor.node_id != expected.node_id:
            raise AuthenticationError(
                f"broker {expected.node_id} was expected, and broker {acceptor.node_id} answers"
            )
        if len(acceptor.nonce) != _NONCE_BYTES:
            raise AuthenticationError(
                f"broker {acceptor.node_id} sent a nonce of {len(acceptor.nonce)} bytes"
            )
        if _is_stale(acceptor.epoch, expected.epoch):
            raise UnreachableError(
                f"broker {acceptor.node_id} answers with the stale broker epoch {acceptor.epoch}; "
                f"it is registered with {expected.epoch}"
            )
        self._acceptor = acceptor
        return BrokerHandshakeRequest(proof=self._credentials.initiator_proof(self._own, acceptor))

    def check(self, answer: BrokerHandshakeResponse) -> Versions:
        """The versions of the APIs between brokers; AuthenticationError if the acceptor's proof is wrong."""
        assert self._acceptor is not None, "`prove` was not called"
        right = self._credentials.acceptor_proof(self._own, self._acceptor)
        if not hmac.compare_digest(bytes(answer.proof), right):
            raise AuthenticationError(
                f"broker {self._expected.node_id} did not prove that it is of this cluster"
            )
        return {each.api_key: (each.min_version, each.max_version) for each in answer.api_versions}


class AcceptorHandshake:
    """The side that was connected to. A PeerError closes the connection; there is one attempt per connection."""

    def __init__(
        self, credentials: PeerCredentials, *, known_epoch: Callable[[int], int | None], versions: Versions
    ) -> None:
        """`known_epoch` of a node id is that of its registration; `versions` are of the APIs between brokers."""
        self._credentials = credentials
        self._known_epoch = known_epoch
        self._versions = versions
        self._initiator: Claim | None = None
        self._own = credentials.claim()
        self._is_over = False

    def challenge(self, hello: BrokerHandshakeRequest) -> BrokerHandshakeResponse:
        if self._initiator is not None or hello.proof:
            raise PeerError("broker handshake out of order")
        if hello.cluster_id != self._credentials.cluster_id:
            raise PeerError(f"broker handshake for another cluster: {hello.cluster_id!r}")
        if len(hello.nonce) != _NONCE_BYTES:
            raise PeerError(f"broker handshake with a nonce of {len(hello.nonce)} bytes")
        if hello.node_id == self._credentials.node_id:
            raise PeerError(f"broker handshake by another broker with this one's node id, {hello.node_id}")
        self._initiator = Claim(hello.node_id, hello.broker_epoch, bytes(hello.nonce))
        own = self._own
        return BrokerHandshakeResponse(node_id=own.node_id, broker_epoch=own.epoch, nonce=own.nonce)

    def verify(self, request: BrokerHandshakeRequest) -> tuple[BrokerIdentity, BrokerHandshakeResponse]:
        """The broker that has proven itself, and the answer to it."""
        initiator = self._initiator
        if initiator is None or self._is_over:
            raise PeerError("broker handshake out of order")
        self._is_over = True
        right = self._credentials.initiator_proof(initiator, self._own)
        if not hmac.compare_digest(bytes(request.proof), right):
            raise PeerError(f"broker handshake of node {initiator.node_id} failed: wrong proof")
        known_epoch = self._known_epoch(initiator.node_id)
        if known_epoch is not None and _is_stale(initiator.epoch, known_epoch):
            raise PeerError(
                f"broker handshake of node {initiator.node_id} failed: its broker epoch {initiator.epoch} is stale, "
                f"it is registered with {known_epoch}"
            )
        response = BrokerHandshakeResponse(
            proof=self._credentials.acceptor_proof(initiator, self._own),
            api_versions=[
                BrokerApiVersion(api_key=key, min_version=lowest, max_version=highest)
                for key, (lowest, highest) in self._versions.items()
            ],
        )
        return BrokerIdentity(initiator.node_id, initiator.epoch), response
