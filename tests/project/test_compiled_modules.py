"""The modules of the hot path: the rules for their source, and the source beside the compiled modules.

The rules are checked in every run. The rest needs the compiled modules: `make test-compiled` runs it.
"""

import ast
import importlib
import json
import os
import subprocess
import sys
import tomllib
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from penstock.base.version import VERSION, is_compiled

ROOT = Path(__file__).resolve().parent.parent.parent
MODULES: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["penstock"]["compiled"]

# Each finds an attribute or a name by its text: mypyc makes a slow look-up of it, or rejects it.
DYNAMIC_CALLS = {"delattr", "eval", "exec", "getattr", "globals", "hasattr", "locals", "setattr", "vars"}

compiled_only = pytest.mark.skipif(not is_compiled(), reason="`make test-compiled` runs this")


def source_of(module: str) -> Path:
    return ROOT / "src" / f"{module.replace('.', '/')}.py"


def dynamic_parts(source: str) -> list[str]:
    """What in a module's source is found by name at run time, or not typed."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in DYNAMIC_CALLS:
            found.append(f"line {node.lineno}: calls {node.func.id}()")
        elif isinstance(node, ast.Attribute) and node.attr == "__dict__":
            found.append(f"line {node.lineno}: uses __dict__")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            parameters = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            untyped = [
                each.arg for each in parameters if each.annotation is None and each.arg not in ("self", "cls")
            ]
            if untyped or node.returns is None:
                found.append(f"line {node.lineno}: {node.name} has untyped parameters or an untyped result")
    found += [
        f"line {number}: silences the type checker"
        for number, line in enumerate(source.splitlines(), 1)
        if "# type: ignore" in line
    ]
    return found


@pytest.mark.parametrize("module", MODULES)
def test_a_compiled_module_has_no_dynamic_attribute_and_no_untyped_value(module: str) -> None:
    assert dynamic_parts(source_of(module).read_text()) == []


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("def f(x: int) -> object:\n    return getattr(x, 'real')", "line 2: calls getattr()"),
        ("def f(x: int) -> object:\n    return x.__dict__", "line 2: uses __dict__"),
        ("def f(x) -> int:\n    return 1", "line 1: f has untyped parameters or an untyped result"),
        ("def f(x: int):\n    return 1", "line 1: f has untyped parameters or an untyped result"),
        ("x = f()  # type: ignore[name-defined]", "line 1: silences the type checker"),
    ],
)
def test_the_check_sees_what_breaks_a_rule(source: str, what: str) -> None:
    assert dynamic_parts(source) == [what]


def test_the_list_is_sorted_and_has_no_module_twice() -> None:
    assert sorted(set(MODULES)) == MODULES


def test_the_page_with_the_rules_names_the_list() -> None:
    assert "tool.penstock.compiled" in (ROOT / "docs" / "compiled-modules.md").read_text()


@compiled_only
def test_every_listed_module_is_compiled() -> None:
    for name in MODULES:
        file = importlib.import_module(name).__file__
        assert file is not None
        assert file.endswith(tuple(EXTENSION_SUFFIXES)), name


PRINT_FILES = f"""
import importlib
for name in {MODULES!r}:
    print(importlib.import_module(name).__file__)
"""


def run(*words: str, interpreted: bool) -> str:
    environment = {**os.environ, "PENSTOCK_INTERPRETED": "1" if interpreted else "0"}
    done = subprocess.run(
        [sys.executable, *words], env=environment, capture_output=True, text=True, timeout=300, check=True
    )
    return done.stdout


@compiled_only
def test_the_version_says_which_of_both_runs() -> None:
    assert run("-m", "penstock", "--version", interpreted=False) == f"penstock {VERSION} (compiled)\n"
    assert run("-m", "penstock", "--version", interpreted=True) == f"penstock {VERSION} (interpreted)\n"


def test_an_environment_variable_has_python_run_the_source() -> None:
    files = run("-c", PRINT_FILES, interpreted=True).split()
    assert len(files) == len(MODULES)
    assert all(file.endswith(".py") for file in files)


@compiled_only
@pytest.mark.parametrize(
    "family", [(), ("--coordination",), ("--cluster",)], ids=["logs", "groups", "clusters"]
)
@pytest.mark.parametrize("seed", [7, 8])
def test_the_simulation_has_the_same_history_both_ways(family: tuple[str, ...], seed: int) -> None:
    words = ("-m", "penstock", "sim", "run", *family, "--seed", str(seed), "--json")
    compiled, interpreted = (json.loads(run(*words, interpreted=each)) for each in (False, True))
    assert compiled["hash"] == interpreted["hash"]
