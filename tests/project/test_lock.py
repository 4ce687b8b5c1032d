"""The locks: every requirement with version and hashes, for Linux and macOS, and no download address."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ENTRY = re.compile(r"^(?P<name>[a-z0-9.-]+)==(?P<version>\S+)(?: ; (?P<marker>.*?))? \\$")
HASH = re.compile(r"^    --hash=sha256:[0-9a-f]{64}(?: \\)?$")


FLAVOURS = ["run", "spark", "java", "dev"]


def locked(flavour: str) -> dict[str, dict[str, str]]:
    """The versions of each requirement by their markers; anything that is neither one nor a hash fails."""
    entries: dict[str, dict[str, str]] = {}
    hashes: dict[tuple[str, str], int] = {}
    key = ("", "")
    for line in (ROOT / "requirements" / f"{flavour}.lock").read_text().splitlines():
        if line.startswith("#"):
            continue
        if HASH.match(line):
            hashes[key] += 1
            continue
        entry = ENTRY.match(line)
        assert entry, f"neither a requirement nor a hash: {line}"
        key = (entry["name"], entry["marker"] or "")
        entries.setdefault(key[0], {})[key[1]] = entry["version"]
        hashes[key] = 0
    assert all(hashes.values()), hashes
    return entries


def names(requirements: list[str]) -> set[str]:
    found = {re.match(r"[A-Za-z0-9_.-]+", each)[0].lower().replace("_", "-") for each in requirements}  # type: ignore[index]
    return found - {PROJECT["name"]}


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_every_requirement_of_the_lock_has_a_version_and_hashes_and_no_address(flavour: str) -> None:
    assert locked(flavour)
    text = (ROOT / "requirements" / f"{flavour}.lock").read_text()
    assert not re.search(r"://|--(extra-)?index-url|--find-links|--trusted-host| @ ", text)


def test_the_run_lock_is_the_light_core_and_what_builds_it() -> None:
    assert set(locked("run")) == names(PROJECT["dependencies"]) | {"setuptools"}


def test_the_dev_lock_covers_every_dependency_and_every_extra() -> None:
    wanted = names(PROJECT["dependencies"])
    for extra, requirements in PROJECT["optional-dependencies"].items():
        # Developers have a Java installed: the tools need one.
        wanted |= names(requirements) if extra != "java" else set()
    assert wanted <= set(locked("dev"))


@pytest.mark.parametrize("flavour", ["run", "spark"])
def test_all_locks_name_the_same_versions(flavour: str) -> None:
    dev = locked("dev")
    for name, versions in locked(flavour).items():
        assert versions.items() <= dev[name].items() or set(versions.values()) == set(dev[name].values())


def test_the_spark_lock_is_the_core_and_the_extra_with_all_that_they_need() -> None:
    assert names(PROJECT["dependencies"]) | names(PROJECT["optional-dependencies"]["spark"]) <= set(
        locked("spark")
    )


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_the_locks_are_not_bound_to_the_system_they_were_made_on(flavour: str) -> None:
    for name, versions in locked(flavour).items():
        for marker in versions:
            assert "linux" not in marker, f"{name} is left out on macOS: {marker}"
            assert "darwin" not in marker, f"{name} is left out on Linux: {marker}"
            # One version for older Pythons and one for newer ones is fine; none for some of them is not.
            bound = "python_" in marker.replace("platform_python_", "")
            assert not bound or len(versions) > 1, f"{name} depends on the version"


def test_the_core_needs_no_spark_and_no_web_framework() -> None:
    assert names(PROJECT["dependencies"]) == {"crc32c", "cramjam", "uvloop"}


def test_the_extras_are_those_the_documentation_names() -> None:
    assert set(PROJECT["optional-dependencies"]) == {"spark", "java", "cluster", "all", "dev"}
    assert PROJECT["requires-python"] == ">=3.11"
