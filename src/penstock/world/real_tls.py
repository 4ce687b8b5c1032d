"""TLS contexts of Python's `ssl` module, made from a `Tls`. Nothing is cached, so that files may be renewed.

Certificates and keys given as text are written to a temporary file that only this user can read: `ssl` loads a chain
from files only.
"""

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from penstock.base.secret import Secret
from penstock.world.tls import HOW_TO_CONVERT, Tls, TlsError

# The first bytes of stores that are not PEM: JKS, and DER, which PKCS12 uses.
_JAVA_MAGIC: Final = b"\xfe\xed\xfe\xed"
_DER_SEQUENCE: Final = b"\x30"


def client_context(tls: Tls) -> ssl.SSLContext:
    """The context for client connections; TlsError names the file that cannot be used, and why."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # 1.2 and newer, certificates required
    context.check_hostname = tls.host_is_checked
    _load_authorities(context, tls)
    if tls.certificate_file is not None or tls.certificate_pem is not None:
        _load_certificate(context, tls)
    return context


def _load_authorities(context: ssl.SSLContext, tls: Tls) -> None:
    if tls.authorities_file is None and tls.authorities_pem is None:
        context.load_default_certs()
        return
    try:
        if tls.authorities_file is not None:
            _require_pem(tls.authorities_file)
            context.load_verify_locations(cafile=tls.authorities_file)
        if tls.authorities_pem is not None:
            context.load_verify_locations(cadata=tls.authorities_pem)
    except (ssl.SSLError, ValueError) as error:
        source = tls.authorities_file or "ssl.truststore.certificates"
        raise TlsError(f"{source} holds no certificates in PEM that can be read") from error
    except OSError as error:
        raise _unreadable(tls.authorities_file, error) from error


def _load_certificate(context: ssl.SSLContext, tls: Tls) -> None:
    with _as_file(tls.certificate_file, tls.certificate_pem) as certificate:
        source = tls.certificate_file or "ssl.keystore.certificate.chain"
        with _as_file(tls.key_file, _text(tls.key_pem)) as key:
            try:
                for path in filter(None, (certificate, key)):
                    _require_pem(path)
                # Without a password OpenSSL would ask for one on the terminal.
                context.load_cert_chain(certificate or "", key, password=_text(tls.key_password) or "")
            except ssl.SSLError as error:
                raise TlsError(_key_problem(source, error)) from error
            except ValueError as error:
                raise TlsError(f"ssl.key.password cannot be used: {error}") from error
            except OSError as error:
                raise _unreadable(error.filename or tls.key_file or source, error) from error


def _key_problem(source: str, error: ssl.SSLError) -> str:
    reason = (error.reason or "").lower().replace("_", " ")
    if "mismatch" in reason:
        return f"the private key does not belong to the certificate in {source}"
    return (
        f"the certificate in {source}, or its private key, cannot be used ({reason or 'no PEM in it'}): both have to "
        "be there in PEM, and ssl.key.password has to open a key that is encrypted"
    )


def _text(secret: Secret | None) -> str | None:
    return None if secret is None else secret.reveal()


@contextmanager
def _as_file(path: str | None, contents: str | None) -> Iterator[str | None]:
    if contents is None:
        yield path
        return
    descriptor, made = tempfile.mkstemp(suffix=".pem")  # readable by its owner alone
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(contents)
        yield made
    finally:
        os.unlink(made)


def _require_pem(path: str) -> None:
    """Reject a Java key store with advice how to convert it; OpenSSL would only report a missing start line."""
    with open(path, "rb") as file:
        start = file.read(4)
    if start == _JAVA_MAGIC or start[:1] == _DER_SEQUENCE:
        kind = "a JKS store" if start == _JAVA_MAGIC else "PKCS12 or DER"
        raise TlsError(f"{path} is {kind}, and only PEM is read: {HOW_TO_CONVERT}")


def _unreadable(path: str | None, error: OSError) -> TlsError:
    return TlsError(f"cannot read {path}: {(error.strerror or str(error)).lower()}")
