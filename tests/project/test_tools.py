"""`make tools`, and what becomes of tests whose tool is missing, or not declared."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from peers import tools
from tests.project.tiny_project import ROOT, programs

JAVA_17 = 'echo "openjdk version \\"17.0.9\\" 2023-10-17" >&2'
# Copies as Maven would, into the folder it was told, and says that it was called.
MAVEN = """
for argument in "$@"; do
    libs=${argument#-DoutputDirectory=}
    [ "$libs" = "$argument" ] || { mkdir -p "$libs" && touch "$libs/some.jar"; }
done
echo "$4" >>"$MAVEN_CALLS" """
KAFKA_POM = "peers/kafka-pom.xml\n"
ZOOKEEPER_POM = "peers/zookeeper-pom.xml\n"
SPARK_KAFKA_POM = "peers/spark-kafka-pom.xml\n"
ALL_POMS = KAFKA_POM + ZOOKEEPER_POM + SPARK_KAFKA_POM


class Machine:
    """A machine with just these programs, whose user is not root."""

    def __init__(self, folder: Path, **scripts: str) -> None:
        self.calls = folder / "maven-calls"
        self.tools = folder / "tools"
        path = programs(folder / "bin", id="echo 1000", **scripts)
        for name in ("sed", "cp", "mv"):
            (folder / "bin" / name).symlink_to(str(shutil.which(name)))
        self._environment = {
            "PATH": path,
            "PENSTOCK_TOOLS": str(self.tools),
            "MAVEN_CALLS": str(self.calls),
            "HOME": str(folder),
        }

    def make_tools(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(shutil.which("sh")), str(ROOT / "scripts" / "tools.sh"), *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


def test_the_jars_are_fetched_once(tmp_path: Path) -> None:
    machine = Machine(tmp_path, java=JAVA_17, mvn=MAVEN, kcat="")

    assert machine.make_tools().returncode == 0
    for name in tools.JARS:
        assert (machine.tools / name / "libs" / "some.jar").exists()
    assert machine.make_tools().returncode == 0
    assert machine.calls.read_text() == ALL_POMS


def test_jars_of_another_version_are_fetched_again(tmp_path: Path) -> None:
    machine = Machine(tmp_path, java=JAVA_17, mvn=MAVEN, kcat="")
    machine.make_tools()
    (machine.tools / "zookeeper" / "pom.xml").write_text("an older one")

    assert machine.make_tools().returncode == 0
    assert machine.calls.read_text() == ALL_POMS + ZOOKEEPER_POM


def test_a_fetch_that_failed_leaves_nothing_that_looks_complete(tmp_path: Path) -> None:
    machine = Machine(tmp_path, java=JAVA_17, mvn="exit 1", kcat="")

    done = machine.make_tools()

    assert done.returncode != 0
    for name, full_name in tools.JARS.items():
        assert f"{full_name} is missing" in done.stderr
        assert not (machine.tools / name / "pom.xml").exists()


@pytest.mark.parametrize("program", ["java", "mvn", "kcat"])
def test_a_program_that_cannot_be_installed_is_named_with_what_to_do(tmp_path: Path, program: str) -> None:
    scripts = {"java": JAVA_17, "mvn": MAVEN, "kcat": ""}
    del scripts[program]

    done = Machine(tmp_path, **scripts).make_tools()

    assert done.returncode != 0
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"penstock: {program} is missing: apt-get install ")
    assert "brew install" in line


def test_a_missing_browser_is_reported_and_is_no_failure(tmp_path: Path) -> None:
    done = Machine(tmp_path, java=JAVA_17, mvn=MAVEN, kcat="").make_tools()

    assert done.returncode == 0
    assert "chromium is missing (apt-get install chromium)" in done.stdout


def test_a_java_older_than_17_is_an_error(tmp_path: Path) -> None:
    machine = Machine(tmp_path, java="echo 'openjdk version \"11.0.2\"' >&2", mvn=MAVEN, kcat="")

    done = machine.make_tools()

    assert done.returncode != 0
    assert "Java 17 or newer is missing" in done.stderr


def test_make_test_fetches_the_jars_where_java_and_maven_are_there_and_says_how_much_it_downloads(
    tmp_path: Path,
) -> None:
    machine = Machine(tmp_path, java=JAVA_17, mvn=MAVEN)

    done = machine.make_tools("at-hand")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("penstock: this downloads about 144 MB of jars, once, into ")
    assert machine.calls.read_text() == ALL_POMS
    assert machine.make_tools("at-hand").stdout == "", "it says nothing when there is nothing to do"


@pytest.mark.parametrize(
    "scripts",
    [{"mvn": MAVEN}, {"java": JAVA_17}, {"java": "echo 'openjdk version \"11.0.2\"' >&2", "mvn": MAVEN}],
    ids=["no java", "no maven", "an old java"],
)
def test_make_test_goes_on_where_java_or_maven_is_missing(tmp_path: Path, scripts: dict[str, str]) -> None:
    machine = Machine(tmp_path, **scripts)

    done = machine.make_tools("at-hand")

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not machine.calls.exists()


def test_make_test_goes_on_when_maven_cannot_download_and_asks_it_once(tmp_path: Path) -> None:
    machine = Machine(tmp_path, java=JAVA_17, mvn='echo "$4" >>"$MAVEN_CALLS"; exit 1')

    done = machine.make_tools("at-hand")

    assert done.returncode == 0
    assert "Apache Kafka is missing: Maven could not fetch it" in done.stderr
    assert "the suite goes on without" in done.stderr
    assert machine.calls.read_text() == KAFKA_POM


@pytest.fixture
def undeclared(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Outside of the rule that a test declares its tools: these are about finding them."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with tools.within_reach(None):
        yield


@pytest.mark.usefixtures("undeclared")
def test_a_test_whose_tool_is_missing_is_skipped_by_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(pytest.skip.Exception, match="kcat is missing"):
        tools.require("kcat")


@pytest.mark.usefixtures("undeclared")
def test_on_ci_a_missing_tool_is_a_failure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CI", "true")
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(pytest.fail.Exception, match="kcat is missing"):
        tools.require("kcat")


@pytest.mark.usefixtures("undeclared")
@pytest.mark.parametrize("name", tools.JARS)
def test_jars_without_the_proof_that_all_arrived_count_as_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    (tmp_path / "bin").mkdir()
    java = tmp_path / "bin" / "java"
    java.write_text(f"#!/bin/sh\n{JAVA_17}\n")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PENSTOCK_TOOLS", str(tmp_path))
    (tmp_path / name / "libs").mkdir(parents=True)

    with pytest.raises(tools.MissingToolError, match=f"{tools.JARS[name]} is missing"):
        tools.locate(name)
    (tmp_path / name / "pom.xml").touch()
    assert tools.locate(name) == tmp_path / name / "libs"


@pytest.mark.parametrize("name", tools.JARS)
def test_the_pom_names_no_repository(name: str) -> None:
    assert "repositor" not in (ROOT / "peers" / f"{name}-pom.xml").read_text()
