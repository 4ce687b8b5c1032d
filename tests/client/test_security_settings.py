"""From Kafka's names for TLS and SASL to a `Security`."""

import pickle

import pytest

from penstock.base.errors import SettingError
from penstock.base.secret import Secret
from penstock.base.settings import Settings, Source, group_by_name
from penstock.client.security import Mechanism, Sasl, Security
from penstock.client.security_settings import SECURITY_SETTINGS, security_of
from penstock.world.tls import Tls

KAFKA = "org.apache.kafka.common.security"
SCRAM = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-256"}


def security(properties: dict[str, str]) -> Security:
    given = [
        SECURITY_SETTINGS.give(name, value, source=Source.STATIC_BROKER, origin="test")
        for name, value in properties.items()
    ]
    return security_of(Settings(SECURITY_SETTINGS, group_by_name(given)))


def test_without_settings_there_is_no_security() -> None:
    assert security({}) == Security()
    assert security({}).protocol == "PLAINTEXT"


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"])
def test_each_of_kafkas_protocols_has_its_name(protocol: str) -> None:
    who = {"sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "p"}
    more = who if protocol.startswith("SASL") else {}
    assert security({"security.protocol": protocol, **more}).protocol == protocol
    assert security({"security.protocol": protocol.lower(), **more}).protocol == protocol


def test_user_and_password_become_sasl() -> None:
    found = security({**SCRAM, "sasl.username": "alice", "sasl.password": " p "})
    assert found.sasl == Sasl(Mechanism.SCRAM_SHA_256, user="alice", password=Secret(" p "))
    assert found.tls == Tls()


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ({"ssl.truststore.location": "ca.pem"}, Tls(authorities_file="ca.pem")),
        (
            {"ssl.truststore.location": "ca.pem", "ssl.truststore.type": "PEM"},
            Tls(authorities_file="ca.pem"),
        ),
        ({"ssl.ca.location": "ca.pem"}, Tls(authorities_file="ca.pem")),
        (
            {"ssl.keystore.location": "me.pem", "ssl.key.password": "k"},
            Tls(certificate_file="me.pem", key_password=Secret("k")),
        ),
        (
            {"ssl.certificate.location": "me.pem", "ssl.key.location": "me.key"},
            Tls(certificate_file="me.pem", key_file="me.key"),
        ),
        ({"ssl.endpoint.identification.algorithm": ""}, Tls(host_is_checked=False)),
        ({"ssl.endpoint.identification.algorithm": "none"}, Tls(host_is_checked=False)),
        ({"ssl.endpoint.identification.algorithm": "HTTPS"}, Tls()),
    ],
)
def test_the_names_of_java_and_of_librdkafka_are_known(names: dict[str, str], expected: Tls) -> None:
    assert security({"security.protocol": "SSL", **names}).tls == expected


def test_pem_on_one_line_gets_its_lines_back() -> None:
    pem = "-----BEGIN CERTIFICATE----- MIIB AAAA -----END CERTIFICATE-----"
    found = security({"security.protocol": "SSL", "ssl.truststore.certificates": pem}).tls
    assert found is not None
    assert found.authorities_pem == "-----BEGIN CERTIFICATE-----\nMIIB AAAA\n-----END CERTIFICATE-----\n"


@pytest.mark.parametrize(
    ("mechanism", "line", "user", "password"),
    [
        ("PLAIN", f'{KAFKA}.plain.PlainLoginModule required username="a" password="b";', "a", "b"),
        ("SCRAM-SHA-256", "ScramLoginModule required username='a' password='b' ;", "a", "b"),
        (
            "SCRAM-SHA-512",
            f'\n {KAFKA}.scram.ScramLoginModule REQUIRED\n username = "a"\n password="x\\"y\\\\ ;=z";\n',
            "a",
            'x"y\\ ;=z',
        ),
        ("PLAIN", "kafkashaded.org.apache.PlainLoginModule required username=a password=b;", "a", "b"),
    ],
)
def test_the_line_of_jaas_is_read(mechanism: str, line: str, user: str, password: str) -> None:
    found = security(
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, "sasl.jaas.config": line}
    )
    assert found.sasl == Sasl(Mechanism(mechanism), user=user, password=Secret(password))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "cannot be read"),
        ('ScramLoginModule username="a" password="hush";', "should read"),
        ('ScramLoginModule required username="a" password="hush"', "semicolon"),
        ('ScramLoginModule required username="a" password="hush; ', "semicolon"),
        ('ScramLoginModule required username="a" password="hush"; more', "semicolon"),
        (
            'PlainLoginModule required username="a" password="hush";',
            "is not for sasl.mechanism=SCRAM-SHA-256",
        ),
        (
            'Krb5LoginModule required keyTab="hush";',
            "none of PlainLoginModule, ScramLoginModule, OAuthBearerLogin",
        ),
        (
            'ScramLoginModule required username="a" password="hush" tokenauth="true";',
            "tokenauth is not known",
        ),
        ('ScramLoginModule required username="a";', "needs a user and a password"),
    ],
)
def test_a_line_of_jaas_that_cannot_be_used_is_refused_and_not_quoted(line: str, words: str) -> None:
    with pytest.raises(SettingError, match=words) as caught:
        security({**SCRAM, "sasl.jaas.config": line})
    assert "hush" not in str(caught.value)


