"""The wheel and the source distribution, as a package index would have them, in clean environments.

What is compiled is optional: without a compiler the installation goes on, and Python does the same. Dependencies are
not installed here (no test calls a package index), so what is tried is what needs none of them.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
import setuptools

from penstock.base.version import VERSION

# One module builds what all its tests install: they share a process.
pytestmark = pytest.mark.xdist_group("distribution")

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = "import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[1])(sys.argv[2]))"
COMPILER, NO_COMPILER = "cc", "false"


class Kind(NamedTuple):
    """What a distribution is built with."""

    compiler: str
    wish: str  # PENSTOCK_COMPILE
    has_columns: bool
    has_modules: bool


MODULES = Kind(COMPILER, "1", has_columns=True, has_modules=True)
COLUMNS = Kind(COMPILER, "0", has_columns=True, has_modules=False)
PLAIN = Kind(NO_COMPILER, "", has_columns=False, has_modules=False)  # the modules are tried, and given up
needs_compiler = pytest.mark.needs("cc")
WHEEL_BYTES_MAX = 8_000_000
HAS_COLUMNS = """
import importlib.util, penstock.records as records
found = importlib.util.find_spec("penstock.records._columns")
if found:
    import penstock.records._columns
print(records.__file__, bool(found))
"""


def pythons() -> dict[tuple[int, int], str]:
    """The interpreters of this machine that Penstock supports, by version: on PATH, of pyenv, and this one."""
    names = [f"python3.{minor}" for minor in range(11, 30)]
    homes = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    candidates = [found for name in names if (found := shutil.which(name))]
    candidates += [str(path) for path in sorted(homes.glob("versions/3.*/bin/python"))]
    found = {}
    for program in [*candidates, sys.executable]:
        version = _version_of(program)
        if version >= (3, 11):
            found[version] = program
    return found


def _version_of(program: str) -> tuple[int, int]:
    """0.0 for an interpreter that is of no use here: one that does not run, lacks `venv`, or has free threads."""
    code = """
import sys, sysconfig, venv
free = sysconfig.get_config_var("Py_GIL_DISABLED")
print(*((0, 0) if free else sys.version_info[:2]))
"""
    done = subprocess.run([program, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        return 0, 0
    major, minor = map(int, done.stdout.split())
    return major, minor


@pytest.fixture(scope="module", params=["oldest", "newest"])
def python(request: pytest.FixtureRequest) -> str:
    found = pythons()
    return found[min(found) if request.param == "oldest" else max(found)]


def has_headers(python: str) -> bool:
    code = "import sysconfig; print(sysconfig.get_path('include'))"
    return Path(_run([python, "-c", code]), "Python.h").exists()


class Distributions:
    """Built from a copy of the tree that has nothing of earlier builds, with this environment's setuptools."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._built: dict[tuple[str, Kind], Path] = {}

    def wheel(self, kind: Kind) -> Path:
        return self._make("build_wheel", kind)

    def source(self) -> Path:
        return self._make("build_sdist", PLAIN)

    def setuptools(self) -> Path:
        """A folder with setuptools alone, for interpreters that have none: it is Python without dependencies."""
        alone = self._folder / "setuptools"
        if not alone.exists():
            alone.mkdir()
            home = Path(setuptools.__file__).parent
            for each in (home, home.parent / "_distutils_hack", *home.parent.glob("setuptools-*.dist-info")):
                (alone / each.name).symlink_to(each)
        return alone

    def _make(self, what: str, kind: Kind) -> Path:
        key = what, kind
        if key not in self._built:
            folder = self._folder / f"{what}-{len(self._built)}"
            done = subprocess.run(
                [sys.executable, "-c", BUILD, what, str(folder)],
                cwd=_tree(folder / "tree"),
                env={**os.environ, "CC": kind.compiler, "PENSTOCK_COMPILE": kind.wish},
                capture_output=True,
                text=True,
                timeout=900,
                check=False,
            )
            assert done.returncode == 0, done.stdout + done.stderr
            self._built[key] = folder / done.stdout.split()[-1]
        return self._built[key]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Distributions:
    return Distributions(tmp_path_factory.mktemp("distributions"))


