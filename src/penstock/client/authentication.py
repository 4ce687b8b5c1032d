"""SASL authentication on one connection: SaslHandshake v1, SaslAuthenticate v0-v2, and reauthentication before the
session expires (KIP-368). Needs Kafka 1.0 or newer.
"""

import base64
import importlib
import inspect
from collections.abc import Awaitable
from typing import Final, Protocol, TypeVar

from penstock.base.errors import ErrorCode, Refusal
from penstock.base.secret import Secret
from penstock.client.addresses import Address
from penstock.client.errors import AuthenticationError, refusal_of
from penstock.client.errors import describe as describe_refusal
from penstock.client.sasl import OAuthBearer, Plain, SaslExchange
from penstock.client.scram import Scram
from penstock.client.security import Mechanism, Sasl
from penstock.client.versions import Versions
from penstock.schema.words import Message
from penstock.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from penstock.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from penstock.world.entropy import Entropy

R = TypeVar("R", bound=Message)

_NONCE_BYTES: Final = 24
_ROUNDS_MAX: Final = 4  # SCRAM, the longest, has two
# Reauthenticate after this part of the session's lifetime: the rest is for requests in flight.
_RENEWAL_PERCENT: Final = 85


class Ask(Protocol):
    """Sends a request on the connection and returns the response."""

    def __call__(self, request: Message, response: type[R]) -> Awaitable[R]: ...


def check_versions(versions: Versions, address: Address) -> None:
    """Raise AuthenticationError if the broker is too old for SaslHandshake v1 and SaslAuthenticate."""
    if not versions.offers(SaslHandshakeRequest):
        raise AuthenticationError(_no_sasl(address))
    if not versions.offers(SaslAuthenticateRequest):
        raise AuthenticationError(f"{address} is too old: it does SASL as Kafka before 1.0 did")


def renewal_delay_ms(lifetime_ms: int) -> int | None:
    """How long after an authentication to reauthenticate; None if the broker sets no session lifetime."""
    return lifetime_ms * _RENEWAL_PERCENT // 100 if lifetime_ms > 0 else None


async def authenticate(ask: Ask, sasl: Sasl, *, address: Address, entropy: Entropy) -> int:
    """Authenticate; return the session lifetime in milliseconds, 0 for that of the connection."""
    mechanism = sasl.mechanism.value
    await _shake_hands(ask, mechanism, address)
    exchange = await _exchange(sasl, entropy)
    token: bytes | None = exchange.first()
    for _ in range(_ROUNDS_MAX):
        assert token is not None
        answer = await ask(SaslAuthenticateRequest(auth_bytes=token), SaslAuthenticateResponse)
        refusal = refusal_of(answer.error_code, answer.error_message)
        if refusal is not None:
            raise AuthenticationError(f"{address} {_refused(sasl, exchange, refusal)}")
        try:
            token = exchange.answer(bytes(answer.auth_bytes))
        except AuthenticationError as error:
            raise AuthenticationError(f"{mechanism} with {address}: {error}") from None
        if token is None:
            return answer.session_lifetime_ms
    raise AuthenticationError(f"{mechanism} with {address} came to no end")


async def _shake_hands(ask: Ask, mechanism: str, address: Address) -> None:
    answer = await ask(SaslHandshakeRequest(mechanism=mechanism), SaslHandshakeResponse)
    if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        offered = ", ".join(sorted(answer.mechanisms)) or "none"
        raise AuthenticationError(f"{address} does not offer {mechanism}; sasl.mechanism may be: {offered}")
    if answer.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        raise AuthenticationError(_no_sasl(address))
    refusal = refusal_of(answer.error_code)
    if refusal is not None:
        raise AuthenticationError(f"{address} refused SaslHandshake: {describe_refusal(refusal)}")


def _no_sasl(address: Address) -> str:
    return f"{address} does not do SASL; security.protocol would be PLAINTEXT or SSL there"


def _who(sasl: Sasl) -> str:
    return f"{sasl.mechanism.value} of user {sasl.user!r}" if sasl.user else sasl.mechanism.value


def _refused(sasl: Sasl, exchange: SaslExchange, refusal: Refusal) -> str:
    said = describe_refusal(refusal)
    problem = exchange.problem if isinstance(exchange, OAuthBearer) else None
    if problem is not None and problem not in said:
        said = f"{said}; it said {problem}"
    return f"refused {_who(sasl)}: {said}"


async def _exchange(sasl: Sasl, entropy: Entropy) -> SaslExchange:
    if sasl.mechanism is Mechanism.PLAIN:
        return Plain(user=sasl.user, password=sasl.password)
    if sasl.mechanism is Mechanism.OAUTHBEARER:
        return OAuthBearer(await _token(sasl))
    hash_name = sasl.mechanism.hash_name
    assert hash_name is not None
    nonce = base64.b64encode(entropy.random_bytes(_NONCE_BYTES)).decode()
    return Scram(hash_name, user=sasl.user, password=sasl.password, nonce=nonce)


async def _token(sasl: Sasl) -> Secret:
    if sasl.token is not None:
        return sasl.token
    name = sasl.token_function or ""
    module, _, function = name.partition(":")
    try:
        token = getattr(importlib.import_module(module), function)()
        if inspect.isawaitable(token):
            token = await token
    except Exception as error:
        # The kind alone: what a function of the user's says about its failure may quote a secret.
        raise AuthenticationError(f"no token from {name}: it raised {type(error).__name__}") from error
    if not isinstance(token, str):
        raise AuthenticationError(f"no token from {name}: it returned {type(token).__name__}, not str")
    return Secret(token)
