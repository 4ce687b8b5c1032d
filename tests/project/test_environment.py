"""Environment variables that documents name: no command stops at those of another."""

import re
from pathlib import Path

import pytest

from penstock.base.errors import SettingError
from penstock.base.load_settings import load_broker_settings

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [
    *ROOT.glob("*.md"),
    *ROOT.glob("docs/*.md"),
    *ROOT.glob("src/penstock/cli/*.py"),
    ROOT / "Makefile",
]
VARIABLE = re.compile(r"\bPENSTOCK_[A-Z][A-Z_]*[A-Z]\b")
# Names of settings in code, which look the same.
IN_CODE = re.compile(r"\bimport\b|\[PENSTOCK_|^\s*PENSTOCK_\w+,$", re.MULTILINE)


def documented() -> list[str]:
    found: set[str] = set()
    for document in DOCUMENTS:
        for line in document.read_text().splitlines():
            if not IN_CODE.search(line):
                found.update(VARIABLE.findall(line))
    return sorted(found)


def test_documents_name_some() -> None:
    assert {"PENSTOCK_BOOTSTRAP_SERVERS", "PENSTOCK_COMMAND_CONFIG"} <= set(documented())


@pytest.mark.parametrize("variable", documented())
def test_a_documented_variable_is_a_setting_of_the_broker_or_passed_over_by_it(variable: str) -> None:
    assert "unknown environment variable" not in _complaint(variable)


def _complaint(variable: str) -> str:
    """What the broker says of it; of a setting perhaps that 1 is no value for it."""
    try:
        load_broker_settings(environment={variable: "1"})
    except SettingError as error:
        return str(error)
    return ""
