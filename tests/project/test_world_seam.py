"""Nothing outside `world/` touches the outside; and the checker that says so can see."""

from pathlib import Path

import pytest

import penstock
from tests.project.seam_checker import check_source, check_tree

PACKAGE = Path(penstock.__file__).parent


def test_nothing_but_the_world_touches_the_outside() -> None:
    assert [str(violation) for violation in check_tree(PACKAGE)] == []


def test_the_checker_reads_every_package_it_should(tmp_path: Path) -> None:
    for folder in ("storage", "broker", "cli", "sim", "testing", "world"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "module.py").write_text("import time\n")
    (tmp_path / "__main__.py").write_text("import os\n")
    (tmp_path / "top.py").write_text("import os\n")
    found = check_tree(tmp_path)
    assert [(violation.path, violation.line) for violation in found] == [
        ("broker/module.py", 1),
        ("sim/module.py", 1),
        ("storage/module.py", 1),
        ("top.py", 1),
    ]


@pytest.mark.parametrize(
    ("source", "word"),
    [
        ("import time", "imports time"),
        ("import random as chance", "imports random"),
        ("from uuid import uuid4", "imports uuid"),
        ("import os.path", "imports os.path"),
        ("from os import path", "imports os"),
        ("import threading", "imports threading"),
        ("import socket", "imports socket"),
        ("from concurrent.futures import ThreadPoolExecutor", "imports concurrent.futures"),
        ("import subprocess", "imports subprocess"),
        ("import signal", "imports signal"),
        ("from pathlib import Path", "imports pathlib"),
        ("def f():\n    import secrets", "imports secrets"),
        ("import kazoo.client", "imports kazoo"),
        ("from kazoo.client import KazooClient", "imports kazoo"),
        ("from penstock.world.real_disk import RealDisk", "imports penstock.world.real_disk"),
        ("from penstock.world import real_loop", "imports penstock.world.real_loop"),
        ("import asyncio\nasync def f(): await asyncio.sleep(1)", "asyncio.sleep"),
        ("import asyncio as a\nloop = a.get_running_loop()", "asyncio.get_running_loop"),
        ("import asyncio\ntask = asyncio.create_task(f())", "asyncio.create_task"),
        ("import asyncio\nasync def f(): await asyncio.wait_for(g(), 1)", "asyncio.wait_for"),
        ("from asyncio import sleep", "asyncio.sleep"),
        ("import asyncio\nasync def f(): await asyncio.to_thread(g)", "to_thread"),
        ("import asyncio\nasync def f(tasks): await asyncio.wait(tasks, timeout=1)", "with a timeout"),
        ("loop.run_in_executor(None, f)", "run_in_executor"),
        ("loop.call_soon_threadsafe(f)", "call_soon_threadsafe"),
        ("from datetime import datetime\nnow = datetime.now()", "reads the clock"),
        ("import datetime\nnow = datetime.date.today()", "reads the clock"),
        ("data = open('file').read()", "opens a file"),
        ("from io import open as o", "opens a file"),
        ("__import__('time')", "__import__"),
        ("bucket = hash(name) % 8", "hash()"),
    ],
)
def test_a_way_outside_is_named(source: str, word: str) -> None:
    found = check_source("services/m.py", source)
    assert found
    assert word in found[-1].what


@pytest.mark.parametrize("package", ["base", "records", "wire", "core"])
@pytest.mark.parametrize("module", ["asyncio", "socket", "os", "time", "random", "threading", "uuid"])
def test_a_pure_package_is_held_to_more(package: str, module: str) -> None:
    (violation,) = check_source(f"{package}/m.py", f"import {module}")
    assert f"imports {module}" in violation.what


