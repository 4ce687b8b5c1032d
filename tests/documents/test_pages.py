"""Every block of README and docs runs as written, or says why it cannot; with Spark: `test_spark_pages.py`."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from penstock.cli.command_config import read_security
from penstock.spark.pipelines.project import read_project
from tests.documents.addresses import at_port
from tests.documents.blocks import COMMANDS, DATA, LISTING, PAGES, PYTHON, ROOT, Block, blocks_of, read
from tests.documents.running import pages_with, run_commands, run_python
from tests.documents.shell import without_comment

BLOCKS = [block for page in PAGES for block in blocks_of(page)]
NOT_RUN = [block for block in BLOCKS if block.not_run]


@pytest.mark.parametrize("page", pages_with(PYTHON, spark=False))
def test_the_python_of_a_page_runs(page: str, tmp_path: Path) -> None:
    run_python([page], tmp_path, spark=False)


@pytest.mark.parametrize("page", pages_with(COMMANDS, spark=False))
def test_the_commands_of_a_page_run(page: str, tmp_path: Path) -> None:
    run_commands(page, tmp_path, spark=False)


@pytest.mark.parametrize(
    "block", [block for block in BLOCKS if block.kind == DATA], ids=lambda block: block.place
)
def test_a_file_that_a_page_shows_is_read_by_what_reads_such_files(block: Block, tmp_path: Path) -> None:
    assert not block.before
    if block.language == "properties":
        file = tmp_path / "client.properties"
        file.write_text(block.text)
        read_security(str(file))
        return
    assert tomllib.loads(block.text)
    (tmp_path / "pipeline.toml").write_text(block.text)
    assert read_project(tmp_path).flows


def test_a_block_that_is_not_run_has_a_reason() -> None:
    assert [block.place for block in NOT_RUN if len(block.not_run.split()) < 4] == []
    assert [block.place for block in NOT_RUN if block.before or block.given] == []


def test_most_blocks_are_run() -> None:
    """Those that are not are these; another one is added here, in the same change, by who has a reason."""
    assert sorted({block.page for block in NOT_RUN}) == [
        "CONTRIBUTING.md",
        "README.md",
        "docs/client-security.md",
        "docs/cluster.md",
        "docs/pipelines.md",
        "docs/simulation.md",
        "examples/app_logs/README.md",
    ]
    assert len(NOT_RUN) * 2 < len([block for block in BLOCKS if block.kind != LISTING])


def test_a_listing_holds_no_commands() -> None:
    """Else a block could leave the test by the name of its language."""
    command = re.compile(r"^\$? ?(penstock|pip|python|make|kafka-\w+|spark-\w+) ", re.MULTILINE)
    assert [block.place for block in BLOCKS if block.kind == LISTING and command.search(block.text)] == []


def test_code_is_in_fences() -> None:
    """Blocks that are only indented would not be found."""
    indented = re.compile(r"\n\n {4}(?! *[-*|\d])\S")
    for page in PAGES:
        outside = re.sub(r"^( *)```.*?^ *```$", "", (ROOT / page).read_text(), flags=re.DOTALL | re.MULTILINE)
        assert not indented.search(outside), page


def test_every_make_target_that_a_block_names_exists() -> None:
    named = {
        target
        for block in BLOCKS
        if block.kind == COMMANDS
        for target in re.findall(r"^make (\w+)", block.text, re.MULTILINE)
    }
    assert {"run", "test", "tools"} <= named
    for target in named:
        subprocess.run(["make", "-n", target], cwd=ROOT, check=True, capture_output=True, timeout=60)


def test_comments_above_a_block_are_about_it() -> None:
    text = "<!-- given: broker -->\n<!-- before: x = 1 -->\n```python\nprint(x)\n```\n\n```text\nwords\n```\n"
    first, second = read("page.md", text)

    assert (first.line, first.given, first.before, first.kind) == (4, {"broker"}, ("x = 1",), PYTHON)
    assert (second.given, second.before, second.kind) == (frozenset(), (), LISTING)


@pytest.mark.parametrize(
    "text", ["```cobol\nx\n```", "<!-- given: luck -->\n```\nx\n```", "```\nwithout an end"]
)
def test_a_block_that_cannot_be_understood_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"page\.md:"):
        read("page.md", text)


def test_the_port_is_all_that_changes() -> None:
    assert at_port("penstock topic list -b localhost:9092", 7) == "penstock topic list -b 127.0.0.1:7"
    assert (
        at_port("penstock serve --data-dir data", 7) == "penstock serve --listen 127.0.0.1:7 --data-dir data"
    )
    assert at_port("penstock serve --listen 127.0.0.1:9092", 7) == "penstock serve --listen 127.0.0.1:7"
    assert at_port("penstock topic create orders", 7) == "penstock topic create orders"


def test_comments_of_commands_are_left_out() -> None:
    assert (
        without_comment("penstock produce orders --key '#'   # one # more")
        == "penstock produce orders --key '#'"
    )
