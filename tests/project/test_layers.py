"""The layers that pyproject.toml states hold, and an import that breaks them is named."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINT = "import sys; from importlinter.cli import lint_imports_command; lint_imports_command(sys.argv[1:])"
PACKAGES = (
    *("cli", "testing", "sim", "broker", "apis", "controller", "controller/rules"),
    *("services", "cluster", "client"),
    *("storage", "core", "wire", "records", "schema", "world", "base"),
)


def lint(source: Path) -> subprocess.CompletedProcess[str]:
    """Check the package found in `source` against this project's contracts."""
    return subprocess.run(
        [sys.executable, "-c", LINT, "--no-cache", "--config", str(ROOT / "pyproject.toml")],
        cwd=source,
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A package with all the layers and nothing in them."""
    for package in ("", *PACKAGES):
        folder = tmp_path / "penstock" / package
        folder.mkdir(exist_ok=True)
        (folder / "__init__.py").write_text("")
    return tmp_path


def plant(source: Path, module: str, text: str) -> None:
    path = source / "penstock" / module
    path.parent.mkdir(exist_ok=True)
    (path.parent / "__init__.py").touch()
    path.write_text(text)


def test_every_package_imports_only_what_stands_below() -> None:
    outcome = lint(ROOT / "src")
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


def test_layers_that_are_kept_are_accepted(small: Path) -> None:
    plant(small, "broker/m.py", "import asyncio\nfrom penstock.apis import x\nfrom penstock.base import y")
    plant(small, "console/m.py", "import penstock.client")
    outcome = lint(small)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("storage/m.py", "import penstock.broker"),
        ("storage/m.py", "import penstock.core"),
        ("wire/m.py", "import penstock.storage"),
        ("base/m.py", "import penstock.world"),
        ("world/m.py", "import penstock.records"),
        ("services/m.py", "def f():\n    from penstock.apis import x"),
        ("console/m.py", "import penstock.broker"),
        ("spark/m.py", "import penstock.cluster"),
        ("sim/m.py", "import penstock.testing"),
        ("core/m.py", "import asyncio"),
        ("schema/m.py", "import penstock.records"),
        ("schema/m.py", "import time"),
        ("records/m.py", "from os import path"),
        ("wire/m.py", "import socket"),
        ("base/m.py", "import uuid"),
    ],
)
def test_an_import_against_the_grain_is_named(small: Path, module: str, text: str) -> None:
    plant(small, module, text)
    outcome = lint(small)
    assert outcome.returncode == 1, outcome.stdout + outcome.stderr
    assert "penstock." + module.removesuffix(".py").replace("/", ".") in outcome.stdout
