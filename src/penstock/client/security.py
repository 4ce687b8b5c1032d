"""TLS and SASL of a client's connections: `Security`, a value that can be hashed and pickled.

Kafka's security protocol follows from its two parts: PLAINTEXT has neither, SSL has TLS, SASL_PLAINTEXT has SASL,
SASL_SSL both. `security_settings` makes one from Kafka's settings. Passwords and tokens are `Secret`s: nothing that is
printed or logged shows them.
"""

from dataclasses import dataclass, field
from enum import Enum

from penstock.base.secret import Secret
from penstock.world.tls import Tls


class Mechanism(Enum):
    """The supported SASL mechanisms, by their names in the protocol."""

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
    """Credentials. OAUTHBEARER has a token, or a function that returns one; the other mechanisms have a user."""

    mechanism: Mechanism
    user: str = ""
    password: Secret = field(default_factory=lambda: Secret(""))
    token: Secret | None = None
    # As "module:function": called before every authentication for a fresh token; may be a coroutine function.
    token_function: str | None = None


@dataclass(frozen=True)
class Security:
    """TLS, SASL, both or none."""

    tls: Tls | None = None
    sasl: Sasl | None = None

    @property
    def protocol(self) -> str:
        """Kafka's name for the combination."""
        if self.sasl is None:
            return "PLAINTEXT" if self.tls is None else "SSL"
        return "SASL_PLAINTEXT" if self.tls is None else "SASL_SSL"
