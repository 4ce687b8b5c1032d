"""No test fails for want of a tool: those that declare one are skipped by name, and the others cannot reach it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from peers import tools
from tests import declared_tools
from tests.project.tiny_project import ROOT

CONFTEST = """
from tests import declared_tools

def pytest_configure(config):
    config.pluginmanager.register(declared_tools, "declared tools")
"""


def run_pytest(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {
        name: value for name, value in os.environ.items() if name not in ("CI", "JAVA_HOME", "PENSTOCK_TOOLS")
    }
    kept = {name: value for name, value in kept.items() if not name.startswith("PYTEST_")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        cwd=folder,
        env={**kept, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    return tmp_path


def test_nothing_fails_where_every_tool_is_hidden(tmp_path: Path) -> None:
    """The whole suite's tests that use a tool, on a machine that has none. The others use none, as below."""
    empty = tmp_path / "empty"
    empty.mkdir()

    done = run_pytest(
        ROOT, "-q", "-m", "needs", "tests",
        PATH=str(empty), PENSTOCK_TOOLS=str(empty), HOME=str(empty),
    )  # fmt: skip

    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    *_, summary, closing = done.stdout.rstrip().splitlines()
    assert re.fullmatch(r"\d+ skipped, \d+ deselected in .*", summary), summary
    skipped = int(summary.split()[0])
    assert skipped > 1000
    assert closing.startswith("not tried: ")
    assert sum(int(count.replace(",", "")) for count in re.findall(r"([\d,]+) because", closing)) == skipped
    assert "Java 17 is missing; `make tools` says how to install it" in closing
    assert "kcat is missing; `make tools` installs it" in closing


def test_a_tool_that_is_there_and_was_not_declared_is_out_of_reach(suite: Path) -> None:
    (suite / "test_it.py").write_text("""
import subprocess
from peers import tools

def test_jars():
    tools.locate("kafka")

def test_program():
    done = subprocess.run(["java", "-version"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
""")
    done = run_pytest(suite, "-q")

    assert "2 failed" in done.stdout
    assert 'this test uses kafka: declare it with pytest.mark.needs("kafka")' in done.stdout
    assert 'this test uses java: declare it with pytest.mark.needs("java")' in done.stdout


def test_what_is_declared_by_a_mark_a_parameter_or_a_fixture_is_within_reach(suite: Path) -> None:
    (suite / "java").write_text("#!/bin/sh\necho 'openjdk version \"17.0.1\"' >&2\n")
    (suite / "java").chmod(0o755)
    (suite / "test_it.py").write_text("""
import pytest
from peers import tools

@pytest.fixture(scope="session")
def running(needs_java):
    return tools.java()

@pytest.mark.needs("java")
def test_mark():
    assert tools.java()

@pytest.mark.parametrize("name", ["none", pytest.param("java", marks=pytest.mark.needs("java"))])
def test_parameter(name):
    assert name == "none" or tools.locate(name)

def test_fixture(running):
    assert tools.java() == running
""")
    done = run_pytest(suite, "-q", PATH=f"{suite}{os.pathsep}{os.environ['PATH']}")

    assert "4 passed" in done.stdout, done.stdout


def test_a_java_without_a_compiler_is_no_jdk(suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (suite / "java").write_text("#!/bin/sh\necho 'openjdk version \"17.0.1\"' >&2\necho java.base@17\n")
    (suite / "java").chmod(0o755)
    monkeypatch.setenv("PATH", f"{suite}{os.pathsep}{os.environ['PATH']}")

    with tools.within_reach(None):
        assert tools.java() == str(suite / "java")
        with pytest.raises(tools.MissingToolError, match="has no compiler; a JDK brings it"):
            tools.locate("jdk")


def test_the_closing_line_counts_by_reason_and_is_not_there_when_all_was_tried() -> None:
    place = tools.__file__
    skipped = [
        (place, 70, "Skipped: Apache Kafka is missing; `make tools` fetches it"),
        (place, 70, "Skipped: Apache Kafka is missing; `make tools` fetches it"),
        (place, 70, "Skipped: kcat is missing; `make tools` installs it"),
        ("tests/world/test_real_disk.py", 180, "Skipped: this file system lives in memory"),
    ]

    assert declared_tools.not_tried(skipped) == (
        "not tried: 2 because Apache Kafka is missing; `make tools` fetches it, "
        "1 because kcat is missing; `make tools` installs it"
    )
    assert declared_tools.not_tried(skipped[3:]) == ""


def test_only_the_declaration_skips() -> None:
    """A test or fixture that asks for itself would be skipped without having declared anything."""
    asking = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob("*.py")
        if re.search(r"\b(tools\.require|import.*\brequire)\b", path.read_text())
    ]
    assert sorted(asking) == [
        "tests/declared_tools.py",
        "tests/project/test_tools.py",
    ]
