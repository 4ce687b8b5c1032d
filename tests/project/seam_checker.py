"""Reads source code for what would let the outside in past `world/`, or let a set's order out.

A syntactic check: it knows names and annotations, not types. What it calls a set is a set display or
comprehension, a call of set() or frozenset(), an operation on one, and a name or attribute that the module
annotates or assigns as one. Iterating over it is refused unless the order cannot matter (`sorted`, `len`, `any`,
another set…).
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


PURE_PACKAGES = ("base", "core", "records", "schema", "wire")
FREE_PACKAGES = ("cli", "spark", "testing", "world")
SIMULATION = "sim"  # a world of its own: it makes the loop, and chance only from a seed

OUTSIDE_MODULES = _words("""
    _thread concurrent ctypes fcntl glob mmap multiprocessing os pathlib queue random resource sched secrets
    select selectors shutil signal socket socketserver subprocess tempfile threading time uuid uvloop""")

# Types, and what only arranges futures. Everything else of asyncio touches a loop, a clock or a thread.
ASYNCIO_ALLOWED = _words("""
    AbstractServer ALL_COMPLETED BaseProtocol BaseTransport BufferedProtocol CancelledError Condition Event
    FIRST_COMPLETED FIRST_EXCEPTION Future InvalidStateError Lock LifoQueue PriorityQueue Protocol Queue QueueEmpty
    QueueFull Semaphore BoundedSemaphore Task TaskGroup TimeoutError Transport gather iscoroutine shield
    wait""")

LOOP_METHODS = _words("run_in_executor to_thread call_soon_threadsafe run_coroutine_threadsafe")
CLOCK_METHODS = _words("now utcnow today")

# What one file may do that no other does, and why.
EXCEPTIONS = {
    "__init__.py": ("os",),  # PENSTOCK_INTERPRETED, before the first module is imported
    "cluster/zookeeper.py": ("kazoo", "call_soon_threadsafe"),  # kazoo has threads of its own
    "client/blocking.py": ("asyncio.Runner", "penstock.world.real"),  # a client that brings its own loop
    "broker/real_start.py": ("penstock.world.real",),  # where the broker's world is put together
    "sim/disk_device.py": ("os",),  # the words for an error's number
    "sim/event_loop.py": ("socket",),  # the constants and exceptions that asyncio's users know
    "sim/network.py": ("socket",),
}

# A set may be given to these, or a generator over one: its order does not show.
ORDERLESS_CALLS = _words("all any bool frozenset isinstance len max min set sorted sum")
ORDERED_CALLS = _words("dict enumerate filter iter list map reversed tuple zip")
ORDERED_METHODS = _words("extend fromkeys join writelines")
SET_METHODS = _words("copy difference intersection symmetric_difference union")
SET_TYPES = _words("AbstractSet FrozenSet MutableSet frozenset set")
SET_OPERATORS = (ast.BitOr, ast.BitAnd, ast.BitXor, ast.Sub)


class Violation(NamedTuple):
    """One line that breaks the rule."""

    path: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}"


def check_tree(package: Path) -> list[Violation]:
    """Everything wrong in a package's source."""
    found: list[Violation] = []
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package).as_posix()
        if name.partition("/")[0] not in (*FREE_PACKAGES, "__main__.py"):
            found += check_source(name, path.read_text())
    return found


def check_source(name: str, source: str) -> list[Violation]:
    """Everything wrong in one module; `name` is its path inside the package."""
    tree = ast.parse(source)
    checker = _Checker(name, _set_attributes(tree))
    checker.visit(tree)
    return sorted(checker.found)


