"""ARCHITECTURE.md names only files and packages that exist, and every package."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "penstock"
TEXT = (ROOT / "ARCHITECTURE.md").read_text()
PATHS = sorted(set(re.findall(r"`([a-z_0-9]+(?:/[a-z_0-9]+)*(?:/|\.py))`", TEXT)))


@pytest.mark.parametrize("path", PATHS)
def test_a_path_that_the_map_names_exists(path: str) -> None:
    assert (SOURCE / path).exists() or (ROOT / path).exists()


def test_the_map_has_every_package() -> None:
    packages = {each.parent.name for each in SOURCE.glob("*/__init__.py")}
    assert packages
    assert packages <= {path.rstrip("/") for path in PATHS}


def test_a_class_or_function_that_the_map_names_beside_a_file_is_in_it() -> None:
    named = re.findall(r"`([a-z_0-9/]+\.py)` \(`(?:\w+\.)?(\w+)`\)", TEXT)
    assert named
    for path, name in named:
        assert re.search(
            rf"^\s*(?:async )?(?:def|class) {name}\b", (SOURCE / path).read_text(), re.MULTILINE
        ), name