def test_a_token_or_a_function_makes_a_bearer() -> None:
    bearer = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
    given = security({**bearer, "penstock.sasl.token": "t"})
    assert given.sasl == Sasl(Mechanism.OAUTHBEARER, token=Secret("t"))
    line = f"{KAFKA}.oauthbearer.OAuthBearerLoginModule required;"
    made = security({**bearer, "sasl.jaas.config": line, "penstock.sasl.token.function": "my.tokens:fresh"})
    assert made.sasl == Sasl(Mechanism.OAUTHBEARER, token_function="my.tokens:fresh")


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"security.protocol": "TLS"}, "allowed is one of: PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({"security.protocl": "SSL"}, "did you mean security.protocol"),
        ({"ssl.ca.location": "ca.pem"}, "set security.protocol to SSL or SASL_SSL"),
        ({"security.protocol": "SSL", "sasl.username": "a"}, "set security.protocol to SASL_PLAINTEXT or"),
        ({"security.protocol": "SASL_SSL"}, "needs sasl.mechanism, one of PLAIN, SCRAM"),
        ({**SCRAM, "sasl.mechanism": "GSSAPI"}, "allowed is one of: PLAIN"),
        ({**SCRAM, "sasl.username": "a"}, "needs a user and a password"),
        ({**SCRAM, "sasl.username": "a", "sasl.jaas.config": "x"}, "say the same thing"),
        ({**SCRAM, "penstock.sasl.token": "t"}, "a token is for sasl.mechanism=OAUTHBEARER"),
        ({**SCRAM, "sasl.mechanism": "OAUTHBEARER"}, "needs penstock.sasl.token, or"),
        (
            {**SCRAM, "sasl.mechanism": "OAUTHBEARER", "penstock.sasl.token.function": "fresh"},
            "write it as module:function",
        ),
        (
            {
                **SCRAM,
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.jaas.config": 'OAuthBearerLoginModule required clientId="x" clientSecret="hush";',
            },
            "clientId, clientSecret of OAuthBearerLoginModule cannot be used here",
        ),
        (
            {"security.protocol": "SSL", "ssl.truststore.type": "JKS"},
            "only PEM is read: `keytool -importkeystore",
        ),
        ({"security.protocol": "SSL", "ssl.keystore.password": "hush"}, "only PEM is read"),
        ({"security.protocol": "SSL", "ssl.ca.location": "a", "ssl.truststore.location": "b"}, "same thing"),
        ({"security.protocol": "SSL", "ssl.key.location": "a"}, "without a certificate"),
        (
            {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "htps"},
            "allowed is one of: https",
        ),
    ],
)
def test_what_does_not_fit_together_is_said(properties: dict[str, str], words: str) -> None:
    with pytest.raises(SettingError, match=words) as caught:
        security(properties)
    assert "hush" not in str(caught.value)


def test_a_security_is_a_value_that_keeps_its_secrets() -> None:
    one, other = (
        security(
            {
                **SCRAM,
                "sasl.username": "alice",
                "sasl.password": "hush",
                "ssl.certificate.location": "me.pem",
                "ssl.keystore.key": "hush hush",
                "ssl.key.password": "hush hush hush",
            }
        )
        for _ in range(2)
    )
    assert one == other == pickle.loads(pickle.dumps(one))
    assert len({one, other}) == 1
    assert "alice" in repr(one)
    assert "hush" not in repr(one) + str(one)
