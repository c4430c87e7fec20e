"""Pictures: well-formed, complete, and nothing in the way of anything else."""

from __future__ import annotations

import re
from itertools import combinations
from typing import NamedTuple
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.errors import UserError
from roost.overlay.topologies import Link, Topology, chain, parse_topology, roles, star
from roost.pictures.overlays import draw_svg, draw_text, summary

SVG = "{http://www.w3.org/2000/svg}"
SPECS = [
    "chain:1",
    "chain:2",
    "chain:12",
    "chain:90",
    "star:5",
    "star:33",
    "star:80",
    "tree:63",
    "tree:64",
    "tree:400:3",
    "peer:3x4",
    "peer:8x9:balanced",
    "random:60:1",
    "scale-free:200:1",
]

Place = tuple[float, float]
Line = tuple[Place, Place]


class Box(NamedTuple):
    """A broker in a picture."""

    name: str
    x: float
    y: float
    width: float
    height: float
    fill: str


def parsed(svg: str) -> Element:
    root = ElementTree.fromstring(svg)
    assert root.tag == f"{SVG}svg"
    return root


def boxes(root: Element) -> list[Box]:
    found = []
    for group in root.iter(f"{SVG}g"):
        if group.get("class") == "broker":
            place = re.fullmatch(r"translate\((\S+) (\S+)\)", group.get("transform", ""))
            rect, name = group.find(f"{SVG}rect"), group.findtext(f"{SVG}title")
            assert place is not None
            assert rect is not None
            assert name is not None
            width, height = float(rect.get("width", "")), float(rect.get("height", ""))
            x, y = map(float, place.groups())
            found.append(Box(name, x, y, width, height, rect.get("fill", "")))
    return found


def links(root: Element) -> list[Line]:
    """Both ends of each link."""
    found = []
    for line in root.iter(f"{SVG}line"):
        x1, y1, x2, y2 = (float(line.get(name, "")) for name in ("x1", "y1", "x2", "y2"))
        found.append(((x1, y1), (x2, y2)))
    return found


def cross(one: Line, other: Line) -> bool:
    """Whether two links cross; sharing an end, or touching by rounding, does not count."""

    def side(line: Line, place: Place) -> float:
        (x1, y1), (x2, y2) = line
        return (x2 - x1) * (place[1] - y1) - (y2 - y1) * (place[0] - x1)

    sides = [side(one, end) for end in other] + [side(other, end) for end in one]
    apart = min(map(abs, sides)) < 30 or sides[0] * sides[1] > 0 or sides[2] * sides[3] > 0
    return not apart


@pytest.mark.parametrize("spec", SPECS)
def test_every_broker_and_link_is_there_once(spec: str) -> None:
    topology = parse_topology(spec)
    root = parsed(draw_svg(topology, spec))
    drawn = boxes(root)
    assert [box.name for box in drawn] == list(topology.brokers)
    assert len({(box.x, box.y) for box in drawn}) == len(drawn)
    at = {(box.x, box.y): box.name for box in drawn}
    ends = {frozenset((at[one], at[other])) for one, other in links(root)}
    assert ends == {frozenset((link.a, link.b)) for link in topology.links}
    assert spec in [element.text for element in root.iter(f"{SVG}text")]


@given(st.sampled_from(["random", "scale-free"]), st.integers(1, 110), st.integers(0, 10**6))
def test_brokers_do_not_overlap(kind: str, n: int, seed: int) -> None:
    root = parsed(draw_svg(parse_topology(f"{kind}:{n}:{seed}")))
    for one, other in combinations(boxes(root), 2):
        beside = abs(one.x - other.x) >= (one.width + other.width) / 2
        above = abs(one.y - other.y) >= (one.height + other.height) / 2
        assert beside or above, (one, other)


@pytest.mark.parametrize("spec", SPECS)
def test_links_do_not_cross(spec: str) -> None:
    for one, other in combinations(links(parsed(draw_svg(parse_topology(spec)))), 2):
        assert not cross(one, other), (one, other)


@given(st.sampled_from(["random", "scale-free"]), st.integers(4, 33), st.integers(0, 10**6))
def test_no_link_between_ranks_passes_over_a_broker(kind: str, n: int, seed: int) -> None:
    root = parsed(draw_svg(parse_topology(f"{kind}:{n}:{seed}")))
    for (x1, y1), (x2, y2) in links(root):
        for box in boxes(root):
            for edge in (box.x - box.width / 2, box.x + box.width / 2):
                if min(x1, x2) < edge < max(x1, x2) and (box.x, box.y) not in {(x1, y1), (x2, y2)}:
                    y = y1 + (y2 - y1) * (edge - x1) / (x2 - x1)
                    assert abs(y - box.y) > box.height / 2


