"""Our client on Apache Kafka with TLS and SASL: every protocol and mechanism, and the ways they are got wrong.

One broker with a listener for each case serves all. Certificates are made here, by an authority of the test's own.
"""

import asyncio
import base64
import json
import time
from pathlib import Path

import pytest

from penstock.base.ids import TopicPartition
from penstock.base.secret import Secret
from penstock.base.settings import Settings, Source, group_by_name
from penstock.client.addresses import Address
from penstock.client.blocking import BlockingClient
from penstock.client.client import Client, ClientSettings
from penstock.client.connection import Connection, ConnectionLimits, open_connection
from penstock.client.errors import AuthenticationError, ClientError
from penstock.client.fetch import FetchLimits, fetch, read_batches, read_fetched
from penstock.client.producer import NewRecord, Producer
from penstock.client.security import Mechanism, Sasl, Security
from penstock.client.security_settings import SECURITY_SETTINGS, security_of
from penstock.client.topics import Created, NewTopic, create_topics, describe_cluster
from penstock.wire.messages.metadata import MetadataRequest, MetadataResponse
from penstock.world.real_entropy import RealEntropy
from penstock.world.real_loop import RealLoop
from penstock.world.tls import Tls
from tests.cli.running import in_process
from tests.secured_kafka import (
    KEY_PASSWORD,
    MECHANISMS,
    PASSWORD,
    SESSION_MS,
    USER,
    Secured,
    properties,
    secured,
)

__all__ = ["secured"]

pytestmark = [pytest.mark.foreign, pytest.mark.xdist_group("kafka-security")]


def fresh_token(lifetime_s: int = 3600) -> str:
    """A token without a signature, which Kafka accepts unless keys to verify signatures are configured."""
    now_s = (
        int(time.time()) - 1
    )  # the broker counts in whole milliseconds, and takes no token from the future
    claims = {"sub": USER, "iat": now_s, "exp": now_s + lifetime_s}
    parts = (json.dumps(part).encode() for part in ({"alg": "none"}, claims))
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts) + "."


async def fresh_token_after_a_while() -> str:
    await asyncio.sleep(0)
    return fresh_token()


def failing_token() -> str:
    raise RuntimeError(f"no luck with {PASSWORD}")


def sasl(mechanism: str, password: str = PASSWORD) -> Sasl:
    if mechanism == "OAUTHBEARER":
        return Sasl(Mechanism.OAUTHBEARER, token_function=f"{__name__}:fresh_token")
    return Sasl(Mechanism(mechanism), user=USER, password=Secret(password))


def there_and_back(bootstrap: str, security: Security, topic: str) -> None:
    """A topic is created, written to and read back: over connections to the bootstrap address and to the node."""
    values = [b"one", b"two", b"x" * 300_000]

    async def story(client: Client) -> list[bytes | None]:
        assert isinstance((await create_topics(client, [NewTopic(topic, 1, 1)]))[topic], Created)
        assert len((await describe_cluster(client)).brokers) == 1
        await Producer(client).send(topic, [NewRecord(None, value) for value in values])
        (node_id,) = await client.leaders([TopicPartition(topic, 0)])
        (fetched,) = await fetch(client, node_id, {TopicPartition(topic, 0): 0}, FetchLimits())
        return [
            bytes(record.value or b"")
            for header, batch in read_batches(fetched)
            for record in read_fetched(batch, header, from_offset=0)
        ]

    with BlockingClient(bootstrap, settings=ClientSettings(security=security)) as blocking:
        assert blocking.run(story(blocking.client)) == values


def refused(bootstrap: str, security: Security) -> str:
    """What a client says that is not let in; and that it does not try again."""
    settings = ClientSettings(security=security, retries_first_connection=True)
    with BlockingClient(bootstrap, settings=settings) as blocking:
        with pytest.raises(AuthenticationError) as caught:
            blocking.run(blocking.client.retry(blocking.client.refresh))
        assert PASSWORD not in f"{caught.value!r} {caught.value.__cause__!r}"
        return str(caught.value)


# Everybody gets in who should.


def test_a_client_works_inside_tls(secured: Secured, topic: str) -> None:
    there_and_back(secured.at("TLS"), Security(tls=secured.tls), topic)


def test_authorities_may_be_given_as_text(secured: Secured) -> None:
    tls = Tls(authorities_pem=Path(secured.authority).read_text())
    with BlockingClient(secured.at("TLS"), settings=ClientSettings(security=Security(tls=tls))) as blocking:
        assert blocking.run(blocking.client.brokers())


