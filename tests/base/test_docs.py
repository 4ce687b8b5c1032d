"""The pages in docs/ that are rendered from code."""

import pytest

from tools.render_docs import DOCS, PAGES


@pytest.mark.parametrize("name", PAGES)
def test_the_rendered_page_is_up_to_date(name):
    assert (DOCS / name).read_text() == PAGES[name](), "run: python tools/render_docs.py"
