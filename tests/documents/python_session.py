"""Runs the Python of pages: `python -m tests.documents.python_session PORT PAGE...`, in the directory it may write to.

The blocks of a page share their names, as one program would. Errors name the page and the line. Tests that a block
defines are called, and streams that it starts have to read all there is. With `--spark` before the port the blocks run
that are given `spark`, in one session for all pages, and without it the others. `topic(name, *values)` is there for
`before` comments.
"""

import ast
import linecache
import sys
from typing import Any

from tests.documents.addresses import at_port
from tests.documents.blocks import PYTHON, Block, chosen


def main(port: int, pages: list[str], *, with_spark: bool) -> None:
    spark = _session() if with_spark else None
    for page in pages:
        names: dict[str, Any] = {"__name__": page, "spark": spark, "topic": lambda *of: _topic(port, *of)}
        for block in chosen(page, PYTHON, spark=with_spark):
            _run(block, port, names)
            print(block.place, "ran")
        if spark is not None:
            for query in spark.streams.active:
                query.processAllAvailable()
                query.stop()
    if spark is not None:
        spark.stop()


def _run(block: Block, port: int, names: dict[str, Any]) -> None:
    for line in block.before:
        exec(compile(at_port(line, port), f"{block.place} (before)", "exec"), names)
    text = "\n" * (block.line - 1) + at_port(block.text, port)
    linecache.cache[block.page] = (len(text), None, text.splitlines(keepends=True), block.page)
    tree = ast.parse(text, block.page)
    exec(compile(tree, block.page, "exec"), names)
    for each in tree.body:
        if isinstance(each, ast.FunctionDef) and each.name.startswith("test_"):
            names[each.name]()


def _session() -> Any:
    from pyspark.sql import SparkSession

    from tests.spark.conftest import CONFIGURATION

    builder = SparkSession.builder.master("local[2]")
    for name, value in CONFIGURATION.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _topic(port: int, name: str, *values: str) -> None:
    from tests.spark.writing import Topics

    topics = Topics(f"127.0.0.1:{port}")
    topics.create(name)
    if values:
        topics.write_values(name, list(values))


if __name__ == "__main__":
    with_spark = sys.argv[1] == "--spark"
    port, *pages = sys.argv[1 + with_spark :]
    main(int(port), pages, with_spark=with_spark)
