"""Which test uses whose program. It is declared; where the program is missing the test is skipped by name (on CI it
fails); and a test that has not declared a tool cannot reach it, on a machine that has it either.

    pytestmark = pytest.mark.needs("kafka")           a module, a test, or one of its parameters
    def cluster(needs_zookeeper: None) -> ...         a fixture, and with it every test that uses it

The names are those of `peers.tools`. Out of reach means: `peers.tools` refuses, and the programs on PATH are stubs that
say what to declare. So no test fails for want of a tool: one that declares it is skipped, and one that does not runs
without it on every machine.
"""

import atexit
import contextlib
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from peers import tools

MARKER = "needs(*tools): the programs of others that this test uses, by the names of peers.tools"
STUB = """#!/bin/sh
echo 'this test uses {name}: declare it with pytest.mark.needs("{name}")' >&2
exit 97
"""


@pytest.fixture(scope="session")
def needs_kafka() -> None:
    """For fixtures: the tests that use them need Apache Kafka's jars."""


@pytest.fixture(scope="session")
def needs_zookeeper() -> None:
    """For fixtures: the tests that use them need ZooKeeper's jars."""


@pytest.fixture(scope="session")
def needs_java() -> None:
    """For fixtures: the tests that use them need Java."""


@pytest.fixture(scope="session")
def needs_jdk() -> None:
    """For fixtures: the tests that use them compile Java."""


@pytest.fixture(scope="session")
def needs_openssl() -> None:
    """For fixtures: the tests that use them make certificates."""


FIXTURES = {f"needs_{name}": name for name in ("kafka", "zookeeper", "java", "jdk", "openssl")}


def declared_by(item: pytest.Item) -> frozenset[str]:
    names = frozenset(name for mark in item.iter_markers("needs") for name in mark.args)
    assert names <= set(tools.NAMES), f"{item.nodeid} needs {sorted(names)}, and there are {tools.NAMES}"
    return tools.with_needs(names)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What fixtures and Spark need is a mark of the test too, so that `-m needs` selects it."""
    for item in items:
        names = [FIXTURES[name] for name in getattr(item, "fixturenames", ()) if name in FIXTURES]
        if any(mark.args == ("spark",) for mark in item.iter_markers("xdist_group")):
            names.append("java")  # what starts a Spark is in that group
        if names:
            item.add_marker(pytest.mark.needs(*names))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    declared = declared_by(item)
    with tools.within_reach(declared), _stubs_for(frozenset(tools.PROGRAMS) - declared):
        return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    # Java last: who needs more than Java hears what that is.
    for name in sorted(declared_by(item), key=lambda name: name == "java"):
        tools.require(name)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, object, object]:
    """The last line says what was not tried, and why."""
    outcome = yield
    reporter: Any = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and not hasattr(session.config, "workerinput"):
        line = not_tried([each.longrepr for each in reporter.stats.get("skipped", [])])
        if line:
            reporter.write_line(line)
    return outcome


def not_tried(skipped: list[Any]) -> str:
    """One line about those that were skipped here; nothing if none was. The other reasons are the tests' own."""
    reasons = Counter(
        reason.removeprefix("Skipped: ") for path, _, reason in skipped if Path(path) == Path(tools.__file__)
    )
    told = ", ".join(f"{count:,} because {reason}" for reason, count in reasons.most_common())
    return f"not tried: {told}" if told else ""


@contextlib.contextmanager
def _stubs_for(programs: frozenset[str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in ("PATH", "JAVA_HOME")}
    folders = [str(_stub(name)) for name in sorted(programs)]
    os.environ["PATH"] = os.pathsep.join([*folders, before["PATH"] or os.defpath])
    if "java" in programs:
        os.environ.pop("JAVA_HOME", None)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@cache
def _stub(name: str) -> Path:
    folder = Path(tempfile.mkdtemp(prefix=f"undeclared-{name}-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    stub = folder / name
    stub.write_text(STUB.format(name=name))
    stub.chmod(0o755)
    return folder
