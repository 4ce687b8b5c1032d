"""The locks: every requirement with version and hashes, for Linux and macOS, and no download address."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ENTRY = re.compile(r"^(?P<name>[a-z0-9.-]+)==(?P<version>\S+)(?: ; (?P<marker>.*?))? \\$")
HASH = re.compile(r"^    --hash=sha256:[0-9a-f]{64}(?: \\)?$")


def locked(flavour: str) -> dict[str, tuple[str, str]]:
    """Version and marker of each requirement; anything that is neither one nor a hash fails."""
    entries: dict[str, tuple[str, str]] = {}
    hashes: dict[str, int] = {}
    name = ""
    for line in (ROOT / "requirements" / f"{flavour}.lock").read_text().splitlines():
        if line.startswith("#"):
            continue
        if HASH.match(line):
            hashes[name] += 1
            continue
        entry = ENTRY.match(line)
        assert entry, f"neither a requirement nor a hash: {line}"
        name = entry["name"]
        entries[name] = (entry["version"], entry["marker"] or "")
        hashes[name] = 0
    assert all(hashes.values()), hashes
    return entries


def names(requirements: list[str]) -> set[str]:
    found = {re.match(r"[A-Za-z0-9_.-]+", each)[0].lower().replace("_", "-") for each in requirements}  # type: ignore[index]
    return found - {"penstock"}


@pytest.mark.parametrize("flavour", ["run", "dev"])
def test_every_requirement_of_the_lock_has_a_version_and_hashes_and_no_address(flavour: str) -> None:
    assert locked(flavour)
    text = (ROOT / "requirements" / f"{flavour}.lock").read_text()
    assert not re.search(r"://|--(extra-)?index-url|--find-links|--trusted-host| @ ", text)


def test_the_run_lock_is_the_light_core_and_what_builds_it() -> None:
    assert set(locked("run")) == names(PROJECT["dependencies"]) | {"setuptools"}


def test_the_dev_lock_covers_every_dependency_and_every_extra() -> None:
    wanted = names(PROJECT["dependencies"])
    for requirements in PROJECT["optional-dependencies"].values():
        wanted |= names(requirements)
    assert wanted <= set(locked("dev"))


def test_both_locks_name_the_same_versions() -> None:
    dev = locked("dev")
    assert {name: dev[name] for name in locked("run")} == locked("run")


def test_the_locks_are_not_bound_to_the_system_they_were_made_on() -> None:
    for flavour in ("run", "dev"):
        for name, (_, marker) in locked(flavour).items():
            assert "linux" not in marker, f"{name} is left out on macOS: {marker}"
            assert "darwin" not in marker, f"{name} is left out on Linux: {marker}"
            assert "python_" not in marker.replace("platform_python_", ""), f"{name} depends on the version"


def test_the_core_needs_no_spark_and_no_web_framework() -> None:
    assert names(PROJECT["dependencies"]) == {"crc32c", "cramjam", "uvloop"}


def test_the_extras_are_those_the_documentation_names() -> None:
    assert set(PROJECT["optional-dependencies"]) == {"spark", "cluster", "console", "all", "dev"}
    assert PROJECT["requires-python"] == ">=3.11"
