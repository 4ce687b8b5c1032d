"""The examples run as their first lines say."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(*command: str) -> str:
    finished = subprocess.run(
        [sys.executable, *command], cwd=EXAMPLES.parent, capture_output=True, text=True, timeout=120
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("test_*.py")), ids=lambda path: path.name)
def test_an_example_of_a_test_passes(path):
    # The plugin is an entry point of the installed package; naming it makes this run in a bare checkout as well.
    assert "1 passed" in run("-m", "pytest", "-q", *plugin(), str(path))


def test_a_broker_lives_inside_an_asyncio_program():
    assert run(str(EXAMPLES / "asyncio_program.py")) == "[b'one', b'two', b'three']\n"


def plugin() -> list[str]:
    from importlib.metadata import entry_points

    installed = [point for point in entry_points(group="pytest11") if point.name == "penstock"]
    return [] if installed else ["-p", "penstock.testing.pytest_plugin"]


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_every_example_says_how_to_run_it(path):
    assert "Run it with" in path.read_text().split('"""')[1]
