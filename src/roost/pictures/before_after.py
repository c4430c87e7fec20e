"""A federation before and after it has rearranged itself: both trees, links as wide as their traffic.

An audience and its publishers have a colour of their own, so that it shows at a glance who is far from whom.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from roost.overlay.layout import Point, layered
from roost.overlay.topologies import Topology
from roost.overlay.trees import Rooted, centre, rooted
from roost.pictures.svg import BLUE, INK, PAPER, VERMILION, document, text

# Those that white letters can be read on; the last two are a little darker for it.
COLOURS = (BLUE, VERMILION, "#007A5A", "#B0498A")
RELAY, LINE = "#9A9A9A", "#5B6770"
SLOT, BOX_WIDTH, BOX_HEIGHT = 68.0, 44.0, 24.0
TAG_WIDTH, TAG_HEIGHT, TAG_STEP = 30.0, 17.0, 20.0
WIDEST_LINK = 16.0
MARGIN, TREE_TOP, GAP = 36.0, 132.0, 70.0
ROW_HEIGHT = 25.0
# A page shows it at three quarters of its size: what is smaller than these can't be read there.
TITLE, HEADING, WORDS, SMALL, SMALLEST = 22, 17, 15, 13, 12


class Half(Struct, frozen=True):
    """One of the two trees."""

    link_per_s: dict[frozenset[str], float]  # messages both ways, by the two ends
    places: dict[str, str]  # the broker of each publisher
    subscribers: Mapping[str, int]  # how many a broker has


class Row(Struct, frozen=True):
    """A row of the table below: what, before, after, and how it changed."""

    what: str
    before: str
    after: str
    change: str


def picture(
    topology: Topology,
    groups: Mapping[str, int],  # which audience a broker or a publisher belongs to
    halves: Mapping[str, Half],
    rows: Sequence[Row],
    title: str,
    footer: str,
) -> str:
    """An SVG document."""
    tree = rooted(topology, centre(topology))
    points = layered(tree, SLOT, BOX_WIDTH, BOX_HEIGHT)
    left = min(point.x for point in points.values()) - BOX_WIDTH / 2
    right = max(point.x for point in points.values()) + BOX_WIDTH / 2
    deepest = max(point.y for point in points.values())
    tags = max(
        sum(place == broker for place in half.places.values())
        for half in halves.values()
        for broker in topology.brokers
    )
    panel = right - left
    table_top = TREE_TOP + deepest + BOX_HEIGHT + tags * TAG_STEP + 40
    width = 2 * MARGIN + 2 * panel + GAP
    height = table_top + (len(rows) + 1) * ROW_HEIGHT + 60
    busiest = max(max(half.link_per_s.values(), default=0.0) for half in halves.values()) or 1.0
    lines = [
        text(MARGIN, 40, title, TITLE, bold=True),
        text(
            MARGIN,
            66,
            "P1, P2, ... are publishers; brokers of the same colour have their subscribers (how many"
            " stands below). Numbers on links: messages/s.",
            WORDS,
        ),
    ]
    for number, (name, half) in enumerate(halves.items()):
        shift = Point(MARGIN - left + number * (panel + GAP), TREE_TOP)
        lines.append(text(MARGIN + number * (panel + GAP), 100, name, HEADING, bold=True))
        lines.append(f'<g transform="translate({shift.x:.1f} {shift.y:.1f})">')
        lines += _links(tree, points, half, busiest)
        for broker in topology.brokers:
            lines += _broker(broker, points[broker], half, groups, not tree.children[broker])
        lines.append("</g>")
    lines += _table(rows, list(halves), table_top)
    lines.append(text(MARGIN, height - 24, footer, WORDS))
    return document(width, height, title, lines)


def _links(tree: Rooted, points: Mapping[str, Point], half: Half, busiest: float) -> Iterator[str]:
    labels = []
    for child, parent in tree.parent.items():
        a, b = points[parent], points[child]
        rate = half.link_per_s.get(frozenset((child, parent)), 0.0)
        wide = 1.0 + (WIDEST_LINK - 1.0) * rate / busiest
        yield (
            f'<line x1="{a.x:.1f}" y1="{a.y:.1f}" x2="{b.x:.1f}" y2="{b.y:.1f}" stroke="{LINE}"'
            f' stroke-width="{wide:.1f}" stroke-opacity="{0.35 if rate >= 1 else 0.5}"'
            f' stroke-linecap="round"/>'
        )
        if rate >= 1:
            labels.append(
                text((a.x + b.x) / 2, (a.y + b.y) / 2 + 4, f"{rate:,.0f}", SMALL, "middle")
            )
    yield from labels


def _broker(
    broker: str, at: Point, half: Half, groups: Mapping[str, int], is_leaf: bool
) -> Iterator[str]:
    subscribers = half.subscribers.get(broker, 0)
    colour = COLOURS[groups[broker] % len(COLOURS)] if subscribers else RELAY
    yield _box(at.x, at.y, BOX_WIDTH, BOX_HEIGHT, 5, colour if subscribers else PAPER, colour)
    ink = PAPER if subscribers else INK
    yield text(at.x, at.y + 4.5, broker, SMALL, "middle", ink)
    below = at.y + BOX_HEIGHT / 2 + 13
    if subscribers:
        yield text(at.x, below, f"{subscribers}", SMALLEST, "middle", colour)
    here = sorted(name for name, place in half.places.items() if place == broker)
    for number, name in enumerate(here):
        # Below a leaf there is room, and beside the others.
        if is_leaf:
            x, y = at.x, below + 12 + number * TAG_STEP
        else:
            x = at.x + (BOX_WIDTH + TAG_WIDTH) / 2 + 4 + number * (TAG_WIDTH + 3)
            y = at.y
        colour = COLOURS[groups[name] % len(COLOURS)]
        yield _box(x, y, TAG_WIDTH, TAG_HEIGHT, TAG_HEIGHT / 2, PAPER, colour)
        yield text(x, y + 4, name, SMALLEST, "middle", colour, bold=True)


def _table(rows: Sequence[Row], heads: Sequence[str], top: float) -> Iterator[str]:
    columns = (MARGIN, MARGIN + 400, MARGIN + 510, MARGIN + 610)
    for x, head in zip(columns[1:], (*heads, "change"), strict=True):
        yield text(x, top, head, WORDS, "end", bold=True)
    for number, row in enumerate(rows, 1):
        y = top + number * ROW_HEIGHT
        yield text(columns[0], y, row.what, WORDS)
        for x, words in zip(columns[1:], (row.before, row.after, row.change), strict=True):
            yield text(x, y, words, WORDS, "end")


def _box(
    x: float, y: float, width: float, height: float, corner: float, fill: str, stroke: str
) -> str:
    return (
        f'<rect x="{x - width / 2:.1f}" y="{y - height / 2:.1f}" width="{width:.1f}"'
        f' height="{height:.1f}" rx="{corner:.1f}" fill="{fill}" stroke="{stroke}"'
        ' stroke-width="1.6"/>'
    )
