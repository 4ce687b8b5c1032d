"""Where other people's programs are: `make tools` puts them there.

A test declares what it uses (`tests/declared_tools.py`): where that is missing it is skipped by name, on CI it fails.
What a test has not declared is out of its reach, so that a missing declaration is found where the tool is there.
"""

import contextlib
import functools
import os
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path

JAVA_MAJOR_MIN = 17
# For programs that live for seconds: compiling less and collecting with one thread starts them fastest.
SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
JARS = {"kafka": "Apache Kafka", "zookeeper": "Apache ZooKeeper", "spark-kafka": "Spark's Kafka connector"}
PROGRAMS = ("java", "kcat", "openssl", "cc", "chromium")
# `jdk` is a Java that has a compiler, as a runtime has not; `cc` is one of C, with Python's headers.
NAMES = (*JARS, *PROGRAMS, "jdk")

_reach: frozenset[str] | None = None


class MissingToolError(Exception):
    """A program that is not on this machine, with what to do about it."""


class UndeclaredToolError(Exception):
    """A test used what it had not declared: elsewhere it would fail instead of being skipped."""


@contextlib.contextmanager
def within_reach(names: frozenset[str] | None) -> Iterator[None]:
    """Meanwhile only these tools can be had, and what they need; all of them with None."""
    global _reach
    before, _reach = _reach, None if names is None else with_needs(names)
    try:
        yield
    finally:
        _reach = before


def with_needs(names: frozenset[str]) -> frozenset[str]:
    """These tools and what they run on."""
    return names | {"java"} if names & {*JARS, "jdk"} else names


def locate(name: str) -> Path:
    """The path of a tool: the folder of jars for those in `JARS`, the program for all others."""
    if _reach is not None and name not in _reach:
        raise UndeclaredToolError(f'this test uses {name}: declare it with pytest.mark.needs("{name}")')
    if name in JARS:
        return _jars(name)
    if name in ("java", "jdk"):
        return Path(_java(with_compiler=name == "jdk"))
    if name == "cc":
        return _compiler()
    program = shutil.which(name)
    if program is None:
        raise MissingToolError(f"{name} is missing; `make tools` installs it")
    return Path(program)


def require(name: str) -> Path:
    """The path of a tool; the test that runs is skipped if it is missing, and on CI fails."""
    import pytest

    try:
        return locate(name)
    except MissingToolError as missing:
        if os.environ.get("CI"):
            pytest.fail(str(missing), pytrace=False)
        pytest.skip(str(missing))


def java() -> str:
    return str(locate("java"))


def _java(*, with_compiler: bool) -> str:
    home = os.environ.get("JAVA_HOME")
    program = (shutil.which("java", path=f"{home}/bin") if home else None) or shutil.which("java")
    if program is None or _java_major(program) < JAVA_MAJOR_MIN:
        raise MissingToolError(f"Java {JAVA_MAJOR_MIN} is missing; `make tools` says how to install it")
    if with_compiler and not _java_compiles(program):
        raise MissingToolError(
            f"{program} has no compiler; a JDK brings it (apt-get install default-jdk-headless)"
        )
    return program


def _jars(name: str) -> Path:
    _java(with_compiler=False)
    folder = directory() / name
    # The pom arrives last: without it the jars may be incomplete.
    if not (folder / "pom.xml").exists():
        raise MissingToolError(f"{JARS[name]} is missing; `make tools` fetches it")
    return folder / "libs"


def _compiler() -> Path:
    """What builds the compiled part of Penstock with this Python."""
    program = shutil.which("cc")
    if program is None or not Path(sysconfig.get_path("include"), "Python.h").exists():
        raise MissingToolError(
            "a C compiler with Python's headers is missing (apt-get install gcc python3-dev)"
        )
    return Path(program)


def directory() -> Path:
    return Path(os.environ.get("PENSTOCK_TOOLS") or Path.home() / ".cache" / "penstock" / "tools")


@functools.cache
def _java_major(program: str) -> int:
    shown = subprocess.run([program, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', shown)
    return int(version.group(1)) if version else 0


@functools.cache
def _java_compiles(program: str) -> bool:
    shown = subprocess.run([program, "--list-modules"], capture_output=True, text=True, check=False).stdout
    return "jdk.compiler" in shown
