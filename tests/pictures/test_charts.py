"""Charts: that they are whole, and that up is up."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from roost.pictures.charts import Chart, Series, draw

SVG = "{http://www.w3.org/2000/svg}"


def chart(*series: Series) -> Chart:
    return Chart(id="1", title="a < b & c", x="X", y="Y", series=series, doubling=True)


def test_a_chart_is_svg_with_a_mark_a_point_within_the_frame() -> None:
    drawn = draw(chart(Series("one", ((1, 5.0), (2, 0.0), (63, 9.5))), Series("two", ((1, -1.0),))))
    root = ET.fromstring(drawn)
    assert root.find(f"{SVG}title").text == "a < b & c"  # type: ignore[union-attr]
    told = [title.text for title in root.iter(f"{SVG}title")]
    assert told[1:] == ["one: 5 at 1", "one: 0 at 2", "one: 9.5 at 63", "two: -1 at 1"]
    width, height = (float(root.attrib[name]) for name in ("width", "height"))
    for line in root.iter(f"{SVG}polyline"):
        for point in line.attrib["points"].split():
            x, y = map(float, point.split(","))
            assert 0 < x < width
            assert 0 < y < height


def test_higher_is_up_and_doubling_is_even() -> None:
    root = ET.fromstring(draw(chart(Series("one", ((1, 1.0), (2, 2.0), (4, 3.0))))))
    (line,) = root.iter(f"{SVG}polyline")
    points = [point.split(",") for point in line.attrib["points"].split()]
    xs, ys = ([float(word) for word in words] for words in zip(*points, strict=True))
    assert xs[1] - xs[0] == pytest.approx(xs[2] - xs[1], abs=0.2)
    assert ys[0] > ys[1] > ys[2]


def test_a_chart_without_figures_says_so() -> None:
    assert "no figures" in draw(chart(Series("one", ())))
