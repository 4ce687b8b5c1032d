"""The version before the broker handshake, as a wheel built from its commit: for tests of upgrades."""

import io
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

COMMIT = "9c71669"
ROOT = Path(__file__).resolve().parent.parent.parent
_BUILD = "import sys; from setuptools import build_meta; print(build_meta.build_wheel(sys.argv[1]))"


def install(folder: Path) -> Path:
    """Build the wheel and unpack it; the folder to import it from. Skips where the commit is not there."""
    archive = subprocess.run(
        [
            "git",
            "-C",
            str(ROOT),
            "archive",
            COMMIT,
            "src",
            "pyproject.toml",
            "setup.py",
            "README.md",
            "LICENSE",
        ],
        capture_output=True,
        check=False,
    )
    if archive.returncode:
        pytest.skip(
            f"commit {COMMIT} is not in this copy of the repository: {archive.stderr.decode().strip()}"
        )
    tree, wheels, target = folder / "tree", folder / "wheels", folder / "installed"
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(tree, filter="data")
    wheels.mkdir()
    # The compiled loops are optional, and for Spark only.
    environment = {**os.environ, "CC": "false", "PYTHONPATH": ""}
    subprocess.run(
        [sys.executable, "-c", _BUILD, str(wheels)],
        cwd=tree,
        env=environment,
        check=True,
        capture_output=True,
    )
    (wheel,) = wheels.glob("*.whl")
    # Without an index and without dependencies: those of this environment serve both versions.
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(target)
    return target
