"""The properties file of `--command-config`, in the format of Kafka's own tools; security settings only.

    security.protocol=SASL_SSL
    sasl.mechanism=SCRAM-SHA-256
    sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\
        username="alice" password="…";
    ssl.ca.location=/etc/kafka/ca.pem

Other properties are rejected, so that a misspelt one is not silently ignored.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from penstock.base.errors import SettingError, UserError
from penstock.base.settings import Settings, Source, group_by_name
from penstock.client.security import Security
from penstock.client.security_settings import SECURITY_SETTINGS, security_of

_FILE_BYTES_MAX: Final = 1 << 20
# A name ends with the first equals sign, colon or blank.
_PROPERTY: Final = re.compile(r"((?:[^\s=:\\]|\\.)+)\s*[=:\s]?\s*(.*)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_security(path: str) -> Security:
    """The `Security` of the file; UserError if it cannot be read, SettingError for an invalid setting."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise UserError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from error
    if len(data) > _FILE_BYTES_MAX:
        raise UserError(f"{path} is larger than {_FILE_BYTES_MAX} bytes: that is no file of properties")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is no file of properties: it is not UTF-8") from error
    try:
        given = [
            SECURITY_SETTINGS.give(name, value, source=Source.STATIC_BROKER, origin=path)
            for name, value in parse_properties(text)
        ]
        return security_of(Settings(SECURITY_SETTINGS, group_by_name(given)))
    except SettingError as error:
        raise SettingError(f"{path}: {error}") from None


def parse_properties(text: str) -> Iterator[tuple[str, str]]:
    """Names and values: `name=value`; `#` and `!` begin comments, a backslash at the end continues the line."""
    for line in _whole_lines(text):
        match = _PROPERTY.fullmatch(line)
        if match is not None:
            yield _unescaped(match[1]), _unescaped(match[2])


def _whole_lines(text: str) -> Iterator[str]:
    begun = ""
    for line in re.split(r"\r\n|\r|\n", text):
        line = line.lstrip(" \t\f")
        if not begun and line[:1] in ("#", "!", ""):
            continue
        if (len(line) - len(line.rstrip("\\"))) % 2:
            begun += line[:-1]
            continue
        yield begun + line
        begun = ""
    if begun:
        yield begun


def _unescaped(text: str) -> str:
    def meant(escape: re.Match[str]) -> str:
        word = escape[1]
        return chr(int(word[1:], 16)) if len(word) > 1 else _ESCAPED.get(word, word)

    return _ESCAPE.sub(meant, text)