class _Checker(ast.NodeVisitor):
    def __init__(self, name: str, set_attributes: set[str]) -> None:
        self.found: list[Violation] = []
        self._name = name
        self._exceptions = EXCEPTIONS.get(name, ())
        self._pure = name.partition("/")[0] in PURE_PACKAGES
        self._simulation = name.partition("/")[0] == SIMULATION
        self._modules: dict[str, str] = {}  # local name → the module it stands for
        self._set_attributes = set_attributes
        self._scopes: list[dict[str, bool]] = [{}]  # name → whether it is a set

    def _report(self, node: ast.AST, what: str) -> None:
        self.found.append(Violation(self._name, getattr(node, "lineno", 0), what))

    # Imports and what they bring.

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._check_module(node, alias.name)
            self._modules[alias.asname or alias.name.partition(".")[0]] = alias.name

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        self._check_module(node, module)
        for alias in node.names:
            self._modules[alias.asname or alias.name] = f"{module}.{alias.name}"
            self._check_name(node, module, alias.name)
            if module == "penstock.world":
                self._check_module(node, f"{module}.{alias.name}")

    def _check_module(self, node: ast.AST, module: str) -> None:
        top = module.partition(".")[0]
        if self._simulation and top == "random":
            return  # which of its names, `_check_name` looks at
        if top in OUTSIDE_MODULES and module not in self._exceptions:
            self._report(node, f"imports {module}: only world/ may")
        elif top == "kazoo" and "kazoo" not in self._exceptions:
            self._report(node, "imports kazoo: only cluster/zookeeper.py may")
        elif top == "asyncio" and self._pure:
            self._report(node, f"imports {module}: a pure package has no loop")
        elif module.startswith("penstock.world.real") and "penstock.world.real" not in self._exceptions:
            self._report(node, f"imports {module}: only those who put a world together may")

    def _check_name(self, node: ast.AST, module: str, name: str) -> None:
        """A name of a module, imported or looked up."""
        full = f"{module}.{name}"
        if module == "random" and name != "Random":
            self._report(node, f"uses {full}: chance comes from the seed")
        if self._simulation:
            return
        if module == "asyncio" and name not in ASYNCIO_ALLOWED and full not in self._exceptions:
            self._report(node, f"uses {full}: the world's loop does that")
        if full == "io.open":
            self._report(node, "opens a file: the world's disk does that")

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if isinstance(node.value, ast.Name):
            self._check_name(node, self._modules.get(node.value.id, ""), node.attr)
        if node.attr in LOOP_METHODS and node.attr not in self._exceptions:
            self._report(node, f"uses {node.attr}: the world's work does that")
        if node.attr in CLOCK_METHODS and ast.unparse(node.value).rpartition(".")[2] in ("datetime", "date"):
            self._report(node, f"reads the clock with {ast.unparse(node)}: time comes from the world's loop")
        self.generic_visit(node)

    # Calls.

    def visit_Call(self, node: ast.Call) -> None:
        function = node.func
        if self._is_asyncio_wait(ast.Await(node)) and any(word.arg == "timeout" for word in node.keywords):
            self._report(node, "uses asyncio.wait with a timeout: time comes from the world's loop")
        if isinstance(function, ast.Name):
            self._check_plain_call(node, function.id)
        elif isinstance(function, ast.Attribute):
            self._check_method_call(node, function)
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                self._check_order(argument, argument.value, "unpacked")
        if isinstance(function, ast.Name) and function.id in ORDERLESS_CALLS:
            self._visit_orderless(node)
        else:
            self.generic_visit(node)

    def _check_plain_call(self, node: ast.Call, name: str) -> None:
        if name == "open":
            self._report(node, "opens a file: the world's disk does that")
        elif self._modules.get(name) == "random.Random" and not node.args:
            self._report(node, "calls Random(): without a seed it is another one in every process")
        elif name in ("__import__", "hash"):
            self._report(
                node, f"calls {name}(): its result differs from process to process, or hides an import"
            )
        elif name in ORDERED_CALLS:
            for argument in node.args:
                self._check_order(node, argument, f"given to {name}()")

    def _check_method_call(self, node: ast.Call, function: ast.Attribute) -> None:
        if ast.unparse(function) == "random.Random" and not node.args:
            self._report(node, "calls random.Random(): without a seed it is another one in every process")
        if function.attr in ORDERED_METHODS:
            for argument in node.args:
                self._check_order(node, argument, f"given to {function.attr}()")
        if function.attr == "pop" and not node.args and self._is_set(function.value):
            self._report(node, f"takes any element of a set: {ast.unparse(function.value)}")

    def _visit_orderless(self, node: ast.Call) -> None:
        for argument in node.args:
            if isinstance(argument, ast.GeneratorExp | ast.ListComp):
                self._visit_comprehension(argument, ordered=False)
            else:
                self.visit(argument)
        for keyword in node.keywords:
            self.visit(keyword.value)

    # Sets whose order would show.

    def _check_order(self, node: ast.AST, expression: ast.expr, how: str) -> None:
        if self._is_set(expression):
            self._report(node, f"a set's order shows: {ast.unparse(expression)} is {how} without sorted()")

    def _is_set(self, node: ast.expr) -> bool:
        match node:
            case ast.Set() | ast.SetComp():
                return True
            case ast.Call(func=ast.Name(id="set" | "frozenset")):
                return True
            case ast.Call(func=ast.Attribute(value=value, attr=method)):
                return method in SET_METHODS and self._is_set(value)
            case ast.BinOp(left=left, op=operator, right=right):
                return isinstance(operator, SET_OPERATORS) and (self._is_set(left) or self._is_set(right))
            case ast.IfExp(body=body, orelse=orelse):
                return self._is_set(body) or self._is_set(orelse)
            case ast.Name(id=name):
                return next((scope[name] for scope in reversed(self._scopes) if name in scope), False)
            case ast.Attribute(attr=name):
                return name in self._set_attributes
        return False

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self._check_order(node, node.iter, "iterated over")
        self.generic_visit(node)

    visit_AsyncFor = visit_For

    def visit_YieldFrom(self, node: ast.YieldFrom) -> None:
        self._check_order(node, node.value, "iterated over")
        self.generic_visit(node)

    def visit_List(self, node: ast.List | ast.Tuple) -> None:
        for element in node.elts:
            if isinstance(element, ast.Starred):
                self._check_order(node, element.value, "unpacked")
        self.generic_visit(node)

    visit_Tuple = visit_List

    def visit_ListComp(self, node: ast.ListComp | ast.GeneratorExp | ast.DictComp) -> None:
        self._visit_comprehension(node, ordered=True)

    visit_GeneratorExp = visit_ListComp
    visit_DictComp = visit_ListComp

    def visit_SetComp(self, node: ast.SetComp) -> None:
        self._visit_comprehension(node, ordered=False)

    def _visit_comprehension(
        self, node: ast.ListComp | ast.GeneratorExp | ast.DictComp | ast.SetComp, *, ordered: bool
    ) -> None:
        if ordered:
            for generator in node.generators:
                self._check_order(generator.iter, generator.iter, "iterated over")
        self.generic_visit(node)

    # Names that stand for sets.

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        self._scopes.append({argument.arg: _is_set_annotation(argument.annotation) for argument in arguments})
        self.generic_visit(node)
        self._scopes.pop()

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._scopes.append({argument.arg: False for argument in node.args.args})
        self.generic_visit(node)
        self._scopes.pop()

    def visit_Assign(self, node: ast.Assign) -> None:
        self.generic_visit(node)
        for target in node.targets:
            match target:
                case ast.Name(id=name):
                    self._scopes[-1][name] = self._is_set(node.value)
                case ast.Tuple(elts=parts) if self._is_asyncio_wait(node.value):
                    self._scopes[-1] |= {part.id: True for part in parts if isinstance(part, ast.Name)}

    def _is_asyncio_wait(self, node: ast.expr) -> bool:
        """`asyncio.wait` answers two sets, of what is done and what is not."""
        match node:
            case ast.Await(value=ast.Call(func=ast.Attribute(value=ast.Name(id=module), attr="wait"))):
                return self._modules.get(module) == "asyncio"
            case ast.Await(value=ast.Call(func=ast.Name(id=name))):
                return self._modules.get(name) == "asyncio.wait"
        return False

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.generic_visit(node)
        if isinstance(node.target, ast.Name):
            self._scopes[-1][node.target.id] = _is_set_annotation(node.annotation)


