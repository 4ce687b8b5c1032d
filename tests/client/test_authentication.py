"""Proving who we are, to brokers that do not behave; what Apache Kafka says is in tests/foreign."""

import asyncio
import re
from collections.abc import Coroutine
from typing import Any

import pytest

from penstock.base.secret import Secret
from penstock.client.connection import Connection, ConnectionLimits, open_connection
from penstock.client.errors import AuthenticationError, ClientError, ConnectionLostError, UnreachableError
from penstock.client.security import Mechanism, Sasl, Security
from penstock.schema.words import Message
from penstock.wire.headers import RequestHeader
from penstock.wire.messages.metadata import MetadataRequest, MetadataResponse
from penstock.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from penstock.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from penstock.world.real_loop import RealLoop
from tests.client.scripted import HANG_UP, Answer, NoChance, ScriptedBroker

PLAIN = Sasl(Mechanism.PLAIN, user="alice", password=Secret("hush"))
SCRAM = Sasl(Mechanism.SCRAM_SHA_256, user="alice", password=Secret("hush"))


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)


async def connect(broker: ScriptedBroker, sasl: Sasl = PLAIN) -> Connection:
    return await open_connection(
        RealLoop(),
        broker.address,
        client_id="test",
        limits=ConnectionLimits(),
        security=Security(sasl=sasl),
        entropy=NoChance(),
    )


class Script:
    """Accepts every SaslHandshake, answers SaslAuthenticate as configured and keeps the tokens it got."""

    def __init__(self, **answer: Any) -> None:
        self.answer = answer
        self.asked: list[str] = []
        self.proofs: list[bytes] = []

    def __call__(self, header: RequestHeader, request: Message) -> Answer:
        self.asked.append(type(request).__name__.removesuffix("Request"))
        if isinstance(request, SaslHandshakeRequest):
            assert header.api_version == 1
            return SaslHandshakeResponse(mechanisms=[request.mechanism])
        if isinstance(request, SaslAuthenticateRequest):
            self.proofs.append(bytes(request.auth_bytes))
            return SaslAuthenticateResponse(**self.answer)
        return MetadataResponse()


def test_a_proof_comes_before_anything_else() -> None:
    async def story() -> None:
        script = Script()
        async with ScriptedBroker(script) as broker:
            connection = await connect(broker)
            await connection.ask(MetadataRequest(topics=[]), MetadataResponse)
            assert script.asked == ["SaslHandshake", "SaslAuthenticate", "Metadata"]
            assert script.proofs == [b"\0alice\0hush"]
            connection.close()

    run(story())


@pytest.mark.parametrize("version", [0, 1, 2])
def test_each_version_of_the_proof_is_spoken(version: int) -> None:
    async def story() -> None:
        script = Script()
        versions = {18: (0, 4), 17: (0, 1), 36: (0, version)}
        async with ScriptedBroker(script, versions=versions) as broker:
            (await connect(broker)).close()
            assert [header.api_version for header, _ in broker.asked] == [1, version]

    run(story())


def test_requests_wait_while_a_proof_is_renewed_and_go_on_afterwards() -> None:
    async def story() -> None:
        script = Script(session_lifetime_ms=200)
        async with ScriptedBroker(script) as broker:
            connection = await connect(broker)
            while len(script.proofs) < 4:
                asking = [connection.ask(MetadataRequest(topics=[]), MetadataResponse) for _ in range(4)]
                await asyncio.gather(*asking)
            assert broker.connection_count == 1
            connection.close()
        # No other request is sent between SaslHandshake and SaslAuthenticate.
        said = " ".join(script.asked)
        assert said.count("SaslHandshake") == said.count("SaslHandshake SaslAuthenticate")

    run(story())


def test_an_idle_connection_renews_its_proof_too() -> None:
    async def story() -> None:
        again = asyncio.Event()
        script = Script(session_lifetime_ms=50)

        def notice(header: RequestHeader, request: Message) -> Answer:
            answer = script(header, request)
            if len(script.proofs) == 2:
                again.set()
            return answer

        async with ScriptedBroker(notice) as broker:
            connection = await connect(broker)
            await asyncio.wait_for(again.wait(), 10)
            connection.close()

    run(story())


def test_a_connection_that_is_lost_while_it_renews_says_so_to_all_who_wait() -> None:
    async def story() -> None:
        script = Script(session_lifetime_ms=50)

        def hang_up_the_second_time(header: RequestHeader, request: Message) -> Answer:
            return HANG_UP if script.asked.count("SaslHandshake") == 2 else script(header, request)

        async with ScriptedBroker(hang_up_the_second_time) as broker:
            connection = await connect(broker)

            async def ask_on() -> None:
                while True:
                    await connection.ask(MetadataRequest(topics=[]), MetadataResponse)

            with pytest.raises(ConnectionLostError, match="closed the connection"):
                await ask_on()
            assert not connection.is_open

    run(story())


@pytest.mark.parametrize(
    ("sasl", "answer", "words"),
    [
        (PLAIN, {"error_code": 58}, "refused PLAIN of user 'alice': SASL_AUTHENTICATION_FAILED"),
        (PLAIN, {"error_code": 58, "error_message": "No.\n"}, "'alice': No (SASL_AUTHENTICATION_FAILED)"),
        (SCRAM, {"auth_bytes": b"r=x"}, "SCRAM-SHA-256 with ADDRESS: the broker's SCRAM nonce"),
        (SCRAM, {"auth_bytes": b""}, "SCRAM-SHA-256 with ADDRESS: the broker's SCRAM nonce"),
        (
            Sasl(Mechanism.OAUTHBEARER, token=Secret("hush")),
            {"auth_bytes": b'{"status":"no"}'},
            'OAUTHBEARER with ADDRESS: the token was rejected: {"status":"no"}',
        ),
        (
            Sasl(Mechanism.OAUTHBEARER, token_function="penstock.no_such:thing"),
            {},
            "no token from penstock.no_such:thing: it raised ModuleNotFoundError",
        ),
        (
            Sasl(Mechanism.OAUTHBEARER, token_function="builtins:dict"),
            {},
            "no token from builtins:dict: it returned dict, not str",
        ),
    ],
)
def test_what_a_broker_does_not_take_is_said_without_the_secret(
    sasl: Sasl, answer: dict[str, Any], words: str
) -> None:
    async def story() -> None:
        async with ScriptedBroker(Script(**answer)) as broker:
            expected = re.escape(words.replace("ADDRESS", str(broker.address)))
            with pytest.raises(AuthenticationError, match=expected) as caught:
                await connect(broker, sasl)
            assert "hush" not in str(caught.value)
            assert not caught.value.retriable

    run(story())


def test_a_broker_without_sasl_and_one_that_is_too_old_for_it_fail_with_different_errors() -> None:
    async def story() -> None:
        async with ScriptedBroker(Script(), versions={18: (0, 4)}) as none:
            with pytest.raises(AuthenticationError, match="does not do SASL"):
                await connect(none)
        async with ScriptedBroker(Script(), versions={18: (0, 4), 17: (0, 0)}) as old:
            with pytest.raises(ClientError, match=r"Kafka before 1\.0"):
                await connect(old)

    run(story())


def test_a_broker_that_hangs_up_during_the_proof_may_be_tried_again() -> None:
    async def story() -> None:
        async with ScriptedBroker(lambda _header, _request: HANG_UP) as broker:
            with pytest.raises(UnreachableError, match="closed the connection"):
                await connect(broker)

    run(story())
