"""The broker handshake, as a transcript of messages between two sides that a test may tamper with."""

from collections.abc import Callable
from typing import Any

import pytest

from penstock.base.errors import PeerError
from penstock.base.secret import Secret
from penstock.client.errors import AuthenticationError, UnreachableError
from penstock.cluster.handshake import (
    AcceptorHandshake,
    BrokerIdentity,
    InitiatorHandshake,
    PeerCredentials,
)
from penstock.schema.codec import decode, encode
from penstock.wire.private.broker_handshake import BrokerHandshakeRequest, BrokerHandshakeResponse
from penstock.world.real_entropy import RealEntropy

CLUSTER = "the-cluster"
VERSIONS = {56: (2, 3), 10001: (0, 0)}


def credentials(
    node_id: int, *, epoch: int = 5, secret: str = "right", cluster_id: str = CLUSTER
) -> PeerCredentials:
    made = PeerCredentials(Secret(secret), RealEntropy(), cluster_id=cluster_id, node_id=node_id)
    made.epoch = epoch
    return made


def initiator(of: PeerCredentials, *, node_id: int = 2, epoch: int = 5) -> InitiatorHandshake:
    return InitiatorHandshake(of, node_id=node_id, epoch=epoch)


def acceptor(of: PeerCredentials, *, known: dict[int, int] | None = None) -> AcceptorHandshake:
    return AcceptorHandshake(of, known_epoch=(known or {}).get, versions=VERSIONS)


def over_the_wire(message: Any) -> Any:
    return decode(type(message), 0, b"".join(encode(message, 0)), 0)


def shake(opening: InitiatorHandshake, accepting: AcceptorHandshake) -> BrokerIdentity:
    """All four messages, as bytes; returns who the acceptor takes the initiator for."""
    challenge = accepting.challenge(over_the_wire(opening.hello()))
    proof = opening.prove(over_the_wire(challenge))
    identity, answer = accepting.verify(over_the_wire(proof))
    assert opening.check(over_the_wire(answer)) == VERSIONS
    return identity


def test_brokers_with_the_same_secret_authenticate_each_other() -> None:
    assert shake(initiator(credentials(1, epoch=7)), acceptor(credentials(2))) == BrokerIdentity(1, 7)


def test_the_secret_is_in_no_message_and_no_text() -> None:
    first, second = credentials(1, secret="SECRET"), credentials(2, secret="SECRET")
    opening, accepting = initiator(first), acceptor(second)
    hello = opening.hello()
    challenge = accepting.challenge(hello)
    proof = opening.prove(challenge)
    _, answer = accepting.verify(proof)
    sent = b"".join(b"".join(encode(each, 0)) for each in (hello, challenge, proof, answer))
    assert b"SECRET" not in sent
    assert "SECRET" not in repr((hello, challenge, proof, answer, vars(first)))


def test_an_initiator_with_a_wrong_secret_is_refused_before_the_acceptor_proves_anything() -> None:
    opening, accepting = initiator(credentials(1, secret="wrong")), acceptor(credentials(2))
    proof = opening.prove(accepting.challenge(opening.hello()))
    with pytest.raises(PeerError, match="wrong proof"):
        accepting.verify(proof)


def test_an_acceptor_with_a_wrong_secret_is_refused() -> None:
    opening, impostor = initiator(credentials(1)), credentials(2, secret="wrong")
    claim = impostor.claim()
    hello = opening.hello()
    opening.prove(BrokerHandshakeResponse(node_id=claim.node_id, broker_epoch=claim.epoch, nonce=claim.nonce))
    first = type(claim)(hello.node_id, hello.broker_epoch, hello.nonce)
    with pytest.raises(AuthenticationError):
        opening.check(BrokerHandshakeResponse(proof=impostor.acceptor_proof(first, claim)))


def test_a_proof_sent_back_to_its_author_proves_nothing() -> None:
    opening, accepting = initiator(credentials(1)), acceptor(credentials(2))
    proof = opening.prove(accepting.challenge(opening.hello()))
    with pytest.raises(AuthenticationError):
        opening.check(BrokerHandshakeResponse(proof=proof.proof))


