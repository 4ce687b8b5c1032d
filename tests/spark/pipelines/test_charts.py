"""Plots: that they parse, that what is in them is in the data, and that nothing comes from outside."""

import re
from datetime import UTC, datetime
from xml.etree import ElementTree

import pytest

from penstock.spark.pipelines.charts import (
    WIDTH,
    Edge,
    Frame,
    Span,
    graph,
    html_table,
    line_chart,
    span_chart,
)
from penstock.spark.pipelines.units import COUNT, DURATION

FRAME = Frame(datetime(2026, 7, 1, 14, 9, 28, tzinfo=UTC), 40.0)


def parsed(html: str) -> ElementTree.Element:
    return ElementTree.fromstring(f"<body>{html}</body>")


def texts(page: ElementTree.Element, tag: str = "text") -> list[str]:
    return [each.text or "" for each in page.iter(tag)]


def line_of(page: ElementTree.Element) -> list[tuple[float, float]]:
    (path,) = [each for each in page.iter("path") if each.attrib.get("class") == "line"]
    return [(float(x), float(y)) for x, y in re.findall(r"[ML]([\d.]+),([\d.]+)", path.attrib["d"])]


def test_a_chart_has_one_line_and_a_caption() -> None:
    page = parsed(line_chart("lag of a & b", [(0, 0), (5, 50)], frame=FRAME, unit=COUNT))

    assert texts(page, "figcaption") == ["lag of a & b"]
    assert len(line_of(page)) == 2


def test_higher_values_are_drawn_higher_and_later_ones_further_right() -> None:
    points = line_of(parsed(line_chart("lag", [(0, 0), (5, 50), (10, 20)], frame=FRAME, unit=COUNT)))

    assert points[0][0] < points[1][0] < points[2][0]
    assert points[1][1] < points[2][1] < points[0][1]


def test_charts_that_are_given_the_same_largest_value_have_one_scale() -> None:
    small, large = (
        parsed(line_chart("lag", [(0, 0), (5, value)], frame=FRAME, unit=COUNT, largest=1_000))
        for value in (100, 1_000)
    )

    assert texts(small) == texts(large)
    assert line_of(small)[1][1] > line_of(large)[1][1]


def test_every_point_tells_its_time_and_value_when_it_is_pointed_at() -> None:
    page = parsed(line_chart("batches", [(0, 0.4), (5, 40)], frame=FRAME, unit=DURATION))

    assert texts(page, "title") == ["14:09:28: 400 ms", "14:09:33: 40 s"]
    places = [each for each in page.iter("rect") if each.attrib["class"] == "place"]
    assert len(places) == 2


def test_the_axis_tells_durations_in_seconds_and_not_in_thousands_of_milliseconds() -> None:
    told = texts(parsed(line_chart("batches", [(0, 0), (5, 40)], frame=FRAME, unit=DURATION)))

    assert {"0 s", "20 s", "40 s"} <= set(told)
    assert not [each for each in told if " k" in each]


def test_times_are_those_of_the_clock_at_round_moments() -> None:
    assert FRAME.ticks() == [(2.0, "14:09:30"), (12.0, "14:09:40"), (22.0, "14:09:50"), (32.0, "14:10:00")]
    minutes = Frame(FRAME.began_at, 400.0).ticks()
    assert [told for _, told in minutes] == ["14:10", "14:12", "14:14", "14:16"]


def test_a_limit_is_drawn_inside_the_chart() -> None:
    page = parsed(line_chart("latency", [(0, 1), (5, 2)], frame=FRAME, unit=DURATION, limit=5.0))

    (drawn,) = [each for each in page.iter("line") if "stroke-dasharray" in each.attrib]
    assert 10 <= float(drawn.attrib["y1"]) < min(y for _, y in line_of(page))


