"""Security settings under the names of Kafka's clients, declared once as data, and the `Security` made from them.
The command line reads them from a properties file, Spark's source from its options.

Where the names of Java's client and librdkafka differ, both are known. sasl.username and sasl.password may replace the
JAAS line.
"""

import re
from typing import Any, Final

from penstock.base.allowed_values import OneOf
from penstock.base.errors import SettingError
from penstock.base.secret import Secret
from penstock.base.settings import Catalogue, Setting, Settings, optional_secret, optional_text, text
from penstock.client.jaas import Login, parse_jaas
from penstock.client.security import Mechanism, Sasl, Security
from penstock.world.tls import HOW_TO_CONVERT, Tls

_STORE_TYPES: Final = ("PEM", "JKS", "PKCS12")
_TOKEN_FUNCTION: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*\Z")

PROTOCOL = text(
    "security.protocol",
    "PLAINTEXT",
    "The security protocol of the broker's listener: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.",
    allowed=OneOf(("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"), any_case=True),
)

# TLS.

TRUSTSTORE_LOCATION = optional_text(
    "ssl.truststore.location",
    "The PEM file with the certificate authorities to trust; by default those of the operating system.",
)
TRUSTSTORE_TYPE = optional_text(
    "ssl.truststore.type", "The kind of that file; PEM is read.", allowed=OneOf(_STORE_TYPES, any_case=True)
)
TRUSTSTORE_CERTIFICATES = optional_text(
    "ssl.truststore.certificates", "The certificate authorities to trust, as PEM text instead of a file."
)
TRUSTSTORE_PASSWORD = optional_secret(
    "ssl.truststore.password", "Rejected: a PEM file has no password as a whole."
)
CA_LOCATION = optional_text("ssl.ca.location", "As ssl.truststore.location, under librdkafka's name.")
KEYSTORE_LOCATION = optional_text(
    "ssl.keystore.location",
    "The PEM file with the client's certificate chain and private key.",
)
KEYSTORE_TYPE = optional_text(
    "ssl.keystore.type", "The kind of that file; PEM is read.", allowed=OneOf(_STORE_TYPES, any_case=True)
)
KEYSTORE_CHAIN = optional_text(
    "ssl.keystore.certificate.chain", "The client's certificate chain, as PEM text instead of a file."
)
KEYSTORE_KEY = optional_secret(
    "ssl.keystore.key", "The private key of ssl.keystore.certificate.chain, as PEM text."
)
KEYSTORE_PASSWORD = optional_secret(
    "ssl.keystore.password",
    "Rejected: a PEM file has no password as a whole; ssl.key.password is that of the private key.",
)
CERTIFICATE_LOCATION = optional_text(
    "ssl.certificate.location", "As ssl.keystore.location, under librdkafka's name."
)
KEY_LOCATION = optional_text(
    "ssl.key.location", "The PEM file with the private key, if it is not in the file of the certificate."
)
KEY_PASSWORD = optional_secret("ssl.key.password", "The password of the private key, if it is encrypted.")
ENDPOINT_IDENTIFICATION = text(
    "ssl.endpoint.identification.algorithm",
    "https",
    "https checks that the broker's certificate is for the host that the client connects to; none or empty does not.",
    allowed=OneOf(("https", "none", ""), any_case=True),
)

# SASL.

MECHANISM = optional_text(
    "sasl.mechanism",
    "The SASL mechanism: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER.",
    allowed=OneOf(tuple(mechanism.value for mechanism in Mechanism), any_case=True),
)
USERNAME = optional_text("sasl.username", "The user, for PLAIN and SCRAM.")
PASSWORD = optional_secret("sasl.password", "The user's password.")
JAAS_CONFIG = optional_secret(
    "sasl.jaas.config",
    "User and password in the form of Kafka's Java client: a JAAS line with PlainLoginModule or ScramLoginModule.",
)
TOKEN = optional_secret(
    "penstock.sasl.token", "A fixed token for OAUTHBEARER, if it does not expire while the client runs."
)
TOKEN_FUNCTION = optional_text(
    "penstock.sasl.token.function",
    "A function that returns a fresh token for OAUTHBEARER, as module:function; it is called for every connection "
    "and before a token expires.",
)

SECURITY_SETTINGS: Final = Catalogue(
    "security",
    (
        PROTOCOL,
        TRUSTSTORE_LOCATION,
        TRUSTSTORE_TYPE,
        TRUSTSTORE_CERTIFICATES,
        TRUSTSTORE_PASSWORD,
        CA_LOCATION,
        KEYSTORE_LOCATION,
        KEYSTORE_TYPE,
        KEYSTORE_CHAIN,
        KEYSTORE_KEY,
        KEYSTORE_PASSWORD,
        CERTIFICATE_LOCATION,
        KEY_LOCATION,
        KEY_PASSWORD,
        ENDPOINT_IDENTIFICATION,
        MECHANISM,
        USERNAME,
        PASSWORD,
        JAAS_CONFIG,
        TOKEN,
        TOKEN_FUNCTION,
    ),
)

_TLS_SETTINGS: Final = tuple(setting for setting in SECURITY_SETTINGS if setting.name.startswith("ssl."))
_SASL_SETTINGS: Final = tuple(
    setting for setting in SECURITY_SETTINGS if setting.name.startswith(("sasl.", "penstock.sasl."))
)


