"""TLS options of a client, and error messages for failed handshakes. `real_tls` implements it.

Stores are PEM: Python reads neither JKS nor PKCS12. Leaves out TLS for servers.
"""

import ssl
from dataclasses import dataclass
from typing import Final

from penstock.base.errors import PenstockError
from penstock.base.secret import Secret

HOW_TO_CONVERT: Final = (
    "`keytool -importkeystore -srckeystore STORE -destkeystore s.p12 -deststoretype PKCS12` makes PKCS12 of JKS, and "
    "`openssl pkcs12 -in s.p12 -nodes -out s.pem` makes PEM of that"
)

_HOST_MISMATCHES: Final = (62, 64)  # OpenSSL's numbers: the name is another, the IP address is another
_NOT_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE"})


@dataclass(frozen=True)
class Tls:
    """TLS options. Each item is a file or, under the same name with `_pem`, its content."""

    # The certificate authorities to trust; if neither is given, those of the system.
    authorities_file: str | None = None
    authorities_pem: str | None = None
    # The client certificate; the key may be in the same file.
    certificate_file: str | None = None
    certificate_pem: str | None = None
    key_file: str | None = None
    key_pem: Secret | None = None
    key_password: Secret | None = None
    # Whether the broker's certificate has to match the host name.
    host_is_checked: bool = True


class TlsError(PenstockError):
    """The TLS handshake failed, and would fail again; the message says why."""


class TlsCutError(OSError):
    """The peer closed the connection during the TLS handshake: it is stopping, or does not speak TLS on that port."""


def explain(error: BaseException, host: str) -> str | None:
    """Why the TLS handshake with `host` failed for good, in one line; None if a retry may succeed."""
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = error.verify_message.rstrip(".")
        if error.verify_code in _HOST_MISMATCHES:
            return (
                f"the certificate is not for {host!r} ({reason}); connect under a name that it has, or turn the check "
                "off with ssl.endpoint.identification.algorithm="
            )
        return (
            f"the certificate is not trusted: {reason}; ssl.truststore.location (or ssl.ca.location) names the PEM "
            "file with the authority that signed it"
        )
    if isinstance(error, ssl.SSLEOFError) or not isinstance(error, ssl.SSLError):
        return None
    if error.reason in _NOT_TLS:
        return "that port does not speak TLS; security.protocol would be PLAINTEXT or SASL_PLAINTEXT there"
    words = (error.reason or str(error)).lower().replace("_", " ")
    if "alert" in words and "certificate" in words:
        return (
            f"the broker rejects the client certificate, or requires one ({words}); ssl.keystore.location names "
            "the PEM file with certificate and key"
        )
    return f"TLS failed: {words}"
