"""Pictures of overlays: SVG for documents, and a tree of lines for the terminal."""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from roost.overlay.layout import Point, layered, radial
from roost.overlay.trees import (
    Role,
    Rooted,
    Topology,
    centre,
    check_tree,
    diameter,
    neighbours,
    roles,
    rooted,
)
from roost.pictures.svg import BLUE, INK, ORANGE, PAPER, coord, document, escaped, text

# Up to these, ranks can be read at a glance; beyond, they get too wide.
RANKED_BROKERS_MAX = 63
RANKED_LEAVES_MAX = 32
LABELLED_BROKERS_MAX = 300
LABEL_LENGTH_MAX = 14
TEXT_LINES_MAX = 1_000

# A larger picture is shown at this size, and can be zoomed into.
SHOWN_MAX = 2_400
# From this size on, title and legend grow with the picture.
WRITING_FROM = 1_200
LATENCY_FONT = 9.0
# Where on its link a latency stands: nearer to the outer end, where links have spread out.
TAG_AT = 0.62

# As dark and light in grey print. The second colour is that of the label.
FILLS: dict[Role | None, tuple[str, str]] = {
    "head": (BLUE, PAPER),
    "edge": (ORANGE, "#000000"),
    None: ("#DDDDDD", "#000000"),
}
LEGENDS: dict[Role | None, str] = {
    "head": "cluster-head",
    "edge": "edge-broker",
    None: "broker",
}
LINE = "#8A8A8A"
WIDEST = 14.0  # a link, where they are as wide as what they carry


# --- SVG ------------------------------------------------------------------------------------------


class _Style(NamedTuple):
    """How brokers are drawn: in boxes of one size, so that they can be set evenly."""

    font: float  # 0 for brokers without labels
    width: float
    height: float
    latency_width: float  # 0 when no link shows its own


class _Frame(NamedTuple):
    """The page around the tree."""

    width: float
    height: float
    unit: float  # what a pixel of a small picture is here, so that the writing grows with the tree
    shift: Point  # of the tree


def draw_svg(
    topology: Topology, title: str = "", traffic: Mapping[frozenset[str], float] | None = None
) -> str:
    """An SVG document: ranks below the tree's centre, or rings around it when there are many.

    With `traffic`, by the two ends of links, these are as wide as what they carry.
    """
    check_tree(topology)
    tree = rooted(topology, centre(topology))
    style, points = _placed(topology, tree)
    legend = _legend_texts(topology)
    facts = summary(topology)
    frame = _frame(points, style, [title, facts], legend)
    shown = min(1.0, SHOWN_MAX / max(frame.width, frame.height))
    lines = [
        *_heading(title, facts, frame),
        f'<g transform="translate({coord(frame.shift.x)} {coord(frame.shift.y)})">',
        *_links(tree, points, traffic or {}),
        *(_latency_tags(topology, tree, points) if style.latency_width else ()),
        *_brokers(topology, points, style),
        "</g>",
        *_legend(legend, frame),
    ]
    return document(frame.width, frame.height, title or facts, lines, shown=shown)


def _placed(topology: Topology, tree: Rooted) -> tuple[_Style, dict[str, Point]]:
    style = _style(topology)
    leaves = sum(len(near) <= 1 for near in neighbours(topology).values())
    chain = leaves <= 2 < len(topology.brokers)  # of which rings make one line
    if len(topology.brokers) <= RANKED_BROKERS_MAX and leaves <= RANKED_LEAVES_MAX and not chain:
        slot = max(style.width + 14, style.latency_width / TAG_AT + 4)
        return style, layered(tree, slot, style.width, style.height)
    # Boxes may stand corner to corner, and nearer to each other than along their ring.
    diagonal = math.hypot(style.width, style.height) * 1.05
    size = max(diagonal, style.latency_width / TAG_AT + 3)
    # A latency has to fit between two brokers that stand side by side.
    beside = (style.width + style.latency_width) / (1 - TAG_AT) / 2 + 4
    return style, radial(tree, size, max(size + 16, beside if style.latency_width else 0))


