"""An earlier version of Penstock, as a wheel built from its commit: for tests of upgrades, and to measure beside it."""

import io
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_BUILD = "import sys; from setuptools import build_meta; print(build_meta.build_wheel(sys.argv[1]))"
_FILES = ("src", "pyproject.toml", "setup.py", "README.md", "LICENSE")


class MissingCommitError(Exception):
    """The commit is not in this copy of the repository."""


def install_earlier(commit: str, folder: Path) -> Path:
    """Build the wheel and unpack it; the folder to import it from.

    Its dependencies are those of this environment.
    """
    archive = subprocess.run(
        ["git", "-C", str(ROOT), "archive", commit, *_FILES], capture_output=True, check=False
    )
    if archive.returncode:
        raise MissingCommitError(
            f"commit {commit} is not in this copy of the repository: {archive.stderr.decode().strip()}"
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
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(target)
    return target
