"""The page of `make run`: what it says, and how a browser shows it."""

import json
import math
import re
import subprocess
from html.parser import HTMLParser
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from app_logs.story_page import (
    ABOUT,
    WARM_UP_S,
    AlertLatency,
    Facts,
    alert_latencies,
    alerts_told,
    percentile,
    render_page,
)

from peers import tools
from penstock.spark.pipelines.project import read_project
from tests.spark.app_logs.story_facts import WRITING_SINCE_S, facts

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "app_logs"


class Page(HTMLParser):
    """The tables of a page, cell by cell, and its text by tag."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []
        self.said: list[tuple[str, str]] = []
        self._tag = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._tag = tag
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("th", "td"):
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag: str) -> None:
        self._tag = ""

    def handle_data(self, data: str) -> None:
        self.said.append((self._tag, data))
        if self._tag in ("th", "td"):
            self.tables[-1][-1][-1] += data

    def texts(self, *tags: str) -> list[str]:
        return [data for tag, data in self.said if tag in tags]


@pytest.fixture(scope="module")
def told() -> Facts:
    return facts()


@pytest.fixture(scope="module")
def page(told: Facts) -> Page:
    return Page(render_page(told))


def test_every_column_of_every_table_has_a_title(page: Page) -> None:
    assert len(page.tables) == 2
    for titles, *rows in page.tables:
        assert all(titles)
        assert {len(row) for row in rows} == {len(titles)}


def test_charts_and_tables_tell_the_time_of_one_clock(page: Page) -> None:
    assert [each for each in page.texts("p") if "All times are CEST." in each]
    alerts = page.tables[0]
    assert alerts[1][2] == "14:10:28", "the clock of the page, though alerts have their times in UTC"
    ticks = [each for each in page.texts("text") if re.fullmatch(r"\d\d:\d\d(:\d\d)?", each)]
    assert ticks
    assert {each[:2] for each in ticks} == {"14"}
    assert not [each for _, each in page.said if "UTC" in each]


def test_durations_are_told_in_units_that_people_use(page: Page) -> None:
    said = " ".join(data for _, data in page.said)
    assert not re.search(r"\d,\d{3} ms|\d{4,} ms|\d k\b", said)
    assert "1.9 s" in page.tables[1][1]


def test_every_flow_is_explained_and_has_plots_of_its_own(page: Page) -> None:
    assert page.texts("h3") == list(ABOUT)
    assert set(ABOUT.values()) <= set(page.texts("p"))
    assert page.texts("figcaption").count("lag, in records") == len(ABOUT)


def test_the_flows_that_are_explained_are_those_of_the_project() -> None:
    assert list(ABOUT) == list(read_project(EXAMPLE).flows)


def test_java_that_compiles_quickly_only_has_room_for_what_it_compiles() -> None:
    """Else it has 48 MB, which six flows fill within a minute, and then it compiles nothing more."""
    options = read_project(EXAMPLE).spark["spark.driver.extraJavaOptions"].split()
    assert "-XX:TieredStopAtLevel=1" in options
    assert "-XX:ReservedCodeCacheSize=240m" in options


def test_batches_of_the_flows_that_can_wait_seldom_begin_together() -> None:
    """Spark begins batches at multiples of the interval: those of two flows coincide at common multiples alone."""
    flows = read_project(EXAMPLE).flows
    intervals_s = [
        int(flows[name].trigger.removesuffix(" seconds"))
        for name in ("bi", "traces", "call_graph", "dead_letters")
    ]
    assert min(intervals_s) >= 5
    assert all(math.gcd(*pair) == 1 for pair in combinations(intervals_s, 2))


def test_an_alert_counts_once_however_many_windows_tell_of_it(told: Facts, page: Page) -> None:
    assert len(told.alerts) == 10, "windows, with one from before the story"
    assert len(alerts_told(told)) == 3
    assert "alerts, 0 of them ongoing" in page.texts("")
    assert page.texts("b")[2] == "3"
    assert len(page.tables[0]) == 1 + 3


def test_the_latency_of_alerts_is_shown_over_time_and_summed_up_without_the_warm_up(told: Facts) -> None:
    latencies = alert_latencies(told)
    page = Page(render_page(told))

    assert latencies[0].latency_s == 40.0
    assert percentile(latencies, 0.95, since_s=WRITING_SINCE_S) == 40.0
    assert percentile(latencies, 0.95, since_s=WRITING_SINCE_S + WARM_UP_S) == pytest.approx(3.3)
    assert any(each.startswith("event to alert") for each in page.texts("figcaption"))
    assert page.texts("b")[4] == "3.3 s"
    assert [each for each in page.texts("") if "counted from 30 s after the services began to write" in each]


def test_latencies_count_from_when_the_services_began_to_write(told: Facts) -> None:
    later = told._replace(writing_since_s=60.0)
    before = told._replace(writing_since_s=None)

    assert min(each.elapsed_s for each in alert_latencies(later)) > 60.0
    assert alert_latencies(before) == []
    assert Page(render_page(before)).texts("b")[4] == "-"


def test_a_percentile_of_latencies_counts_events_and_not_batches() -> None:
    quick = [AlertLatency(60.0 + number, 1.0, 10) for number in range(99)]
    slow = AlertLatency(200.0, 20.0, 1_000)

    assert percentile([*quick, slow], 0.95, since_s=30.0) == 20.0
    assert percentile(quick, 0.95, since_s=30.0) == 1.0
    assert percentile([AlertLatency(5.0, 40.0, 10)], 0.95, since_s=30.0) is None, "all of it warming up"


def test_a_page_of_a_story_that_has_just_begun_says_that_there_is_nothing_yet() -> None:
    assert "nothing yet" in render_page(facts(is_running=True, seconds=0)._replace(alerts=[], call_graph=[]))


MEASURE = """<script>
const wide = [...document.querySelectorAll("main *")].filter(
  each => each.getBoundingClientRect().right > document.documentElement.clientWidth + 0.5
    || (each instanceof HTMLElement && each.clientWidth > 0 && each.scrollWidth > each.clientWidth + 1));
