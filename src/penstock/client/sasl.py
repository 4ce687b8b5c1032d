"""What the two sides say to each other in SASL, by mechanism, as bytes and without I/O: PLAIN and OAUTHBEARER
(RFC 7628) here, SCRAM beside it. Kerberos (GSSAPI) is left out.
"""

from typing import Final, Protocol

from penstock.base.secret import Secret
from penstock.client.errors import AuthenticationError

_SEPARATOR: Final = "\x01"


class SaslExchange(Protocol):
    """One proof of who we are: `first` is said first, then `answer` to what comes back, until that is None."""

    def first(self) -> bytes: ...

    def answer(self, challenge: bytes) -> bytes | None:
        """What to say next, or None if all is said; AuthenticationError if the other side is not to be trusted."""
        ...


class Plain:
    """PLAIN: name and password as they are, so only for inside TLS or a network that is trusted."""

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
    """OAUTHBEARER: a token that an identity provider has signed."""

    def __init__(self, token: Secret) -> None:
        if _SEPARATOR in token.reveal() or not token:
            raise AuthenticationError("the token for OAUTHBEARER is empty, or no token at all")
        self._token = token
        self.problem: str | None = None  # what the broker says about a token that it does not take

    def first(self) -> bytes:
        return f"n,,{_SEPARATOR}auth=Bearer {self._token.reveal()}{_SEPARATOR}{_SEPARATOR}".encode()

    def answer(self, challenge: bytes) -> bytes | None:
        """Nothing to a broker that is content. One that is not says why, and wants to hear that we have heard."""
        if not challenge:
            return None
        if self.problem is not None:
            raise AuthenticationError(f"the token was not taken: {self.problem}")
        self.problem = challenge.decode(errors="replace")[:400]
        return _SEPARATOR.encode()