def _style(topology: Topology) -> _Style:
    count = len(topology.brokers)
    if count > LABELLED_BROKERS_MAX:
        return _Style(0, 9, 9, 0)
    font = 12.0 if count <= RANKED_BROKERS_MAX else 9.0
    longest = max(_text_width(_label(broker), font) for broker in topology.brokers)
    latencies = [_text_width(words, LATENCY_FONT) for words in _latencies(topology).values()]
    height = font * 1.9
    return _Style(font, max(height, longest + font), height, max(latencies, default=0))


def _frame(
    points: dict[str, Point], style: _Style, heading: list[str], legend: dict[Role | None, str]
) -> _Frame:
    left = min(point.x for point in points.values()) - style.width / 2
    right = max(point.x for point in points.values()) + style.width / 2
    top = min(point.y for point in points.values()) - style.height / 2
    bottom = max(point.y for point in points.values()) + style.height / 2
    unit = max(1.0, (right - left) / WRITING_FROM, (bottom - top) / WRITING_FROM)
    writing = max(
        *(_text_width(words, 16) for words in heading),
        sum(_text_width(words, 12) + 36 for words in legend.values()),
    )
    width = max(right - left, writing * unit) + 48 * unit
    height = bottom - top + 138 * unit
    return _Frame(width, height, unit, Point((width - left - right) / 2, 78 * unit - top))


def _heading(title: str, facts: str, frame: _Frame) -> Iterator[str]:
    unit = frame.unit
    if title:
        yield text(24 * unit, 32 * unit, title, 16 * unit, bold=True)
    yield text(24 * unit, 52 * unit, facts, 12 * unit)


def _links(
    tree: Rooted, points: dict[str, Point], traffic: Mapping[frozenset[str], float]
) -> Iterator[str]:
    most = max(traffic.values(), default=0.0)
    yield f'<g stroke="{LINE}" stroke-width="1.5">'
    for child, parent in tree.parent.items():
        (x1, y1), (x2, y2) = points[parent], points[child]
        place = f'x1="{coord(x1)}" y1="{coord(y1)}" x2="{coord(x2)}" y2="{coord(y2)}"'
        rate = traffic.get(frozenset((child, parent)), 0.0)
        if most > 0:
            wide = 1.0 + (WIDEST - 1.0) * rate / most
            told = escaped(f"{parent} - {child}: {rate:,.1f} messages/s")
            yield f'<line {place} stroke-width="{wide:.1f}"><title>{told}</title></line>'
        else:
            yield f"<line {place}/>"
    yield "</g>"


def _latency_tags(topology: Topology, tree: Rooted, points: dict[str, Point]) -> Iterator[str]:
    latencies = _latencies(topology)
    yield f'<g font-size="{coord(LATENCY_FONT)}" text-anchor="middle" fill="{INK}">'
    for child, parent in tree.parent.items():
        words = latencies.get(frozenset((child, parent)))
        if words:
            yield from _latency_tag(words, points[parent], points[child])
    yield "</g>"


def _latency_tag(words: str, parent: Point, child: Point) -> Iterator[str]:
    x = parent.x + (child.x - parent.x) * TAG_AT
    y = parent.y + (child.y - parent.y) * TAG_AT
    width, height = _text_width(words, LATENCY_FONT) + 2, LATENCY_FONT + 2
    yield (
        f'<rect x="{coord(x - width / 2)}" y="{coord(y - height / 2)}" width="{coord(width)}"'
        f' height="{coord(height)}" fill="{PAPER}"/>'
    )
    yield f'<text x="{coord(x)}" y="{coord(y + LATENCY_FONT * 0.35)}">{words}</text>'


