"""What is said in SASL: the examples of the RFCs, and SCRAM against a server written down from the RFC here."""

import base64
import hashlib
import hmac

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.base.secret import Secret
from penstock.client.errors import AuthenticationError
from penstock.client.sasl import OAuthBearer, Plain
from penstock.client.scram import Scram

# RFC 5802, section 5, and RFC 7677, section 3; both are the user "user" with the password "pencil".
RFC_EXAMPLES = [
    (
        "sha1",
        "fyko+d2lbbFgONRv9qkxdawL",
        b"r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096",
        b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
        b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ=",
    ),
    (
        "sha256",
        "rOprNGfwEbeRWgbNEkqO",
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
    ),
]


def scram(hash_name: str = "sha256", *, password: str = "pencil", user: str = "user") -> Scram:
    return Scram(hash_name, user=user, password=Secret(password), nonce="abc")


@pytest.mark.parametrize(("hash_name", "nonce", "challenge", "final", "signature"), RFC_EXAMPLES)
def test_the_examples_of_the_rfcs(
    hash_name: str, nonce: str, challenge: bytes, final: bytes, signature: bytes
) -> None:
    exchange = Scram(hash_name, user="user", password=Secret("pencil"), nonce=nonce)
    assert exchange.first() == b"n,,n=user,r=" + nonce.encode()
    assert exchange.answer(challenge) == final
    assert exchange.answer(signature) is None


class Server:
    """The other side of SCRAM: knows what is stored of a password, and nothing of what the client is made of."""

    def __init__(
        self, hash_name: str, password: str, *, salt: bytes = b"salt", iterations: int = 4096
    ) -> None:
        self._hash_name = hash_name
        self._salt = salt
        self._iterations = iterations
        salted = hashlib.pbkdf2_hmac(hash_name, password.encode(), salt, iterations)
        client_key = hmac.new(salted, b"Client Key", hash_name).digest()
        self._stored_key = hashlib.new(hash_name, client_key).digest()
        self._server_key = hmac.new(salted, b"Server Key", hash_name).digest()

    def challenge(self, client_first: bytes) -> bytes:
        self._client_first_bare = client_first.removeprefix(b"n,,")
        nonce = self._client_first_bare.rpartition(b",r=")[2] + b"more"
        salt = base64.b64encode(self._salt)
        self._said = b"r=" + nonce + b",s=" + salt + b",i=" + str(self._iterations).encode()
        return self._said

    def verdict(self, client_final: bytes) -> bytes | None:
        """The signature that convinces the client; None if the client has not convinced us."""
        without_proof, _, proof = client_final.rpartition(b",p=")
        message = b",".join((self._client_first_bare, self._said, without_proof))
        signature = hmac.new(self._stored_key, message, self._hash_name).digest()
        client_key = bytes(a ^ b for a, b in zip(base64.b64decode(proof), signature, strict=True))
        if hashlib.new(self._hash_name, client_key).digest() != self._stored_key:
            return None
        return b"v=" + base64.b64encode(hmac.new(self._server_key, message, self._hash_name).digest())


texts = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1, max_size=30)


@settings(max_examples=25, deadline=None)
@given(
    hash_name=st.sampled_from(["sha256", "sha512"]),
    user=texts,
    password=texts,
    salt=st.binary(min_size=1, max_size=40),
)
def test_a_server_that_knows_the_password_is_convinced_and_convinces(
    hash_name: str, user: str, password: str, salt: bytes
) -> None:
    server = Server(hash_name, password, salt=salt)
    exchange = scram(hash_name, user=user, password=password)
    final = exchange.answer(server.challenge(exchange.first()))
    assert final is not None
    signature = server.verdict(final)
    assert signature is not None
    assert exchange.answer(signature) is None


def test_a_wrong_password_is_rejected_by_the_server() -> None:
    server = Server("sha512", "pencil")
    exchange = scram("sha512", password="pencils")
    final = exchange.answer(server.challenge(exchange.first()))
    assert final is not None
    assert server.verdict(final) is None


def test_a_name_with_the_signs_of_scram_itself_is_written_around_them() -> None:
    assert scram(user="a=b,c").first() == b"n,,n=a=3Db=2Cc,r=abc"


@pytest.mark.parametrize(
    ("challenge", "words"),
    [
        (b"r=abx123,s=c2FsdA==,i=4096", "nonce does not continue ours"),
        (b"r=abc,s=c2FsdA==,i=4096", "nonce does not continue ours"),
        (b"s=c2FsdA==,i=4096", "nonce does not continue ours"),
        (b"r=abcd,s=c2FsdA==,i=4095", "asks for 4095 SCRAM iterations"),
        (b"r=abcd,s=c2FsdA==,i=1000001", "asks for 1000001 SCRAM iterations"),
        (b"r=abcd,s=c2FsdA==,i=" + b"9" * 5000, "asks for 99999999999999999999 SCRAM"),
        (b"r=abcd,s=c2FsdA==,i=-1", "asks for -1 SCRAM iterations"),
        (b"r=abcd,s=c2FsdA==", "asks for no SCRAM iterations"),
        (b"r=abcd,s=%%%,i=4096", "cannot be read"),
        (b"r=abcd,i=4096", "cannot be read"),
        (b"m=x,r=abcd,s=c2FsdA==,i=4096", "extension"),
        (b"", "nonce does not continue ours"),
        (b"\xff\xfe", "nonce does not continue ours"),
    ],
)
def test_a_challenge_that_is_none_is_refused(challenge: bytes, words: str) -> None:
    with pytest.raises(AuthenticationError, match=words):
        scram().answer(challenge)


@pytest.mark.parametrize(
    ("final", "words"),
    [
        (b"v=" + base64.b64encode(bytes(32)), "could not prove that it knows the password"),
        (b"v=", "cannot be read"),
        (b"", "cannot be read"),
        (b"e=other-error", "the broker refused: other-error"),
    ],
)
def test_a_broker_that_cannot_prove_itself_is_not_believed(final: bytes, words: str) -> None:
    exchange = scram()
    assert exchange.answer(b"r=abcd,s=c2FsdA==,i=4096")
    with pytest.raises(AuthenticationError, match=words):
        exchange.answer(final)


def test_plain_says_name_and_password_between_zero_bytes() -> None:
    exchange = Plain(user="käthe", password=Secret("pencil"))
    assert exchange.first() == b"\0k\xc3\xa4the\0pencil"
    assert exchange.answer(b"") is None
    with pytest.raises(AuthenticationError, match="zero byte"):
        Plain(user="a\0b", password=Secret("pencil"))


def test_oauthbearer_sends_its_token_and_reports_why_the_broker_rejected_it() -> None:
    exchange = OAuthBearer(Secret("abc.def."))
    assert exchange.first() == b"n,,\x01auth=Bearer abc.def.\x01\x01"
    assert exchange.answer(b"") is None
    assert exchange.answer(b'{"status":"invalid_token"}') == b"\x01"
    assert exchange.problem == '{"status":"invalid_token"}'
    with pytest.raises(AuthenticationError, match="invalid_token"):
        exchange.answer(b"again")


def test_an_empty_or_malformed_token_is_rejected_before_it_is_sent() -> None:
    for text in ("", "a\x01b"):
        with pytest.raises(AuthenticationError, match="not a token"):
            OAuthBearer(Secret(text))
