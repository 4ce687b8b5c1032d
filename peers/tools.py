"""Where other people's programs are: `make tools` puts them there.

A test says `require("kcat")`. A test whose tool is missing is skipped by name; on CI that is a failure.
"""

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

JAVA_MAJOR_MIN = 17
# For programs that live for seconds: compiling less and collecting with one thread starts them fastest.
SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
JARS = {"kafka": "Apache Kafka", "zookeeper": "Apache ZooKeeper", "spark-kafka": "Spark's Kafka connector"}


class MissingToolError(Exception):
    """A program that is not on this machine, with what to do about it."""


def directory() -> Path:
    return Path(os.environ.get("PENSTOCK_TOOLS") or Path.home() / ".cache" / "penstock" / "tools")


def locate(name: str) -> Path:
    """The path of a tool: the folder of jars for those in `JARS`, the program for all others."""
    if name in JARS:
        return _jars(name)
    program = shutil.which(name)
    if program is None:
        raise MissingToolError(f"{name} is missing; `make tools` installs it")
    return Path(program)


def require(name: str) -> Path:
    """The path of a tool, for tests."""
    import pytest

    try:
        return locate(name)
    except MissingToolError as missing:
        if os.environ.get("CI"):
            pytest.fail(str(missing), pytrace=False)
        pytest.skip(str(missing))


def java() -> str:
    program = shutil.which("java")
    if program is None or _java_major(program) < JAVA_MAJOR_MIN:
        raise MissingToolError(f"Java {JAVA_MAJOR_MIN} is missing; `make tools` says how to install it")
    return program


def _jars(name: str) -> Path:
    java()
    folder = directory() / name
    # The pom arrives last: without it the jars may be incomplete.
    if not (folder / "pom.xml").exists():
        raise MissingToolError(f"{JARS[name]} is missing; `make tools` fetches it")
    return folder / "libs"


@functools.cache
def _java_major(program: str) -> int:
    shown = subprocess.run([program, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', shown)
    return int(version.group(1)) if version else 0
