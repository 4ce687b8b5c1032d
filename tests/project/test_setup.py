"""The set-up script behind `make run` and `make test`, on projects small enough to set up for real."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.project.tiny_project import PackageIndex, TinyProject, programs

# An interpreter that says it is 3.9, whatever it is asked.
PYTHON_3_9 = f"""
if [ "$1" = -c ]; then
    exec {sys.executable} -c 'import sys; sys.version_info = (3, 9, 2, "final", 0); exec(sys.argv[1])' "$2"
fi
exit 1"""

# As on Debian without python3-venv: the module is there, and ends with an error and advice of several lines.
PYTHON_WITHOUT_VENV = f"""
if [ "$1" = -m ] && [ "$2" = venv ]; then
    echo "The virtual environment was not created successfully because ensurepip is not"
    echo "available."
    exit 1
fi
exec {sys.executable} "$@" """


# One project serves all tests, because making an environment takes seconds: they share a process too.
pytestmark = pytest.mark.xdist_group("setup")


@pytest.fixture(scope="module")
def shared_project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TinyProject]:
    with PackageIndex() as index:
        yield TinyProject(tmp_path_factory.mktemp("setup") / "project", index)


@pytest.fixture
def project(shared_project: TinyProject) -> TinyProject:
    """The project as on the day of its first set-up, whatever the environment in it has seen."""
    shared_project.lock("run", ("dependency", "1.0"))
    shared_project.lock("dev", ("dependency", "1.0"), ("linter", "1.0"))
    shared_project.lock("spark", ("engine", "0.0"))  # of which no test makes an environment
    shared_project.index.broken = False
    return shared_project


@pytest.fixture
def ready(project: TinyProject) -> TinyProject:
    done = project.set_up()
    assert done.returncode == 0, done.stderr
    project.index.calls.clear()
    return project


def test_set_up_installs_what_is_locked_and_finds_the_source_where_it_is(ready: TinyProject) -> None:
    assert ready.evaluate("__import__('dependency').VERSION") == "1.0"
    assert ready.evaluate("__import__('tiny').GREETING") == "from the source folder"


def test_a_second_run_with_an_unchanged_lock_calls_no_package_index(ready: TinyProject) -> None:
    again = ready.set_up()

    assert (again.returncode, again.stdout, ready.index.calls) == (0, "", [])


def test_a_changed_lock_is_installed(ready: TinyProject) -> None:
    ready.lock("run", ("dependency", "2.0"))

    assert ready.set_up().returncode == 0
    assert ready.evaluate("__import__('dependency').VERSION") == "2.0"
    assert ready.index.calls, "the index is asked, so the test of the second run can tell"


def test_dev_adds_to_an_environment_made_for_run_and_then_serves_both(ready: TinyProject) -> None:
    ready.lock("dev", ("dependency", "1.0"), ("linter", "2.0"))
    assert ready.set_up("dev").returncode == 0
    assert ready.evaluate("__import__('linter').VERSION") == "2.0"
    ready.index.calls.clear()

    (ready.folder / ".venv" / ".penstock-run").unlink()
    assert ready.set_up("run").returncode == 0
    assert ready.index.calls == []


def test_an_environment_for_spark_serves_the_broker_and_says_before_it_is_made_how_large_it_is(
    ready: TinyProject,
) -> None:
    ready.lock("spark", ("dependency", "1.0"), ("engine", "1.0"))
    assert (
        "this downloads about 530 MB, once" in ready.set_up("sizes", JAVA_HOME=str(java(ready.folder))).stdout
    )
    assert ready.set_up("spark").returncode == 0
    assert ready.evaluate("__import__('engine').VERSION") == "1.0"
    ready.index.calls.clear()

    (ready.folder / ".venv" / ".penstock-run").unlink()
    assert ready.set_up("run").returncode == 0
    assert ready.index.calls == []
    assert ready.set_up("sizes", JAVA_HOME=str(java(ready.folder))).stdout == ""


def test_an_environment_made_under_the_earlier_name_does_not_keep_both(ready: TinyProject) -> None:
    ready.lock("run", ("dependency", "1.0"), ("penstock", "0.1"))
    assert ready.set_up().returncode == 0
    assert ready.evaluate("__import__('penstock').VERSION") == "0.1"
    ready.lock("run", ("dependency", "1.0"))

    assert ready.set_up().returncode == 0
    assert "No module named 'penstock'" in ready.evaluate("__import__('penstock').VERSION")


def java(folder: Path) -> Path:
    """The home of a Java that only knows how old it is."""
    program = folder / "java" / "bin" / "java"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text("""#!/bin/sh\necho 'openjdk version "17.0.1" 2021-10-19' >&2\n""")
    program.chmod(0o755)
    return folder / "java"


