"""TLS through the real loop: files that cannot be used, and peers that do not speak it."""

import asyncio
import ssl
import subprocess
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from peers.certificates import Authority
from penstock.base.secret import Secret
from penstock.world.real_loop import RealLoop, run
from penstock.world.real_tls import client_context
from penstock.world.tls import Tls, TlsCutError, TlsError

PASSWORD = "only for this key"
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory, needs_openssl: None) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def mine(authority: Authority) -> str:
    return str(authority.sign("mine", host="IP:127.0.0.1", password=PASSWORD))


def problem(tls: Tls) -> str:
    with pytest.raises(TlsError) as caught:
        client_context(tls)
    assert PASSWORD not in str(caught.value)
    return str(caught.value)


def test_a_context_trusts_the_configured_authorities_and_checks_the_host_name(authority: Authority) -> None:
    context = client_context(Tls(authorities_file=str(authority.certificate)))
    assert [dict(*each["subject"])["commonName"] for each in context.get_ca_certs()] == ["authority"]  # type: ignore[call-overload]
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2


def test_without_the_check_of_the_host_certificates_are_still_verified() -> None:
    context = client_context(Tls(host_is_checked=False))
    assert not context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED


def test_a_key_that_is_locked_wants_its_password(mine: str) -> None:
    client_context(Tls(certificate_file=mine, key_password=Secret(PASSWORD)))
    assert "ssl.key.password has to open a key" in problem(Tls(certificate_file=mine))
    assert "ssl.key.password has to open a key" in problem(
        Tls(certificate_file=mine, key_password=Secret(PASSWORD + "x"))
    )


def test_the_key_of_another_certificate_is_refused(authority: Authority, mine: str) -> None:
    other = str(authority.sign("other"))
    message = problem(Tls(certificate_file=mine, key_file=other))
    assert message == f"the private key does not belong to the certificate in {mine}"


def test_keys_given_as_text_are_not_left_behind(
    mine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    text = Path(mine).read_text()
    client_context(Tls(certificate_pem=text, key_pem=Secret(text), key_password=Secret(PASSWORD)))
    assert "cannot be used" in problem(Tls(certificate_pem="nonsense", key_pem=Secret("nonsense")))
    assert list(tmp_path.iterdir()) == []


def test_files_that_are_missing_or_hold_no_pem_are_named(tmp_path: Path) -> None:
    nowhere, prose = str(tmp_path / "nowhere"), tmp_path / "prose"
    prose.write_text("no certificate")
    assert problem(Tls(authorities_file=nowhere)) == f"cannot read {nowhere}: no such file or directory"
    assert problem(Tls(certificate_file=nowhere)) == f"cannot read {nowhere}: no such file or directory"
    assert problem(Tls(authorities_file=str(prose))).startswith(f"{prose} holds no certificates in PEM")
    assert problem(Tls(authorities_pem="prose")).startswith("ssl.truststore.certificates holds no")
    assert f"the certificate in {prose}" in problem(Tls(certificate_file=str(prose)))


def test_stores_of_java_are_refused_with_the_way_to_convert_them(mine: str, tmp_path: Path) -> None:
    java, pkcs12 = tmp_path / "store.jks", tmp_path / "store.p12"
    java.write_bytes(b"\xfe\xed\xfe\xed" + bytes(16))
    export = [
        "openssl",
        "pkcs12",
        "-export",
        "-in",
        mine,
        "-passin",
        f"pass:{PASSWORD}",
        "-passout",
        "pass:x",
    ]
    subprocess.run([*export, "-out", pkcs12], check=True, timeout=60)
    assert "is a JKS store, and only PEM is read: `keytool" in problem(Tls(authorities_file=str(java)))
    assert "is PKCS12 or DER, and only PEM is read: `keytool" in problem(Tls(certificate_file=str(pkcs12)))


async def connect(serve: Serve, tls: Tls, *, inside: ssl.SSLContext | None = None) -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=inside)
    try:
        port = server.sockets[0].getsockname()[1]
        transport, _ = await RealLoop().connect(asyncio.Protocol, "127.0.0.1", port, tls=tls)
        transport.close()
    finally:
        server.close()


Run = Callable[[Callable[[], Coroutine[Any, Any, None]]], None]


def run_on_asyncio(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(main())


@pytest.fixture(params=[run, run_on_asyncio], ids=["fastest", "asyncio"])
def run_main(request: pytest.FixtureRequest) -> Run:
    return request.param


def test_a_peer_that_answers_in_another_language_does_not_speak_tls(run_main: Run) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    with pytest.raises(TlsError, match="does not speak TLS"):
        run_main(lambda: connect(answer, Tls()))


def test_a_peer_that_hangs_up_may_be_tried_again(run_main: Run) -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.close()

    with pytest.raises(TlsCutError, match="does that port speak TLS"):
        run_main(lambda: connect(hang_up, Tls()))


def test_a_refused_connection_is_the_same_error_as_without_tls(run_main: Run) -> None:
    async def story() -> None:
        await RealLoop().connect(asyncio.Protocol, "127.0.0.1", 1, tls=Tls())

    with pytest.raises(ConnectionRefusedError):
        run_main(story)


@pytest.mark.parametrize(
    ("host", "words"),
    [("IP:127.0.0.1", None), ("DNS:elsewhere", "the certificate is not for '127.0.0.1'")],
)
def test_a_peer_is_let_in_by_who_signed_it_and_what_for(
    authority: Authority, run_main: Run, host: str, words: str | None
) -> None:
    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.close()

    inside = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    inside.load_cert_chain(authority.sign("peer", host=host))
    trusting = Tls(authorities_file=str(authority.certificate))
    if words is None:
        run_main(lambda: connect(wait, trusting, inside=inside))
    else:
        with pytest.raises(TlsError, match=words):
            run_main(lambda: connect(wait, trusting, inside=inside))
    with pytest.raises(TlsError, match="the certificate is not trusted"):
        run_main(lambda: connect(wait, Tls(), inside=inside))