def _is_set_annotation(annotation: ast.expr | None) -> bool:
    match annotation:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in SET_TYPES
        case ast.Subscript(value=value):
            return _is_set_annotation(value)
        case ast.BinOp(left=left, right=right):  # set[int] | None
            return _is_set_annotation(left) or _is_set_annotation(right)
        case ast.Constant(value=str(text)):
            return _is_set_annotation(ast.parse(text, mode="eval").body)
    return False


def _set_attributes(tree: ast.Module) -> set[str]:
    """The attributes that the module's classes annotate, or fill, as sets."""
    return {name for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for name in _set_fields(node)}


def _set_fields(node: ast.ClassDef) -> Iterator[str]:
    for part in ast.walk(node):
        match part:
            case ast.AnnAssign(target=ast.Attribute(attr=name), annotation=annotation):
                if _is_set_annotation(annotation):
                    yield name
            case ast.Assign(targets=[ast.Attribute(attr=name)], value=value):
                if isinstance(value, ast.Set | ast.SetComp) or _is_set_call(value):
                    yield name
    for part in node.body:
        match part:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
                if _is_set_annotation(annotation):
                    yield name
            case ast.FunctionDef(name=name, returns=returns, decorator_list=[ast.Name(id="property")]):
                if _is_set_annotation(returns):
                    yield name


def _is_set_call(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("set", "frozenset")
    )
