"""The compiled loops are optional: without a compiler the installation goes on, and Python does the same."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
SAY = "from penstock.records import columns; print(columns.__file__, columns.IS_COMPILED)"


@pytest.mark.parametrize(("compiler", "is_compiled"), [("cc", True), ("false", False)])
def test_an_installation_goes_on_without_a_compiler(tmp_path: Path, compiler: str, is_compiled: bool):
    target = tmp_path / "installed"
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
            *("--no-index", "--no-deps", "--no-build-isolation"),
            *("--target", str(target), str(_tree(tmp_path))),
        ],
        env={**os.environ, "CC": compiler},
        check=True,
        capture_output=True,
        timeout=120,
    )
    said = subprocess.run(
        [sys.executable, "-c", SAY],
        env={**os.environ, "PYTHONPATH": str(target)},
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    assert said[0].startswith(str(target))
    assert said[1] == str(is_compiled)


def _tree(tmp_path: Path) -> Path:
    """The sources as a package index would have them: without what earlier builds left."""
    tree = tmp_path / "tree"
    leavings = shutil.ignore_patterns("*.so", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT / "src", tree / "src", ignore=leavings)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    return tree