def test_a_broker_cannot_be_made_to_answer_its_own_challenge() -> None:
    """An attacker that broker 1 connects to opens a connection back to broker 1 and passes the messages on."""
    opening, accepting = initiator(credentials(1)), acceptor(credentials(1))
    with pytest.raises(PeerError, match="node id"):
        accepting.challenge(opening.hello())
    renamed = opening.hello()
    renamed.node_id = 2
    challenge = accepting.challenge(renamed)
    challenge.node_id = 2
    with pytest.raises(PeerError, match="wrong proof"):
        accepting.verify(opening.prove(challenge))


def test_a_replayed_handshake_is_refused_on_another_connection() -> None:
    opening, accepting = initiator(credentials(1)), acceptor(credentials(2))
    hello = opening.hello()
    proof = opening.prove(accepting.challenge(hello))
    accepting.verify(proof)
    again = acceptor(credentials(2))
    again.challenge(hello)
    with pytest.raises(PeerError, match="wrong proof"):
        again.verify(proof)


def test_a_proof_is_accepted_once() -> None:
    opening, accepting = initiator(credentials(1)), acceptor(credentials(2))
    proof = opening.prove(accepting.challenge(opening.hello()))
    accepting.verify(proof)
    for again in (accepting.challenge, accepting.verify):
        with pytest.raises(PeerError, match="out of order"):
            again(proof)


def test_nothing_is_proven_before_the_challenge() -> None:
    with pytest.raises(PeerError, match="out of order"):
        acceptor(credentials(2)).challenge(BrokerHandshakeRequest(proof=b"x" * 32))
    with pytest.raises(PeerError, match="out of order"):
        acceptor(credentials(2)).verify(BrokerHandshakeRequest(proof=b"x" * 32))


@pytest.mark.parametrize("length", [0, 1, 16, 31])
def test_a_truncated_proof_is_wrong(length: int) -> None:
    opening, accepting = initiator(credentials(1)), acceptor(credentials(2))
    proof = opening.prove(accepting.challenge(opening.hello()))
    proof.proof = proof.proof[:length]
    with pytest.raises(PeerError, match="wrong proof"):
        accepting.verify(proof)


def test_a_short_nonce_is_refused_by_both() -> None:
    hello = initiator(credentials(1)).hello()
    hello.nonce = hello.nonce[:16]
    with pytest.raises(PeerError, match="nonce"):
        acceptor(credentials(2)).challenge(hello)
    with pytest.raises(AuthenticationError, match="nonce"):
        initiator(credentials(1)).prove(BrokerHandshakeResponse(node_id=2, broker_epoch=5, nonce=b""))


def test_another_cluster_is_refused_even_with_the_same_secret() -> None:
    opening, accepting = initiator(credentials(1, cluster_id="another")), acceptor(credentials(2))
    hello = opening.hello()
    with pytest.raises(PeerError, match="another cluster"):
        accepting.challenge(hello)
    hello.cluster_id = CLUSTER
    with pytest.raises(PeerError, match="wrong proof"):
        accepting.verify(opening.prove(accepting.challenge(hello)))


def _another_node(hello: BrokerHandshakeRequest) -> None:
    hello.node_id = 3


def _another_epoch(hello: BrokerHandshakeRequest) -> None:
    hello.broker_epoch += 1


@pytest.mark.parametrize("tamper", [_another_node, _another_epoch])
def test_a_claim_that_was_changed_on_its_way_is_not_proven(
    tamper: Callable[[BrokerHandshakeRequest], None],
) -> None:
    opening, accepting = initiator(credentials(1)), acceptor(credentials(2))
    hello = opening.hello()
    tamper(hello)
    with pytest.raises(PeerError, match="wrong proof"):
        accepting.verify(opening.prove(accepting.challenge(hello)))


def test_a_stale_epoch_is_refused_by_both_and_a_newer_one_is_not() -> None:
    accepting = acceptor(credentials(2), known={1: 6})
    with pytest.raises(PeerError, match="stale"):
        shake(initiator(credentials(1, epoch=5)), accepting)
    assert shake(initiator(credentials(1, epoch=7)), acceptor(credentials(2), known={1: 6})).epoch == 7
    with pytest.raises(UnreachableError, match="stale"):
        shake(initiator(credentials(1), epoch=6), acceptor(credentials(2, epoch=5)))
    assert shake(initiator(credentials(1), epoch=6), acceptor(credentials(2, epoch=7)))


def test_another_broker_than_the_expected_one_is_refused() -> None:
    with pytest.raises(AuthenticationError, match="broker 2 was expected, and broker 3 answers"):
        shake(initiator(credentials(1)), acceptor(credentials(3)))
