"""Plots: that they parse, that what is in them is in the data, and that nothing comes from outside."""

import re
from xml.etree import ElementTree

import pytest

from penstock.spark.pipelines.charts import Edge, Series, Span, graph, html_table, line_chart, span_chart


def parsed(html: str) -> ElementTree.Element:
    return ElementTree.fromstring(f"<body>{html}</body>")


def test_a_line_chart_has_a_line_and_a_legend_entry_per_series() -> None:
    page = parsed(
        line_chart(
            "lag", [Series("a & b", [(0, 0), (5, 50)], 0), Series("c", [(0, 10), (5, 0)], 1)], unit="rows"
        )
    )

    assert [each.text for each in page.iter("title")] == ["a & b", "c"]
    assert ["".join(each.itertext()) for each in page.iter("span")] == ["a & b", "c"]


def test_higher_values_are_drawn_higher_and_later_ones_further_right() -> None:
    page = parsed(line_chart("lag", [Series("a", [(0, 0), (5, 50), (10, 20)], 0)], unit="rows"))

    (path,) = page.iter("path")
    points = [tuple(map(float, point)) for point in re.findall(r"[ML]([\d.]+),([\d.]+)", path.attrib["d"])]
    assert points[0][0] < points[1][0] < points[2][0]
    assert points[1][1] < points[2][1] < points[0][1]


def test_a_burst_survives_thinning() -> None:
    quiet = [(float(second), 1.0) for second in range(10_000)]
    quiet[7_777] = (7_777.0, 1_000.0)

    (path,) = parsed(line_chart("rate", [Series("a", quiet, 0)], unit="rows")).iter("path")

    heights = [float(y) for _, y in re.findall(r"[ML]([\d.]+),([\d.]+)", path.attrib["d"])]
    assert len(heights) <= 600
    assert min(heights) == pytest.approx(12, abs=1)


def test_the_graph_draws_callers_left_of_those_they_call_and_circles_end() -> None:
    edges = [
        Edge("outside", "gateway", 10, "10"),
        Edge("gateway", "orders", 8, "8"),
        Edge("orders", "gateway", 1, "1", bad=True),
        Edge("orders", "orders", 1, "1"),
    ]

    page = parsed(graph("calls", edges))

    names = [each.text for each in page.iter("text") if each.attrib.get("class") == "name"]
    places = [float(each.attrib["x"]) for each in page.iter("rect")]
    by_name = dict(zip(names, places, strict=True))
    assert by_name["outside"] < by_name["gateway"] < by_name["orders"]
    assert sum("marker-end" in each.attrib for each in page.iter("path")) == 4


def test_spans_are_drawn_from_their_beginning_to_their_end() -> None:
    page = parsed(span_chart("alerts", [Span("payments", 10, 20, "60 %")], end_s=40))

    (rect,) = page.iter("rect")
    begin, width = float(rect.attrib["x"]), float(rect.attrib["width"])
    assert begin - 200 == pytest.approx(width, abs=0.2), "a quarter before it, a quarter wide"


@pytest.mark.parametrize(
    "html",
    [line_chart("x", [], unit="rows"), span_chart("x", [], end_s=1), graph("x", [])],
)
def test_a_chart_without_data_says_so(html: str) -> None:
    assert "nothing yet" in html


def test_what_others_wrote_is_text_and_no_markup() -> None:
    evil = "<script>alert(1)</script>"
    html = (
        html_table(["a"], [[evil]], text_columns=1)
        + line_chart(evil, [Series(evil, [(0, 1)], 0)], unit=evil)
        + span_chart(evil, [Span(evil, 0, 1, evil)], end_s=1)
        + graph(evil, [Edge(evil, "b", 1, evil)])
    )

    assert "<script" not in html