@pytest.mark.parametrize(
    "source",
    [
        "for x in {1, 2}: f(x)",
        "for x in set(y): f(x)",
        "names = [f(x) for x in frozenset(y)]",
        "table = {x: 1 for x in {y for y in z}}",
        "names = list({1, 2})",
        "names = tuple(set(y) - z)",
        "text = ','.join({a, b})",
        "names = [*{1, 2}]",
        "f(*{1, 2})",
        "first = next(iter({1, 2}))",
        "any_one = set(y).pop()",
        "known = set(y)\nfor x in known: f(x)",
        "def f(names: set[str]):\n    return [g(name) for name in names]",
        "def f(*, names: 'frozenset[str] | None'):\n    for name in names: g(name)",
        "def f():\n    names: set[str] = g()\n    yield from names",
        "from collections.abc import Set as AbstractSet\ndef f(names: AbstractSet[str]):\n    return list(names)",
        "class C:\n    def __init__(self):\n        self.names: set[str] = g()\n"
        "    def f(self):\n        return [x for x in self.names]",
        "class C:\n    def __init__(self):\n        self.names = set()\n"
        "    def f(self):\n        for x in self.names | other: g(x)",
        "class C:\n    names: frozenset[str]\ndef f(c):\n    return list(c.names.union(c.more))",
        "class C:\n    @property\n    def names(self) -> set[str]: ...\ndef f(c):\n    return list(c.names)",
        "import asyncio\nasync def f(x):\n    done, late = await asyncio.wait(x)\n    for task in late: g(task)",
        "total = g(x for x in {1, 2})",
    ],
)
def test_the_order_of_a_set_is_not_let_out(source: str) -> None:
    found = check_source("services/m.py", source)
    assert len(found) == 1
    assert "set" in found[0].what


@pytest.mark.parametrize(
    "source",
    [
        "for x in sorted({1, 2}): f(x)",
        "count = len(set(y))",
        "same = set(y) == {1, 2} and 3 in set(y)",
        "found = any(f(x) for x in {1, 2})",
        "others = {f(x) for x in set(y)}",
        "latest = max(x.time for x in set(y))",
        "names = sorted(f(x) for x in set(y))",
        "known = set(y)\nknown = list(z)\nfor x in known: f(x)",
        "known = set(y)\ndef f(known: list[str]):\n    return [x for x in known]",
        "for x in [1, 2]: f(x)",
        "for x in table.values(): f(x)",
        "import asyncio\nasync def f(a: asyncio.Future[int], lock: asyncio.Lock): await asyncio.gather(a)",
        "import asyncio\nasync def f(tasks):\n    done, _ = await asyncio.wait(tasks)\n    return len(done)",
        "from datetime import datetime\ntext = datetime.fromtimestamp(seconds)",
        "from penstock.world import Disk, World\nfrom penstock.world.memory_disk import MemoryDisk",
        "disk.open('file')",
    ],
)
def test_what_does_no_harm_is_left_alone(source: str) -> None:
    assert check_source("services/m.py", source) == []


@pytest.mark.parametrize(
    "source",
    [
        "import time",
        "import os",
        "import threading",
        "import secrets",
        "from uuid import uuid4",
        "import socket",
        "import random\nnumber = random.random()",
        "from random import choice",
        "import random\nchance = random.Random()",
        "from random import Random\nchance = Random()",
        "from penstock.world.real_loop import RealLoop",
        "data = open('file').read()",
        "from datetime import datetime\nnow = datetime.now()",
        "bucket = hash(name) % 8",
        "for x in {1, 2}: f(x)",
    ],
)
def test_the_simulation_has_no_time_and_no_chance_but_its_own(source: str) -> None:
    (violation,) = check_source("sim/m.py", source)
    assert violation.path == "sim/m.py"


def test_the_simulation_makes_the_loop_and_draws_from_the_seed() -> None:
    source = (
        "import asyncio\nimport random\nfrom random import Random\n"
        "async def f(): await asyncio.sleep(1)\n"
        "chance = [random.Random('seed'), Random(7)]"
    )
    assert check_source("sim/m.py", source) == []
    assert check_source("sim/network.py", "import socket") == []


def test_the_exceptions_hold_for_their_own_file_alone() -> None:
    kazoo = "from kazoo.client import KazooClient\nloop.call_soon_threadsafe(f)"
    assert check_source("cluster/zookeeper.py", kazoo) == []
    assert len(check_source("cluster/embedded_store.py", kazoo)) == 2
    runner = "import asyncio\nfrom penstock.world.real_loop import RealLoop\nrunner = asyncio.Runner()"
    assert check_source("client/blocking.py", runner) == []
    assert len(check_source("client/client.py", runner)) == 2