def _brokers(topology: Topology, points: dict[str, Point], style: _Style) -> Iterator[str]:
    yield f'<g font-size="{coord(style.font)}" text-anchor="middle">'
    for broker, role in roles(topology).items():
        x, y = points[broker]
        label = ""
        if style.font:
            ink = FILLS[role][1]
            label = f'<text y="{coord(style.font * 0.35)}" fill="{ink}">{escaped(_label(broker))}</text>'
        yield (
            f'<g class="broker" transform="translate({coord(x)} {coord(y)})">'
            f"<title>{escaped(broker)}</title>{_box(role, style.width, style.height)}{label}</g>"
        )
    yield "</g>"


def _box(role: Role | None, width: float, height: float) -> str:
    """A broker around the origin; corners tell heads from edge-brokers also without colours."""
    corner = height * (0.2 if role == "head" else 0.5)
    return (
        f'<rect x="{coord(-width / 2)}" y="{coord(-height / 2)}" width="{coord(width)}"'
        f' height="{coord(height)}" rx="{coord(corner)}" fill="{FILLS[role][0]}" stroke="{INK}"'
        ' stroke-width="0.8"/>'
    )


def _legend_texts(topology: Topology) -> dict[Role | None, str]:
    """What each colour of this picture means."""
    there = set(roles(topology).values())
    return {role: words for role, words in LEGENDS.items() if role in there}


def _legend(texts: dict[Role | None, str], frame: _Frame) -> Iterator[str]:
    unit = frame.unit
    x, y = 24 * unit, frame.height - 24 * unit
    for role, words in texts.items():
        box = _box(role, 16 * unit, 12 * unit)
        yield f'<g class="legend" transform="translate({coord(x + 8 * unit)} {coord(y)})">{box}</g>'
        yield text(x + 22 * unit, y + 4 * unit, words, 12 * unit)
        x += (_text_width(words, 12) + 36) * unit


def _label(broker: str) -> str:
    if len(broker) <= LABEL_LENGTH_MAX:
        return broker
    return broker[: LABEL_LENGTH_MAX - 1] + "…"


def _latencies(topology: Topology) -> dict[frozenset[str], str]:
    """What is written on links, by their two ends."""
    return {
        frozenset((link.a, link.b)): f"{link.latency_ms:g} ms"
        for link in topology.links
        if link.latency_ms is not None
    }


def _text_width(words: str, font: float) -> float:
    """About the width of a text, on the generous side: the font is the viewer's."""
    wide = sum(unicodedata.east_asian_width(sign) in "WF" for sign in words)
    return (len(words) * 0.62 + wide * 0.4) * font


def summary(topology: Topology) -> str:
    """A tree in a line: `5 brokers (1 cluster-head, 4 edge-brokers), diameter 2`."""
    counts = Counter(roles(topology).values())
    kinds = [_counted(counts[role], LEGENDS[role]) for role in ("head", "edge") if counts[role]]
    known = f" ({', '.join(kinds)})" if kinds else ""
    return f"{_counted(len(topology.brokers), 'broker')}{known}, diameter {diameter(topology):,}"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


# --- text -----------------------------------------------------------------------------------------


def draw_text(topology: Topology) -> str:
    """The overlay as lines for a terminal, from the tree's centre; of a large one, the first."""
    check_tree(topology)
    tree = rooted(topology, centre(topology))
    latencies = _latencies(topology)
    lines = [tree.root]
    indents = {tree.root: ""}  # of the children
    for broker in tree.order[1:TEXT_LINES_MAX]:
        parent = tree.parent[broker]
        last = broker == tree.children[parent][-1]
        latency = latencies.get(frozenset((broker, parent)))
        lines.append(
            f"{indents[parent]}{'└── ' if last else '├── '}{broker}"
            + (f"  ({latency})" if latency else "")
        )
        indents[broker] = indents[parent] + ("    " if last else "│   ")
    more = len(tree.order) - len(lines)
    if more:
        lines.append(f"... and {more:,} brokers more")
    return "\n".join(lines) + "\n"
