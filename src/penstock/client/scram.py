"""The client's side of SCRAM (RFC 5802, with SHA-256 and SHA-512 as in RFC 7677), as bytes without I/O.

The password is never sent, and the broker has to prove that it knows it too. No channel binding; names and passwords
are UTF-8 without SASLprep, as in Kafka's own client.
"""

import base64
import binascii
import hashlib
import hmac
from typing import Final

from penstock.base.secret import Secret
from penstock.client.errors import AuthenticationError

_NO_BINDING: Final = b"n,,"
ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 1_000_000  # half a second of CPU time; a broker must not be able to cause hours of it


class Scram:
    """One exchange: send `first`, then `answer` to each server message until it returns None."""

    def __init__(self, hash_name: str, *, user: str, password: Secret, nonce: str) -> None:
        self._hash_name = hash_name
        self._password = password
        self._nonce = nonce
        self._first_bare = f"n={_escaped(user)},r={nonce}".encode()
        self._server_signature: bytes | None = None

    def first(self) -> bytes:
        return _NO_BINDING + self._first_bare

    def answer(self, challenge: bytes) -> bytes | None:
        """The next message; None when the broker has proven that it knows the password, else AuthenticationError."""
        if self._server_signature is None:
            return self._final(challenge)
        self._verify(challenge)
        return None

    def _final(self, server_first: bytes) -> bytes:
        fields = _fields(server_first)
        nonce, salt, iterations = self._read(fields)
        without_proof = b"c=" + base64.b64encode(_NO_BINDING) + b",r=" + nonce
        said = b",".join((self._first_bare, server_first, without_proof))
        salted = hashlib.pbkdf2_hmac(self._hash_name, self._password.reveal().encode(), salt, iterations)
        client_key = self._hmac(salted, b"Client Key")
        stored_key = hashlib.new(self._hash_name, client_key).digest()
        signature = self._hmac(stored_key, said)
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        self._server_signature = self._hmac(self._hmac(salted, b"Server Key"), said)
        return without_proof + b",p=" + base64.b64encode(proof)

    def _read(self, fields: dict[bytes, bytes]) -> tuple[bytes, bytes, int]:
        if b"m" in fields:
            raise AuthenticationError("the broker wants an extension of SCRAM that is not known here")
        nonce, count = fields.get(b"r", b""), fields.get(b"i", b"")
        if not nonce.startswith(self._nonce.encode()) or len(nonce) == len(self._nonce):
            raise AuthenticationError(
                "the broker's SCRAM nonce does not continue ours; a third party may have altered it"
            )
        iterations = int(count) if count.isdigit() and len(count) < 10 else 0
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise AuthenticationError(
                f"the broker asks for {count.decode(errors='replace')[:20] or 'no'} SCRAM iterations; "
                f"{ITERATIONS_MIN} to {ITERATIONS_MAX} are allowed"
            )
        return nonce, _decoded(fields.get(b"s", b"")), iterations

    def _verify(self, server_final: bytes) -> None:
        fields = _fields(server_final)
        if b"e" in fields:
            raise AuthenticationError(f"the broker refused: {fields[b'e'].decode(errors='replace')[:200]}")
        assert self._server_signature is not None
        if not hmac.compare_digest(_decoded(fields.get(b"v", b"")), self._server_signature):
            raise AuthenticationError(
                "the broker could not prove that it knows the password; it may not be the real one"
            )

    def _hmac(self, key: bytes, data: bytes) -> bytes:
        return hmac.digest(key, data, self._hash_name)


def _escaped(user: str) -> str:
    return user.replace("=", "=3D").replace(",", "=2C")


def _fields(message: bytes) -> dict[bytes, bytes]:
    """The values by their letters, in "r=…,s=…"; the value of a letter may contain equals signs."""
    pairs = (part.partition(b"=") for part in message.split(b","))
    return {letter: value for letter, _, value in pairs}


def _decoded(text: bytes) -> bytes:
    try:
        decoded = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        decoded = b""
    if not decoded:
        raise AuthenticationError("the broker's part of SCRAM cannot be read")
    return decoded
