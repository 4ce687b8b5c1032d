"""Parses sasl.jaas.config, the JAAS line that configures user and password of Kafka's Java client:

    org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="…";

Kafka's own login modules are known, by full or simple name. Options that read from elsewhere (files, Kerberos, an OAuth
server) are rejected by name. Errors never quote the line, which contains a password.
"""

import re
from typing import Final, NamedTuple, NoReturn

from penstock.base.errors import SettingError
from penstock.base.secret import Secret
from penstock.client.security import Mechanism

_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_MODULES: Final = {
    "PlainLoginModule": (Mechanism.PLAIN,),
    "ScramLoginModule": (Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512),
    "OAuthBearerLoginModule": (Mechanism.OAUTHBEARER,),
}
_OPTION: Final = re.compile(
    r"""\s*([A-Za-z_][\w.]*)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""", re.DOTALL
)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


class Login(NamedTuple):
    """User and password of a JAAS line."""

    user: str | None
    password: Secret | None


def parse_jaas(line: Secret, mechanism: Mechanism) -> Login:
    """User and password from a JAAS line; SettingError if it is for another mechanism, or cannot be read."""
    head = re.match(r"\s*([\w.$]+)\s+(\w+)(?=[\s;]|\Z)", line.reveal())
    if head is None or head[2].lower() not in _FLAGS:
        _refuse('it should read: a login module, required, name="value" pairs, and a semicolon')
    module = head[1].rpartition(".")[2]
    if module not in _MODULES:
        _refuse(f"its module is none of {', '.join(_MODULES)}")
    if mechanism not in _MODULES[module]:
        _refuse(f"{module} is not for sasl.mechanism={mechanism.value}")
    options = _options(line.reveal()[head.end() :])
    if mechanism is Mechanism.OAUTHBEARER:
        if options:
            _refuse(
                f"{', '.join(options)} of OAuthBearerLoginModule cannot be used here; give penstock.sasl.token.function"
            )
        return Login(None, None)
    unknown = [name for name in options if name not in ("username", "password")]
    if unknown:
        _refuse(f"{', '.join(unknown)} is not known; username and password are")
    password = options.get("password")
    return Login(options.get("username"), None if password is None else Secret(password))


def _options(text: str) -> dict[str, str]:
    options: dict[str, str] = {}
    position = 0
    while match := _OPTION.match(text, position):
        name, *quoted, bare = match.groups()
        inside = next((each for each in quoted if each is not None), None)
        options[name] = bare if inside is None else _ESCAPED.sub(r"\1", inside)
        position = match.end()
    if text[position:].strip() != ";":
        _refuse('after the pairs name="value" comes one semicolon, and nothing else')
    return options


def _refuse(problem: str) -> NoReturn:
    raise SettingError(f"sasl.jaas.config cannot be read: {problem}")
