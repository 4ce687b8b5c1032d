"""The file of --command-config."""

from pathlib import Path

import pytest

from penstock.base.secret import Secret
from penstock.cli.command_config import parse_properties, read_security
from tests.cli.running import Penstock


def test_properties_are_read_as_java_reads_them() -> None:
    text = r"""
# a comment, and ! begins another
! like this
one=1
  two : 2
three 3
four=a=b:c
long=begun \
      and ended
empty
path=C\:\\x\u0041\ty
"""
    assert dict(parse_properties(text)) == {
        "one": "1",
        "two": "2",
        "three": "3",
        "four": "a=b:c",
        "long": "begun and ended",
        "empty": "",
        "path": "C:\\xA\ty",
    }


def test_a_file_becomes_security(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        'sasl.jaas.config=PlainLoginModule required \\\n  username="alice" \\\n  password="p";\n'
    )
    found = read_security(str(file))
    assert found.protocol == "SASL_PLAINTEXT"
    assert found.sasl is not None
    assert (found.sasl.user, found.sasl.password) == ("alice", Secret("p"))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            "security.protocal=SSL\n",
            "unknown security setting 'security.protocal'; did you mean security.protocol?",
        ),
        ("security.protocol=SASL_SSL\n", "needs sasl.mechanism"),
        ("ssl.ca.location=ca.pem\n", "set security.protocol to SSL or SASL_SSL"),
    ],
)
def test_what_is_wrong_in_the_file_is_one_line_with_its_name(
    penstock: Penstock, tmp_path: Path, content: str, words: str
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(content)
    outcome = penstock("topic", "list", "--command-config", file)
    assert outcome.code != 0
    assert f"{file}: " in outcome.err
    assert words in outcome.err
    assert outcome.err.count("\n") == 1


def test_a_missing_or_binary_command_config_is_an_error(penstock: Penstock, tmp_path: Path) -> None:
    outcome = penstock("topic", "list", "--command-config", tmp_path / "none")
    assert f"cannot read {tmp_path / 'none'}: no such file" in outcome.err
    (tmp_path / "store.jks").write_bytes(b"\xfe\xed\xfe\xed")
    outcome = penstock("topic", "list", "--command-config", tmp_path / "store.jks")
    assert "no file of properties" in outcome.err


def test_tls_that_cannot_be_made_is_one_line(penstock: Penstock, tmp_path: Path) -> None:
    file, store = tmp_path / "client.properties", tmp_path / "store.jks"
    store.write_bytes(b"\xfe\xed\xfe\xed" + bytes(20))
    file.write_text(f"security.protocol=SSL\nssl.truststore.location={store}\n")
    outcome = penstock("topic", "list", "--command-config", file)
    assert outcome.code == 1
    assert f"{store} is a JKS store, and only PEM is read: `keytool" in outcome.err
    assert outcome.err.count("\n") == 1
