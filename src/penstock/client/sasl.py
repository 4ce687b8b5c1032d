"""The client's messages of SASL mechanisms, as bytes without I/O: PLAIN and OAUTHBEARER (RFC 7628); SCRAM is in
`scram`. Kerberos (GSSAPI) is left out.
"""

from typing import Final, Protocol

from penstock.base.secret import Secret
from penstock.client.errors import AuthenticationError

_SEPARATOR: Final = "\x01"


class SaslExchange(Protocol):
    """One SASL exchange: send `first`, then `answer` to each server message until it returns None."""

    def first(self) -> bytes: ...

    def answer(self, challenge: bytes) -> bytes | None:
        """The next message, None when the exchange is complete; AuthenticationError if it has failed."""
        ...


class Plain:
    """PLAIN: name and password in clear text, so only inside TLS or a trusted network."""

    def __init__(self, *, user: str, password: Secret) -> None:
        if "\0" in user or "\0" in password.reveal():
            raise AuthenticationError("a name or password for PLAIN cannot contain a zero byte")
        self._user = user
        self._password = password

    def first(self) -> bytes:
        return f"\0{self._user}\0{self._password.reveal()}".encode()

    def answer(self, challenge: bytes) -> bytes | None:  # noqa: ARG002 (there is nothing to answer)
        return None


class OAuthBearer:
    """OAUTHBEARER: a token that an identity provider signed."""

    def __init__(self, token: Secret) -> None:
        if _SEPARATOR in token.reveal() or not token:
            raise AuthenticationError("the token for OAUTHBEARER is empty, or not a token")
        self._token = token
        self.problem: str | None = None  # the broker's reason for rejecting the token

    def first(self) -> bytes:
        return f"n,,{_SEPARATOR}auth=Bearer {self._token.reveal()}{_SEPARATOR}{_SEPARATOR}".encode()

    def answer(self, challenge: bytes) -> bytes | None:
        """None if the broker accepts the token. One that rejects it sends the reason, and expects one more message."""
        if not challenge:
            return None
        if self.problem is not None:
            raise AuthenticationError(f"the token was rejected: {self.problem}")
        self.problem = challenge.decode(errors="replace")[:400]
        return _SEPARATOR.encode()