def test_a_broker_that_wants_a_certificate_is_shown_one(secured: Secured, topic: str) -> None:
    tls = Tls(
        authorities_file=secured.authority,
        certificate_file=secured.mine,
        key_password=Secret(KEY_PASSWORD),
    )
    there_and_back(secured.at("MUTUAL"), Security(tls=tls), topic)


def test_a_certificate_and_its_key_may_be_given_as_text(secured: Secured) -> None:
    text = Path(secured.mine).read_text()
    key, begin, certificate = text.partition("-----BEGIN CERTIFICATE-----")
    settings = {
        "security.protocol": "ssl",
        "ssl.ca.location": secured.authority,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": (begin + certificate).replace("\n", " "),
        "ssl.keystore.key": key.replace("\n", " "),
        "ssl.key.password": KEY_PASSWORD,
    }
    security = asked_for(settings)
    with BlockingClient(secured.at("MUTUAL"), settings=ClientSettings(security=security)) as blocking:
        assert blocking.run(blocking.client.brokers())


@pytest.mark.parametrize("listener", ["NAMED", "BOTH"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_client_authenticates_with_sasl(
    secured: Secured, topic: str, listener: str, mechanism: str
) -> None:
    tls = secured.tls if listener == "BOTH" else None
    there_and_back(secured.at(listener), Security(tls, sasl(mechanism)), topic)


def test_a_token_may_come_from_a_coroutine(secured: Secured) -> None:
    who = Sasl(Mechanism.OAUTHBEARER, token_function=f"{__name__}:fresh_token_after_a_while")
    with BlockingClient(
        secured.at("NAMED"), settings=ClientSettings(security=Security(sasl=who))
    ) as blocking:
        assert blocking.run(blocking.client.brokers())


def test_the_host_is_not_checked_where_that_was_asked_for(secured: Secured) -> None:
    tls = Tls(authorities_file=secured.authority, host_is_checked=False)
    elsewhere = secured.at("TLS").replace("127.0.0.1", "localhost")
    with BlockingClient(elsewhere, settings=ClientSettings(security=Security(tls=tls))) as blocking:
        assert blocking.run(blocking.client.brokers())


# Wrong credentials are refused, and the message says what to do.


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_wrong_password_is_refused_at_once(secured: Secured, mechanism: str) -> None:
    message = refused(secured.at("NAMED"), Security(sasl=sasl(mechanism, "wrong" + PASSWORD)))
    assert f"refused {mechanism} of user '{USER}'" in message
    assert "SASL_AUTHENTICATION_FAILED" in message


def test_a_token_that_is_out_of_date_is_refused_with_the_brokers_reason(secured: Secured) -> None:
    old = Sasl(Mechanism.OAUTHBEARER, token=Secret(fresh_token(-3600)))
    message = refused(secured.at("NAMED"), Security(sasl=old))
    assert "refused OAUTHBEARER" in message
    assert "invalid_token" in message


def test_the_error_names_a_failing_token_function_but_not_its_message(secured: Secured) -> None:
    who = Sasl(Mechanism.OAUTHBEARER, token_function=f"{__name__}:failing_token")
    with (
        BlockingClient(secured.at("NAMED"), settings=ClientSettings(security=Security(sasl=who))) as blocking,
        pytest.raises(AuthenticationError, match="failing_token: it raised RuntimeError"),
    ):
        blocking.run(blocking.client.refresh())


def test_a_mechanism_that_is_not_offered_is_answered_with_those_that_are(secured: Secured) -> None:
    message = refused(secured.at("FEW"), Security(sasl=sasl("SCRAM-SHA-256")))
    assert message.endswith("does not offer SCRAM-SHA-256; sasl.mechanism may be: PLAIN, SCRAM-SHA-512")


def test_a_broker_certificate_of_an_unknown_authority_is_not_trusted(secured: Secured) -> None:
    message = refused(secured.at("TLS"), Security(tls=Tls(authorities_file=secured.stranger)))
    assert "the certificate is not trusted" in message
    assert "ssl.truststore.location" in message


def test_the_machines_own_authorities_do_not_know_the_broker(secured: Secured) -> None:
    assert "the certificate is not trusted" in refused(secured.at("TLS"), Security(tls=Tls()))


def test_a_certificate_for_another_host_is_refused(secured: Secured) -> None:
    elsewhere = secured.at("TLS").replace("127.0.0.1", "localhost")
    message = refused(elsewhere, Security(tls=secured.tls))
    assert "the certificate is not for 'localhost'" in message
    assert "ssl.endpoint.identification.algorithm" in message


def test_the_error_for_a_missing_client_certificate_names_the_keystore_setting(secured: Secured) -> None:
    message = refused(secured.at("MUTUAL"), Security(tls=secured.tls))
    assert "ssl.keystore.location" in message


def test_sasl_on_a_listener_without_sasl_is_an_error_that_names_the_protocols(secured: Secured) -> None:
    message = refused(secured.kafka.bootstrap, Security(sasl=sasl("PLAIN")))
    assert message.endswith("does not do SASL; security.protocol would be PLAINTEXT or SSL there")


def test_plaintext_on_a_tls_listener_is_an_error_that_names_the_protocols(secured: Secured) -> None:
    message = unreached(secured.at("TLS"), Security())
    assert "security.protocol" in message
    assert "SSL or SASL_SSL" in message


def test_tls_on_a_plaintext_listener_is_an_error_that_asks_about_tls(secured: Secured) -> None:
    message = unreached(secured.kafka.bootstrap, Security(tls=secured.tls))
    assert "does that port speak TLS?" in message


def test_no_sasl_on_a_sasl_listener_is_an_error_that_mentions_sasl(secured: Secured) -> None:
    message = unreached(secured.at("NAMED"), Security())
    assert "if it expects SASL" in message


def unreached(bootstrap: str, security: Security) -> str:
    with BlockingClient(bootstrap, settings=ClientSettings(security=security)) as blocking:
        with pytest.raises(ClientError) as caught:
            blocking.run(blocking.client.refresh())
        return str(caught.value)


# A proof holds for a while.


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "OAUTHBEARER"])
def test_a_client_reauthenticates_on_the_same_connection(secured: Secured, mechanism: str) -> None:
    """Kafka ends a connection on which a request comes after the session's time."""

    async def story() -> None:
        connection = await connect(secured.at("BRIEF"), sasl(mechanism))
        deadline = time.monotonic() + 1.9 * SESSION_MS / 1000
        while time.monotonic() < deadline:  # several requests at a time, to be in the renewal's way
            asking = [connection.ask(MetadataRequest(topics=[]), MetadataResponse) for _ in range(4)]
            for answer in await asyncio.gather(*asking):
                assert answer.brokers
        assert connection.is_open
        connection.close()

    asyncio.run(story())