class Environment:
    """A virtual environment of an interpreter, with nothing in it."""

    def __init__(self, python: str, folder: Path) -> None:
        self._folder = folder
        _run([python, "-m", "venv", "--without-pip", str(folder)])

    def install(self, distribution: Path, kind: Kind, **environment: str) -> None:
        _run(
            [
                *(sys.executable, "-m", "pip", "--python", str(self._folder / "bin" / "python")),
                *("--quiet", "--disable-pip-version-check", "install", "--no-cache-dir"),
                *("--no-index", "--no-deps", "--no-build-isolation", str(distribution)),
            ],
            {"CC": kind.compiler, "PENSTOCK_COMPILE": kind.wish, **environment},
        )

    def run(self, program: str, *arguments: str) -> str:
        return _run([str(self._folder / "bin" / program), *arguments])


def _run(command: list[str], environment: Mapping[str, str] | None = None) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP_"))}
    done = subprocess.run(
        command,
        cwd="/",
        env={**kept, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def _works(environment: Environment, folder: Path, *, has_columns: bool, has_modules: bool) -> None:
    way = "compiled" if has_modules else "interpreted"
    assert environment.run("penstock", "--version") == f"penstock {VERSION} ({way})"
    place, columns = environment.run("python", "-c", HAS_COLUMNS).split()
    assert place.startswith(str(folder))
    assert columns == str(has_columns)


@needs_compiler
def test_a_wheel_with_compiled_modules_is_for_the_python_that_built_it(
    built: Distributions, tmp_path: Path
) -> None:
    wheel = built.wheel(MODULES)
    own = f"cp{sys.version_info.major}{sys.version_info.minor}"
    environment = Environment(sys.executable, tmp_path / "clean")

    environment.install(wheel, PLAIN)

    assert re.fullmatch(rf"penstock_mq-{re.escape(VERSION)}-{own}-{own}-\w+\.whl", wheel.name), wheel.name
    assert wheel.stat().st_size < WHEEL_BYTES_MAX
    _works(environment, tmp_path, has_columns=True, has_modules=True)


@needs_compiler
def test_a_wheel_without_compiled_modules_serves_every_python_from_the_oldest_on(
    built: Distributions,
) -> None:
    name = built.wheel(COLUMNS).name

    assert re.fullmatch(rf"penstock_mq-{re.escape(VERSION)}-cp311-abi3-\w+\.whl", name), name


def test_a_wheel_with_nothing_compiled_serves_every_system(built: Distributions) -> None:
    assert built.wheel(PLAIN).name == f"penstock_mq-{VERSION}-py3-none-any.whl"


kinds = pytest.mark.parametrize(
    "kind", [pytest.param(COLUMNS, marks=needs_compiler), PLAIN], ids=["columns", "plain"]
)


@kinds
def test_the_wheel_installs_and_works(built: Distributions, tmp_path: Path, python: str, kind: Kind) -> None:
    environment = Environment(python, tmp_path / "clean")

    environment.install(built.wheel(kind), PLAIN)

    _works(environment, tmp_path, has_columns=kind.has_columns, has_modules=False)


@kinds
def test_the_source_distribution_installs_and_works(
    built: Distributions, tmp_path: Path, python: str, kind: Kind
) -> None:
    environment = Environment(python, tmp_path / "clean")

    # setuptools alone is there, and no mypy.
    environment.install(built.source(), kind._replace(wish=""), PYTHONPATH=str(built.setuptools()))

    _works(environment, tmp_path, has_columns=kind.has_columns and has_headers(python), has_modules=False)


def test_the_source_distribution_has_what_a_build_needs(built: Distributions) -> None:
    with tarfile.open(built.source()) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}

    assert {"pyproject.toml", "setup.py", "README.md", "LICENSE", "src/penstock/records/_columns.c"} <= names
    assert not [name for name in names if name.endswith((".so", ".pyc"))]


def _tree(tree: Path) -> Path:
    """The sources without what earlier builds left."""
    leavings = shutil.ignore_patterns("*.so", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT / "src", tree / "src", ignore=leavings)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    return tree
