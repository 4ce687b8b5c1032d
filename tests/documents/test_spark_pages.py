"""The blocks of README and docs that need Spark run as written."""

from pathlib import Path

import pytest

from tests.documents.blocks import COMMANDS, PAGES, PYTHON, chosen
from tests.documents.running import pages_with, run_commands, run_python

pytestmark = pytest.mark.xdist_group("spark")


def test_the_python_of_all_pages_runs_in_one_session(tmp_path: Path) -> None:
    run_python([page for page in PAGES if chosen(page, PYTHON, spark=True)], tmp_path, spark=True)


@pytest.mark.parametrize("page", pages_with(COMMANDS, spark=True))
def test_the_commands_of_a_page_run(page: str, tmp_path: Path) -> None:
    run_commands(page, tmp_path, spark=True)
