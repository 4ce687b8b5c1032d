"""Tests that share something costly, as Apache Kafka, run in one process; all others wherever there is room.

pytest-xdist does this by itself (`--dist loadgroup`), but not with pytest 9.2, which no longer lets it put the group's
name behind a test's. So the groups are read from the files: a whole module is in one, or in none.
"""

import os
import re
import signal
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from peers.spark import SHORT_LIVED
from penstock.base.version import is_compiled
from tests import declared_tools

_ROOT = Path(__file__).resolve().parent.parent
_MARK = re.compile(r'^pytestmark = .*?xdist_group\("([^"]+)"\)', re.DOTALL | re.MULTILINE)


# How long an example takes says more about what else the machine does.
settings.register_profile("any machine", settings.default, deadline=None)
settings.load_profile("any machine")

# Every Spark that a test or one of its processes starts, and what puts its command together. They live for seconds to
# minutes: with these options, modules that were measured took a fifth to two fifths less of the processor.
os.environ.setdefault("SPARK_SUBMIT_OPTS", SHORT_LIVED)
os.environ.setdefault("SPARK_LAUNCHER_OPTS", SHORT_LIVED)


# A shell has what it runs in the background ignore Ctrl-C, and so would the processes that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc, unused-ignore]
    """A group at a time, the largest first."""

    def _split_scope(self, nodeid: str) -> str:
        module, _, _ = nodeid.partition("::")
        return _group_of(module) or nodeid


@cache
def _group_of(module: str) -> str | None:
    found = _MARK.search((_ROOT / module).read_text())
    return None if found is None else found[1]


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(declared_tools, "declared tools")
    config.addinivalue_line(
        "markers",
        "interpreted(what): replaces a function of a compiled module, so it runs with the source only",
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not is_compiled():
        return
    for item in items:
        mark = item.get_closest_marker("interpreted")
        if mark is not None:
            item.add_marker(pytest.mark.skip(reason=f"replaces {mark.args[0]}, which is compiled here"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    return GroupScheduling(config, log)