def test_a_burst_survives_thinning() -> None:
    quiet = [(float(second), 1.0) for second in range(10_000)]
    quiet[7_777] = (7_777.0, 1_000.0)

    page = parsed(line_chart("rate", quiet, frame=Frame(FRAME.began_at, 10_000.0), unit=COUNT))

    heights = [y for _, y in line_of(page)]
    assert len(heights) <= 300
    assert min(heights) == pytest.approx(10, abs=1)
    assert len(texts(page, "title")) <= 60


def boxes(page: ElementTree.Element) -> dict[str, tuple[float, float, float, float]]:
    """Where each box of a graph is: left, top, right, bottom."""
    names = [each.text or "" for each in page.iter("text") if each.attrib.get("class") == "name"]
    places = [
        tuple(float(each.attrib[name]) for name in ("x", "y", "width", "height"))
        for each in page.iter("rect")
    ]
    return {
        name: (x, y, x + width, y + height) for name, (x, y, width, height) in zip(names, places, strict=True)
    }


def test_the_graph_draws_callers_above_those_they_call_and_circles_end() -> None:
    edges = [
        Edge("outside", "gateway", 10, "10"),
        Edge("gateway", "orders", 8, "8"),
        Edge("orders", "gateway", 1, "1", bad=True),
        Edge("orders", "orders", 1, "1"),
    ]

    page = parsed(graph("calls", edges))

    found = boxes(page)
    assert found["outside"][1] < found["gateway"][1] < found["orders"][1]
    assert sum("marker-end" in each.attrib for each in page.iter("path")) == 4


def test_the_labels_of_a_graph_lie_in_boxes_that_do_not_overlap_and_fit_the_width() -> None:
    callees = [f"service-{number}" for number in range(8)]
    edges = [Edge("gateway", name, 10, f"1,000 at {name[-1]} ms") for name in callees]
    edges += [Edge(caller, "database", 5, "500 at 12 ms") for caller in callees]

    page = parsed(graph("calls", edges))

    found = list(boxes(page).values())
    for number, one in enumerate(found):
        assert one[0] >= 0
        assert one[2] <= WIDTH
        for other in found[:number]:
            apart = one[0] >= other[2] or other[0] >= one[2] or one[1] >= other[3] or other[1] >= one[3]
            assert apart, (one, other)
    for label in page.iter("text"):
        x, y = float(label.attrib["x"]), float(label.attrib["y"])
        holding = [box for box in found if box[0] <= x <= box[2] and box[1] <= y <= box[3]]
        assert len(holding) == 1, label.text
        assert x + 6.2 * len(label.text or "") <= holding[0][2], f"{label.text} is wider than its box"
    assert "from service-3:" in texts(page), "who calls is named where there are several"


def test_spans_are_drawn_from_their_beginning_to_their_end_and_not_beyond() -> None:
    spans = [Span("payments", 10, 20, "60 %"), Span("orders", -5, 90, "1 s")]
    page = parsed(span_chart("alerts", spans, frame=FRAME))

    orders, payments = ((float(each.attrib["x"]), float(each.attrib["width"])) for each in page.iter("rect"))
    assert payments[0] - orders[0] == pytest.approx(payments[1], abs=0.2), (
        "a quarter before it, a quarter wide"
    )
    assert orders[1] == pytest.approx(4 * payments[1], abs=0.2), "all of the time that is shown"


@pytest.mark.parametrize(
    "html",
    [line_chart("x", [], frame=FRAME, unit=COUNT), span_chart("x", [], frame=FRAME), graph("x", [])],
)
def test_a_chart_without_data_says_so(html: str) -> None:
    assert "nothing yet" in html


def test_what_others_wrote_is_text_and_no_markup() -> None:
    evil = "<script>alert(1)</script>"
    html = (
        html_table(["a"], [[evil]], text_columns=1)
        + line_chart(evil, [(0, 1)], frame=FRAME, unit=COUNT)
        + span_chart(evil, [Span(evil, 0, 1, evil)], frame=FRAME)
        + graph(evil, [Edge(evil, "b", 1, evil)])
    )

    assert "<script" not in html