def security_of(settings: Settings) -> Security:
    """The `Security` of the settings; SettingError if one is missing, or two contradict each other."""
    protocol = settings[PROTOCOL].upper()
    tls = sasl = None
    if protocol.endswith("SSL"):
        tls = _tls(settings)
    else:
        _refuse(settings, _TLS_SETTINGS, "TLS", "SSL or SASL_SSL")
    if protocol.startswith("SASL"):
        sasl = _sasl(settings)
    else:
        _refuse(settings, _SASL_SETTINGS, "SASL", "SASL_PLAINTEXT or SASL_SSL")
    return Security(tls, sasl)


def _refuse(settings: Settings, members: tuple[Setting[Any], ...], what: str, protocols: str) -> None:
    """Reject credentials that would not be used: security.protocol was probably forgotten."""
    for setting in members:
        if settings[setting] != setting.default:
            raise SettingError(
                f"{setting.name} is given, and security.protocol={settings[PROTOCOL]} has no {what}; "
                f"set security.protocol to {protocols}"
            )


def _tls(settings: Settings) -> Tls:
    for setting in (TRUSTSTORE_TYPE, KEYSTORE_TYPE):
        if (settings[setting] or "PEM").upper() != "PEM":
            raise SettingError(
                f"{setting.name} is {settings[setting]}, and only PEM is read: {HOW_TO_CONVERT}"
            )
    for secret in (TRUSTSTORE_PASSWORD, KEYSTORE_PASSWORD):
        if settings[secret] is not None:
            raise SettingError(
                f"{secret.name} is for JKS and PKCS12 stores, and only PEM is read: {HOW_TO_CONVERT}"
            )
    _one_of(settings, TRUSTSTORE_LOCATION, CA_LOCATION, TRUSTSTORE_CERTIFICATES)
    certificate = _one_of(settings, KEYSTORE_LOCATION, CERTIFICATE_LOCATION, KEYSTORE_CHAIN)
    key = _one_of(settings, KEY_LOCATION, KEYSTORE_KEY)
    if key is not None and certificate is None:
        raise SettingError(
            f"{key.name} is given without a certificate; {KEYSTORE_LOCATION.name} names its file"
        )
    return Tls(
        authorities_file=settings[TRUSTSTORE_LOCATION] or settings[CA_LOCATION],
        authorities_pem=_lines(settings[TRUSTSTORE_CERTIFICATES]),
        certificate_file=settings[KEYSTORE_LOCATION] or settings[CERTIFICATE_LOCATION],
        certificate_pem=_lines(settings[KEYSTORE_CHAIN]),
        key_file=settings[KEY_LOCATION],
        key_pem=_secret_lines(settings[KEYSTORE_KEY]),
        key_password=settings[KEY_PASSWORD],
        host_is_checked=settings[ENDPOINT_IDENTIFICATION].lower() == "https",
    )


def _one_of(settings: Settings, *members: Setting[Any]) -> Setting[Any] | None:
    given = [setting for setting in members if settings[setting]]
    if len(given) > 1:
        names = " and ".join(setting.name for setting in given)
        raise SettingError(f"{names} say the same thing; give one of them")
    return given[0] if given else None


def _lines(pem: str | None) -> str | None:
    """PEM text with its line breaks restored; a properties file may have it in one line."""
    if not pem or "\n" in pem:
        return pem or None
    for dashes in re.findall(r"-----(?:BEGIN|END) [A-Z0-9 ]+-----", pem):
        pem = pem.replace(dashes, f"\n{dashes}\n")
    return "".join(f"{line.strip()}\n" for line in pem.splitlines() if line.strip())


def _secret_lines(pem: Secret | None) -> Secret | None:
    lines = None if pem is None else _lines(pem.reveal())
    return None if lines is None else Secret(lines)


def _sasl(settings: Settings) -> Sasl:
    name = settings[MECHANISM]
    if name is None:
        known = ", ".join(mechanism.value for mechanism in Mechanism)
        raise SettingError(f"security.protocol={settings[PROTOCOL]} needs sasl.mechanism, one of {known}")
    mechanism = Mechanism(name.upper())
    login = _login(settings, mechanism)
    if mechanism is Mechanism.OAUTHBEARER:
        return _bearer(settings)
    if settings[TOKEN] or settings[TOKEN_FUNCTION]:
        raise SettingError(f"a token is for sasl.mechanism=OAUTHBEARER, and {name} has a user and a password")
    if not login.user or login.password is None:
        raise SettingError(
            f"sasl.mechanism={name} needs a user and a password: sasl.username and sasl.password, or sasl.jaas.config"
        )
    return Sasl(mechanism, user=login.user, password=login.password)


def _login(settings: Settings, mechanism: Mechanism) -> Login:
    line = settings[JAAS_CONFIG]
    if line is None:
        return Login(settings[USERNAME], settings[PASSWORD])
    _one_of(settings, JAAS_CONFIG, USERNAME)
    _one_of(settings, JAAS_CONFIG, PASSWORD)
    return parse_jaas(line, mechanism)


def _bearer(settings: Settings) -> Sasl:
    given = _one_of(settings, TOKEN, TOKEN_FUNCTION)
    if given is None:
        raise SettingError(
            f"sasl.mechanism=OAUTHBEARER needs {TOKEN.name}, or {TOKEN_FUNCTION.name}=module:function for fresh ones"
        )
    function = settings[TOKEN_FUNCTION]
    if function is not None and not _TOKEN_FUNCTION.match(function):
        raise SettingError(f"{TOKEN_FUNCTION.name} cannot be {function!r}: write it as module:function")
    return Sasl(Mechanism.OAUTHBEARER, token=settings[TOKEN], token_function=function)