def test_a_package_with_another_hash_is_refused(ready: TinyProject) -> None:
    ready.lock("run", ("dependency", "3.0"))
    lock = ready.folder / "requirements" / "run.lock"
    right = lock.read_text()
    lock.write_text(right.replace("sha256:", "sha256:00")[: len(right)] + "\n")

    done = ready.set_up()

    assert done.returncode != 0
    assert "hash" in done.stderr.lower()


def test_an_interrupted_set_up_is_not_taken_for_a_finished_one(ready: TinyProject) -> None:
    ready.lock("run", ("dependency", "4.0"))
    ready.index.broken = True
    assert ready.set_up().returncode != 0
    leftover = ready.folder / ".venv" / "bin" / "leftover"
    leftover.touch()

    ready.index.broken = False
    assert ready.set_up().returncode == 0
    assert ready.evaluate("__import__('dependency').VERSION") == "4.0"
    assert not leftover.exists(), "it is recreated, not repaired"


def test_an_environment_whose_interpreter_is_gone_is_recreated(ready: TinyProject) -> None:
    interpreter = ready.folder / ".venv" / "bin" / "python"
    interpreter.unlink()
    interpreter.symlink_to("/nowhere/python")

    assert ready.set_up().returncode == 0
    assert ready.evaluate("__import__('dependency').VERSION") == "1.0"


@pytest.fixture
def fresh(tmp_path: Path, shared_project: TinyProject) -> TinyProject:
    """Never set up."""
    return TinyProject(tmp_path / "fresh", shared_project.index)


def test_python_too_old_is_one_line_that_says_what_to_install(fresh: TinyProject, tmp_path: Path) -> None:
    path = programs(tmp_path / "bin", python3=PYTHON_3_9)

    done = fresh.set_up(PATH=path, PYTHON="")

    assert done.returncode != 0
    assert "Python 3.11 or newer is needed, found python3 3.9.2: install it" in one_line(done.stderr)
    assert not (fresh.folder / ".venv").exists()


def test_no_python_at_all_is_one_line_that_says_what_to_install(fresh: TinyProject, tmp_path: Path) -> None:
    done = fresh.set_up(PATH=programs(tmp_path / "bin"), PYTHON="")

    assert done.returncode != 0
    assert "Python 3.11 or newer is needed, found none: install it" in one_line(done.stderr)


def test_a_newer_python_beside_one_too_old_is_taken(fresh: TinyProject, tmp_path: Path) -> None:
    path = programs(tmp_path / "bin", **{"python3": PYTHON_3_9, "python3.12": PYTHON_WITHOUT_VENV})

    done = fresh.set_up(PATH=path, PYTHON="")

    assert one_line(done.stderr).startswith("penstock: python3.12 ")


def test_python_without_venv_is_one_line_that_says_what_to_install(
    fresh: TinyProject, tmp_path: Path
) -> None:
    path = programs(tmp_path / "bin", python3=PYTHON_WITHOUT_VENV)

    done = fresh.set_up(PATH=path, PYTHON="")

    assert done.returncode != 0
    assert "cannot make virtual environments: install its venv module" in one_line(done.stderr)
    assert done.stdout == ""


def one_line(text: str) -> str:
    lines = text.splitlines()
    assert len(lines) == 1, text
    return lines[0]
