"""Install lines anywhere in the tree name the distribution of `pyproject.toml`: PyPI has another `penstock`."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PLACES = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "Makefile", "pyproject.toml"]
FOLDERS = ["docs", "src", "tests", "examples", "peers", "bench", "tools", "scripts", "requirements", ".ci"]
TEXT = {".md", ".py", ".toml", ".sh", ".lock", ".yml", ".yaml", ".txt", ".c", ""}

# A name with extras anywhere (also where a regular expression escapes the brackets), or any name after `install`.
WITH_EXTRAS = re.compile(r"(?<![\w./-])(?P<name>penstock[\w.-]*?)\\?\[(?P<extras>[a-z]+(?:,[a-z]+)*)\\?\]")
INSTALLED = re.compile(
    r"\b(?:pip|pipx|uv|uv pip) (?:install|add)\b[^`\n]*?(?<![\w./=-])(?P<name>penstock[\w-]*)"
)
NOT_LOCKED = re.compile(r"--no-emit-package (?P<name>\S+)")


def texts() -> list[Path]:
    found = [ROOT / place for place in PLACES]
    for folder in FOLDERS:
        found += [path for path in (ROOT / folder).rglob("*") if path.is_file() and path.suffix in TEXT]
    return [path for path in found if path != Path(__file__).resolve() and "__pycache__" not in path.parts]


def mentions(pattern: re.Pattern[str]) -> list[tuple[str, re.Match[str]]]:
    return [
        (f"{path.relative_to(ROOT)}: {match[0]}", match)
        for path in texts()
        for match in pattern.finditer(path.read_text(errors="replace"))
    ]


@pytest.mark.parametrize("pattern", [WITH_EXTRAS, INSTALLED, NOT_LOCKED], ids=["extras", "install", "lock"])
def test_every_mention_of_the_distribution_has_its_name(pattern: re.Pattern[str]) -> None:
    found = mentions(pattern)

    assert found, "the pattern finds what it is about"
    assert [where for where, match in found if match["name"] != PROJECT["name"]] == []


def test_every_extra_that_is_mentioned_exists_and_holds_something() -> None:
    extras = PROJECT["optional-dependencies"]
    found = mentions(WITH_EXTRAS)

    assert [where for where, match in found if not set(match["extras"].split(",")) <= set(extras)] == []
    assert [extra for extra, requirements in extras.items() if not requirements] == []


def test_the_import_name_and_the_command_are_penstock() -> None:
    assert PROJECT["name"] == "penstock-mq"
    assert set(PROJECT["scripts"]) == {"penstock"}
    assert (ROOT / "src" / "penstock" / "__init__.py").exists()


def test_the_environment_holds_the_distribution_by_its_name_alone() -> None:
    """An environment that was made under the earlier name does not keep both."""
    from importlib.metadata import distributions

    installed = {each.metadata["Name"] for each in distributions()}
    if "penstock-mq" not in installed:
        pytest.skip("penstock is not installed here, it runs from its source")
    assert "penstock" not in installed