const texts = [...document.querySelectorAll("svg text")].map(each => each.getBoundingClientRect().height);
const labels = [...document.querySelectorAll("svg text")].map(each => {
  const box = each.getBoundingClientRect(), svg = each.ownerSVGElement.getBoundingClientRect();
  return box.left < svg.left - 1 || box.right > svg.right + 1 ? each.textContent : ""; }).filter(each => each);
const found = {
  width: document.documentElement.clientWidth, scroll: document.documentElement.scrollWidth,
  wide: wide.map(each => each.tagName + " " + each.className + " " + each.textContent.slice(0, 40)),
  smallest: Math.min(...texts), cut: labels, columns: [...document.querySelectorAll("table")].map(
    table => [...table.rows].map(row => [...row.cells].length)) };
document.title = "measured"; document.body.innerHTML = "<pre>" + JSON.stringify(found) + "</pre>";
</script>"""


def measured(page: str, folder: Path, width: int) -> dict[str, Any]:
    """The page in a browser whose window has that width, and what a script in it measured."""
    file = folder / "page.html"
    file.write_text(page.replace("</body>", f"{MEASURE}</body>"), encoding="utf-8")
    # In a frame of that width: the windows of some versions are never narrower than 500.
    outer = folder / "outer.html"
    outer.write_text(
        f'<iframe src="page.html" width="{width}" height="800" style="border:0" onload="setTimeout(() => '
        'document.body.innerHTML = frames[0].document.body.innerHTML)"></iframe>',
        encoding="utf-8",
    )
    command = [
        str(tools.locate("chromium")),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
    ]
    command += ["--allow-file-access-from-files", f"--user-data-dir={folder / 'profile'}"]
    command += ["--virtual-time-budget=10000", "--dump-dom", outer.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=True)
    found = re.search(r"<pre>(\{.*?\})</pre>", done.stdout, re.DOTALL)
    assert found is not None, done.stdout[:2000] + done.stderr[-2000:]
    result: dict[str, Any] = json.loads(
        found[1].replace("&gt;", ">").replace("&lt;", "<").replace("&amp;", "&")
    )
    return result


@pytest.mark.needs("chromium")
@pytest.mark.parametrize("width", [390, 1280])
def test_a_browser_shows_all_of_the_page_in_the_width_of_a_phone_and_of_a_desk(
    told: Facts, tmp_path: Path, width: int
) -> None:
    found = measured(render_page(told), tmp_path, width)

    assert found["width"] == width
    assert found["scroll"] == width, "nothing makes the page scroll sideways"
    assert found["wide"] == []
    assert found["cut"] == [], "no label is cut off"
    assert found["smallest"] >= 10, "the smallest letters of plots can be read"
    assert all(len(set(rows)) == 1 for rows in found["columns"])
