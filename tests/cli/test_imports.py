"""Commands that do not run Spark start without it: neither pyspark nor `penstock.spark` is imported for them."""

import json
import subprocess
import sys

import pytest

from penstock.cli.main import COMMANDS
from tests.cli.running import environment

ON_SPARK = ("pipeline", "table")
# Modules of commands that are imported by name when they are called for.
PARTS = ("cluster_guard", "cluster_up", "consume_group", "produce_spooled")

PROGRAM = """
import json, sys
from importlib import import_module
from penstock.cli.parsing import new_parser
module = import_module("penstock.cli." + sys.argv[1])
if hasattr(module, "add_arguments"):
    module.add_arguments(new_parser(sys.argv[1]))
print(json.dumps(sorted(name for name in sys.modules if name.startswith(("penstock.spark", "pyspark", "pyarrow")))))
"""


def imported_of_spark(module: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, module], capture_output=True, text=True, check=True, env=environment()
    )
    found: list[str] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("command", [*(each for each in COMMANDS if each not in ON_SPARK), *PARTS])
def test_a_command_without_spark_imports_nothing_of_it(command: str) -> None:
    assert imported_of_spark(command) == []


@pytest.mark.parametrize("command", ON_SPARK)
def test_commands_on_spark_import_pyspark_only_when_they_run_it(command: str) -> None:
    imported = imported_of_spark(command)
    assert any(name.startswith("penstock.spark") for name in imported)
    assert not any(name.startswith("pyspark") for name in imported)