@pytest.mark.parametrize("spec", SPECS)
def test_all_is_on_the_page(spec: str) -> None:
    root = parsed(draw_svg(parse_topology(spec)))
    _, _, width, height = map(float, root.get("viewBox", "").split())
    tree = next(group for group in root.findall(f"{SVG}g") if group.get("class") != "legend")
    shift = re.fullmatch(r"translate\((\S+) (\S+)\)", tree.get("transform", ""))
    assert shift is not None
    left, top = map(float, shift.groups())
    for box in boxes(root):
        assert box.width / 2 < left + box.x < width - box.width / 2
        assert box.height / 2 < top + box.y < height - box.height / 2


def test_roles_differ_by_colour_and_are_explained() -> None:
    topology = parse_topology("peer:3x4")
    root = parsed(draw_svg(topology))
    fills = {role: set[str]() for role in ("head", "edge")}
    for box in boxes(root):
        role = roles(topology)[box.name]
        assert role is not None
        fills[role].add(box.fill)
    assert len(fills["head"]) == len(fills["edge"]) == len(fills["head"] | fills["edge"]) - 1
    texts = [element.text for element in root.iter(f"{SVG}text")]
    assert "cluster-head" in texts
    assert "edge-broker" in texts
    texts = [element.text for element in parsed(draw_svg(chain(2))).iter(f"{SVG}text")]
    assert "broker" in texts
    assert "cluster-head" not in texts


def test_latencies_are_written_where_they_are_known() -> None:
    topology = Topology(("A", "B", "C"), (Link("A", "B", 2.5), Link("C", "B")))
    for drawn in (draw_svg(topology), draw_text(topology)):
        assert drawn.count(" ms") == 1
        assert "2.5 ms" in drawn


def test_labels_of_many_brokers_are_left_out() -> None:
    assert ">B299</text>" in draw_svg(parse_topology("tree:300"))
    many = draw_svg(parse_topology("tree:301"))
    assert "<title>B299</title>" in many
    assert ">B299</text>" not in many


def test_odd_names() -> None:
    names = ("<&>", "a" * 200, 'say"', "nul\0\ud800")
    topology = Topology(names, tuple(Link(names[0], name) for name in names[1:]))
    root = parsed(draw_svg(topology, "<title> & \x07"))
    assert [box.name for box in boxes(root)] == [*names[:3], "nul\ufffd\ufffd"]
    assert root.findtext(f"{SVG}title") == "<title> & \ufffd"
    assert "a" * 13 + "…" in [element.text for element in root.iter(f"{SVG}text")]


def test_the_same_picture_every_time() -> None:
    topology = parse_topology("scale-free:100:3")
    assert draw_svg(topology, "x") == draw_svg(topology, "x")
    turned = Topology(
        topology.brokers, tuple(Link(link.b, link.a) for link in reversed(topology.links))
    )
    assert draw_text(turned) == draw_text(topology)


@pytest.mark.parametrize("draw", [draw_svg, draw_text])
def test_only_trees_are_drawn(draw: object) -> None:
    assert callable(draw)
    with pytest.raises(UserError, match="falls into 2 parts"):
        draw(Topology(("A", "B"), ()))


# --- text -----------------------------------------------------------------------------------------


def test_a_tree_of_lines() -> None:
    assert draw_text(parse_topology("tree:8")) == (
        "B0\n├── B1\n│   ├── B3\n│   │   └── B7\n│   └── B4\n└── B2\n    ├── B5\n    └── B6\n"
    )
    assert draw_text(chain(1)) == "B0\n"


def test_long_texts_are_cut() -> None:
    assert draw_text(star(1000)).count("\n") == 1000
    lines = draw_text(chain(100_000)).splitlines()
    assert len(lines) == 1001
    assert lines[-1] == "... and 99,000 brokers more"


def test_summaries() -> None:
    assert summary(chain(1)) == "1 broker, diameter 0"
    assert summary(chain(2)) == "2 brokers, diameter 1"
    assert summary(star(5)) == "5 brokers (1 cluster-head, 4 edge-brokers), diameter 2"