def test_a_client_that_slept_through_its_session_proves_itself_before_anything_else(secured: Secured) -> None:
    """A blocking client's loop stands still between two calls; no timer runs there."""
    settings = ClientSettings(security=Security(sasl=sasl("SCRAM-SHA-256")))
    with BlockingClient(secured.at("BRIEF"), settings=settings) as blocking:
        blocking.run(blocking.client.refresh())
        connection = blocking.run(blocking.client.any_connection())
        time.sleep(1.2 * SESSION_MS / 1000)
        blocking.run(connection.ask(MetadataRequest(topics=[]), MetadataResponse))
        assert connection.is_open


def test_a_proof_that_fails_the_second_time_ends_the_connection_with_the_reason(
    secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        connection = await connect(secured.at("BRIEF"), sasl("OAUTHBEARER"))
        monkeypatch.setattr(f"{__name__}.fresh_token", failing_token)

        async def ask_on() -> None:
            while True:
                await connection.ask(MetadataRequest(topics=[]), MetadataResponse)

        with pytest.raises(AuthenticationError, match="it raised RuntimeError"):
            await ask_on()
        assert not connection.is_open

    asyncio.run(story())


async def connect(bootstrap: str, who: Sasl) -> Connection:
    host, _, port = bootstrap.partition(":")
    return await open_connection(
        RealLoop(),
        Address(host, int(port)),
        client_id="test",
        limits=ConnectionLimits(),
        security=Security(sasl=who),
        entropy=RealEntropy(),
    )


# The faces.


def asked_for(properties: dict[str, str]) -> Security:
    given = [
        SECURITY_SETTINGS.give(name, value, source=Source.STATIC_BROKER, origin="test")
        for name, value in properties.items()
    ]
    return security_of(Settings(SECURITY_SETTINGS, group_by_name(given)))


def test_the_command_line_takes_a_file_of_properties(
    secured: Secured,
    topic: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    penstock = in_process(capsys, monkeypatch, tmp_path)
    good, bad = tmp_path / "good.properties", tmp_path / "bad.properties"
    good.write_text("".join(f"{name}={value}\n" for name, value in properties(secured).items()))
    bad.write_text(good.read_text().replace(PASSWORD, "wrong"))
    there = ("-b", secured.at("BOTH"), "--command-config")
    assert penstock("topic", "create", topic, *there, good).code == 0
    assert penstock("produce", topic, *there, good, stdin=b"one\ntwo\n").code == 0
    assert penstock("consume", topic, *there, good).lines == ["one", "two"]
    outcome = penstock("topic", "list", *there, bad)
    assert outcome.code == 1
    assert f"refused SCRAM-SHA-512 of user '{USER}'" in outcome.err
    assert outcome.err.count("\n") == 1
