"""Apache Kafka with TLS and SASL: a listener for each case, certificates by an authority of the test's own, one user.

For tests of our client, wherever they stand: `secured` is the fixture to import.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from peers.certificates import Authority
from peers.kafka import ApacheKafka
from penstock.world.tls import Tls
from tests.foreign.target import new_kafka

USER, PASSWORD = "alice", "open-sesame"
MODULES = "org.apache.kafka.common.security"
SESSION_MS = 3_000
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
LISTENERS = {
    "TLS": "SSL",
    "MUTUAL": "SSL",
    "NAMED": "SASL_PLAINTEXT",
    "BOTH": "SASL_SSL",
    "BRIEF": "SASL_PLAINTEXT",
    "FEW": "SASL_PLAINTEXT",
}


class Secured:
    """A broker, and the files that a client of it needs."""

    def __init__(self, kafka: ApacheKafka, authority: Authority, stranger: Authority, mine: Path) -> None:
        self.kafka = kafka
        self.authority = str(authority.certificate)
        self.stranger = str(stranger.certificate)
        self.mine = str(mine)  # this side's certificate, with a key that KEY_PASSWORD opens

    def at(self, listener: str) -> str:
        return self.kafka.bootstraps[listener]

    @property
    def tls(self) -> Tls:
        return Tls(authorities_file=self.authority)


KEY_PASSWORD = "only for this key"


@pytest.fixture(scope="module")
def secured(
    tmp_path_factory: pytest.TempPathFactory, needs_kafka: None, needs_openssl: None
) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("certificates")
    authority, stranger = Authority(folder, "authority"), Authority(folder, "stranger")
    broker = authority.sign("broker", host="IP:127.0.0.1")
    mine = authority.sign("client", password=KEY_PASSWORD)
    kafka = new_kafka(
        broker_settings(broker, authority.certificate), listeners=LISTENERS, users={USER: PASSWORD}
    )
    with kafka:
        yield Secured(kafka, authority, stranger, mine)


def broker_settings(store: Path, trusted: Path) -> dict[str, object]:
    settings: dict[str, object] = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": store,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": trusted,
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.few.sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN",
    }
    for listener in ("named", "both", "brief", "few"):
        start = f"listener.name.{listener}"
        settings.setdefault(f"{start}.sasl.enabled.mechanisms", ",".join(MECHANISMS))
        settings |= {
            f"{start}.plain.sasl.jaas.config": f'{MODULES}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";',
            f"{start}.scram-sha-256.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;",
            f"{start}.scram-sha-512.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;",
            f"{start}.oauthbearer.sasl.jaas.config": f"{MODULES}.oauthbearer.OAuthBearerLoginModule required "
            'unsecuredLoginStringClaim_sub="broker";',
        }
    for mechanism in MECHANISMS:
        settings[f"listener.name.brief.{mechanism.lower()}.connections.max.reauth.ms"] = SESSION_MS
    return settings


def properties(secured: Secured, password: str = PASSWORD) -> dict[str, str]:
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f'{MODULES}.scram.ScramLoginModule required username="{USER}" password="{password}";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": secured.authority,
    }
