"""How a client makes sure of its broker, and the broker of it: `Security`, a value that can be hashed and pickled.

What Kafka calls the security protocol follows from its two parts: PLAINTEXT has neither TLS nor SASL, SSL the one,
SASL_PLAINTEXT the other, SASL_SSL both. Settings under Kafka's names become one in `security_settings`. Secrets are
`Secret`s throughout: nothing that is printed or logged shows them.
"""

from dataclasses import dataclass, field
from enum import Enum

from penstock.base.secret import Secret
from penstock.world.tls import Tls


class Mechanism(Enum):
    """The ways of SASL that are known; the value is the name on the wire."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"

    @property
    def hash_name(self) -> str | None:
        """For SCRAM, the hash as `hashlib` calls it."""
        return {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}.get(self.value)


@dataclass(frozen=True)
class Sasl:
    """Who this side is. OAUTHBEARER has a token, or a function that is called for one; all others have a user."""

    mechanism: Mechanism
    user: str = ""
    password: Secret = field(default_factory=lambda: Secret(""))
    token: Secret | None = None
    # As "module:function": called before every proof, so that the token is fresh; may be a coroutine function.
    token_function: str | None = None


@dataclass(frozen=True)
class Security:
    """TLS, SASL, both or none."""

    tls: Tls | None = None
    sasl: Sasl | None = None

    @property
    def protocol(self) -> str:
        """The name Kafka has for it."""
        if self.sasl is None:
            return "PLAINTEXT" if self.tls is None else "SSL"
        return "SASL_PLAINTEXT" if self.tls is None else "SASL_SSL"
