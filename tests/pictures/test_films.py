"""Overlays that move: a page that needs nothing else, and the same pictures where nothing moves."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

from roost.pictures.films import Film, Frame, draw_frame, film_page

FILM = Film(
    "a <film>",
    ("B0", "B1", "B2", "B3"),
    {"B0": "relay", "B1": "publisher", "B2": "subscriber", "B3": "subscriber"},
    "B1",
    (
        Frame("before", {("B0", "B1"): 5, ("B0", "B2"): 5, ("B0", "B3"): 5}),
        Frame("during", {("B0", "B1"): 5, ("B1", "B2"): 5, ("B0", "B3"): 5}),
        Frame("after", {("B0", "B1"): 0, ("B1", "B2"): 5, ("B1", "B3"): 5}),
    ),
)


def test_a_picture_has_all_brokers_and_links() -> None:
    root = ElementTree.fromstring(draw_frame(FILM, 0))
    names = {"circle": 4, "line": 3}
    for tag, count in names.items():
        assert len(root.findall(f".//{{http://www.w3.org/2000/svg}}{tag}")) == count
    widths = [line.get("stroke-width") for line in root.iter("{http://www.w3.org/2000/svg}line")]
    assert set(widths) == {"11.0"}
    last = ElementTree.fromstring(draw_frame(FILM, 2))
    assert "0.6" in [line.get("stroke-width") for line in last.iter() if line.get("stroke-width")]


def test_the_broker_in_the_middle_stays_there() -> None:
    places = []
    for number in range(3):
        drawn = draw_frame(FILM, number)
        match = re.search(r'cx="([\d.]+)" cy="([\d.]+)"[^>]*><title>B1', drawn)
        assert match is not None
        places.append(match.groups())
    assert len(set(places)) == 1


def test_the_page_has_the_films_and_asks_nobody_for_anything() -> None:
    page = film_page("title", "lead", [FILM, FILM])
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "src=" not in page
    data = re.search(r"const films = (\[.*\]);", page)
    assert data is not None
    films = json.loads(data.group(1))
    assert [frame["caption"] for frame in films[0]["frames"]] == ["before", "during", "after"]
    for frame in films[1]["frames"]:
        assert len(frame["at"]) == 4
        assert len(frame["links"]) == 3
    assert "a &lt;film&gt;" in page
    assert page.count("<figure") == 2 + 6
