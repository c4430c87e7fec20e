"""A run that is over, played again: the overlay, events on their way and moves, over its virtual time.

One page of HTML that needs no network and no library. Time is cut into *slices*; in each, links are as wide
as their traffic, brokers as red as they are loaded and as large as they have subscriptions, and publishers
stand as small squares beside the broker that they are at. Some publications are shown in full, as dots that
spread; the others are in the widths. Below is the traffic over time, with a mark for every move. Without
scripts the page shows the first and the last slice.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape

from msgspec import Struct

from roost.overlay.layout import Point, radial
from roost.overlay.trees import Link, Topology, centre, first_fault, rooted
from roost.pictures import page as pages
from roost.pictures.svg import BLUE, INK, ORANGE, VERMILION, coord, document, text

WIDTH, HEIGHT, MARGIN = 720.0, 560.0, 46.0
HEADING = 46.0
RADIUS_MIN, RADIUS_MAX = 7.0, 20.0
WIDEST = 12.0
LINE = "#5B6770"
# From idle to overloaded.
COOL, HOT = (0x56, 0xB4, 0xE9), (0xD5, 0x5E, 0x00)
TAG, TAGS_SHOWN = 7.0, 10
LEGEND = (
    "links: as wide as their traffic; circles: brokers, larger with more subscriptions, from blue (idle) to"
    " red (at full load); orange squares: publishers; dots: some of the events, on their way"
)


class Slice(Struct, frozen=True):
    """A piece of the run."""

    start_s: float
    links: Mapping[tuple[str, str], float]  # messages a second, both ways, by the two ends in order
    load: Mapping[str, float]  # of the brokers that were up: 1 is all that one can do
    subscriptions: Mapping[str, int]
    publishers: Mapping[str, tuple[str, ...]]  # at each broker
    delivered_per_s: float


class Move(Struct, frozen=True):
    """Something that an optimiser did."""

    at_s: float
    what: str


class Journey(Struct, frozen=True):
    """A publication on its way: for each hop, counted from 1, the brokers that it went between."""

    at_s: float
    hops: tuple[tuple[int, str, str], ...]


class Replay(Struct, frozen=True):
    """The run."""

    title: str
    brokers: tuple[str, ...]
    slice_s: float
    slices: tuple[Slice, ...]
    moves: tuple[Move, ...]
    journeys: tuple[Journey, ...]


def replay_page(replay: Replay) -> str:
    """The page, as HTML."""
    last = len(replay.slices) - 1
    lead = f"{replay.slice_s * len(replay.slices):,.0f} virtual seconds, {len(replay.brokers):,} brokers"
    parts = [
        '<p><button id="play">play</button> <input id="at" type="range" min="0" value="0" step="any"'
        f' max="{last + 1}" style="width: 460px"> <select id="speed"><option value="0.5">half speed</option>'
        '<option value="1" selected>in 40 s</option><option value="4">in 10 s</option></select></p>',
        f'<canvas id="stage" width="{coord(WIDTH)}" height="{coord(HEIGHT + 130)}"></canvas>',
        f'<p style="max-width: {coord(WIDTH)}px">{escape(LEGEND)}.</p>',
        *_moves(replay.moves),
        "<h2>At first, and at last</h2>",
        '<div class="charts">',
        *(f"<figure>{draw_slice(replay, number)}</figure>" for number in sorted({0, last})),
        "</div>",
        f"<script>const run = {_data(replay)};\n{SCRIPT}</script>",
    ]
    return pages.page(replay.title, lead, parts)


def _moves(moves: Sequence[Move]) -> Iterator[str]:
    if not moves:
        yield "<p>Nobody was moved, and no link.</p>"
        return
    yield '<ol id="moves" style="height: 150px; overflow: auto; font-size: 13px; max-width: 700px">'
    for move in moves:
        yield f"<li>{move.at_s:,.1f} s: {escape(move.what)}</li>"
    yield "</ol>"


# --- where brokers stand ----------------------------------------------------------------------------


def placed(replay: Replay) -> list[dict[str, Point]]:
    """For each slice; what is no tree just now, because a link is down, stays as it was."""
    found: list[dict[str, Point]] = []
    trees = [_tree(replay.brokers, piece.links) for piece in replay.slices]
    whole = [tree for tree in trees if tree is not None]
    if not whole:
        return [_ring(replay.brokers)] * len(trees)
    # The order of the last tree stays, so that what moves in the picture is what was rewired.
    middle = centre(whole[-1])
    order = tuple(rooted(whole[-1], middle).order)
    known: dict[frozenset[tuple[str, str]], dict[str, Point]] = {}
    now = _on_rings(order, whole[0], middle)
    for piece, tree in zip(replay.slices, trees, strict=True):
        if tree is not None:
            links = frozenset(piece.links)
            if links not in known:
                known[links] = _on_rings(order, tree, middle)
            now = known[links]
        found.append(now)
    return found


def _tree(brokers: tuple[str, ...], links: Mapping[tuple[str, str], float]) -> Topology | None:
    topology = Topology(brokers, tuple(Link(a, b) for a, b in links))
    return topology if first_fault(topology) is None else None


def _on_rings(order: tuple[str, ...], tree: Topology, middle: str) -> dict[str, Point]:
    points = radial(rooted(Topology(order, tree.links), middle), 40.0, 60.0)
    return _fitted(points)


def _ring(brokers: Sequence[str]) -> dict[str, Point]:
    step = 2 * math.pi / max(1, len(brokers))
    return _fitted(
        {name: Point(math.sin(n * step), -math.cos(n * step)) for n, name in enumerate(brokers)}
    )


def _fitted(points: Mapping[str, Point]) -> dict[str, Point]:
    """On the whole sheet, below its heading."""
    x, y = ([point[axis] for point in points.values()] or [0.0] for axis in (0, 1))
    across = (WIDTH - 2 * MARGIN) / ((max(x) - min(x)) or 1.0)
    down = (HEIGHT - HEADING - 2 * MARGIN) / ((max(y) - min(y)) or 1.0)
    middle = Point((max(x) + min(x)) / 2, (max(y) + min(y)) / 2)
    return {
        name: Point(
            WIDTH / 2 + (p.x - middle.x) * across,
            HEADING + (HEIGHT - HEADING) / 2 + (p.y - middle.y) * down,
        )
        for name, p in points.items()
    }


# --- how they look ----------------------------------------------------------------------------------


def _widest(replay: Replay) -> float:
    return (
        max((rate for piece in replay.slices for rate in piece.links.values()), default=0.0) or 1.0
    )


def _width(rate: float, widest: float) -> float:
    return 0.8 + (WIDEST - 0.8) * rate / widest


def _most(replay: Replay) -> int:
    counts = (n for piece in replay.slices for n in piece.subscriptions.values())
    return max(counts, default=0) or 1


def _radius(subscriptions: int, most: int) -> float:
    """Areas are as the numbers are."""
    return RADIUS_MIN + (RADIUS_MAX - RADIUS_MIN) * math.sqrt(subscriptions / most)


def colour(load: float | None) -> str:
    """Of a broker that uses this much of what it can; None: it is down."""
    if load is None:
        return "#FFFFFF"
    part = min(1.0, max(0.0, load))
    mixed = (round(a + (b - a) * part) for a, b in zip(COOL, HOT, strict=True))
    return "#" + "".join(f"{value:02X}" for value in mixed)


def caption(piece: Slice) -> str:
    total = sum(piece.links.values())
    return (
        f"{piece.start_s:,.0f} s: {total:,.0f} messages/s between brokers,"
        f" {piece.delivered_per_s:,.0f} deliveries/s"
    )


def draw_slice(replay: Replay, number: int) -> str:
    """One of them as an SVG document."""
    piece, points = replay.slices[number], placed(replay)[number]
    widest, most = _widest(replay), _most(replay)
    lines = [text(16, 28, caption(piece), 15, bold=True)]
    for (a, b), rate in piece.links.items():
        ends = f'x1="{coord(points[a].x)}" y1="{coord(points[a].y)}" x2="{coord(points[b].x)}"'
        lines.append(
            f'<line {ends} y2="{coord(points[b].y)}" stroke="{LINE}" stroke-opacity="0.55"'
            f' stroke-width="{_width(rate, widest):.1f}" stroke-linecap="round"/>'
        )
    for name in replay.brokers:
        point, radius = points[name], _radius(piece.subscriptions.get(name, 0), most)
        fill = colour(piece.load.get(name))
        lines.append(
            f'<circle cx="{coord(point.x)}" cy="{coord(point.y)}" r="{coord(radius)}" fill="{fill}"'
            f' stroke="{INK}" stroke-width="0.8"/>'
        )
        lines.append(text(point.x, point.y + radius + 12, name, 11, "middle"))
        for at, publisher in enumerate(piece.publishers.get(name, ())[:TAGS_SHOWN]):
            x, y = point.x + radius + 3 + (at % 5) * (TAG + 2), point.y - 8 + (at // 5) * (TAG + 2)
            lines.append(
                f'<rect x="{coord(x)}" y="{coord(y)}" width="{coord(TAG)}" height="{coord(TAG)}"'
                f' fill="{ORANGE}" stroke="{INK}" stroke-width="0.5">'
                f"<title>{escape(publisher)}</title></rect>"
            )
    return document(WIDTH, HEIGHT, f"{replay.title}, {caption(piece)}", lines)


def _data(replay: Replay) -> str:
    """All that the script needs; brokers are numbers, in hops from slice to slice."""
    number = {name: i for i, name in enumerate(replay.brokers)}
    widest, most, places = _widest(replay), _most(replay), placed(replay)
    end = replay.slice_s * len(replay.slices)
    whole = {
        "width": WIDTH,
        "height": HEIGHT,
        "orange": ORANGE,
        "blue": BLUE,
        "vermilion": VERMILION,
        "tag": TAG,
        "tags": TAGS_SHOWN,
        "names": replay.brokers,
        "slice": replay.slice_s,
        "slices": [
            {
                "caption": caption(piece),
                "at": [[round(v, 1) for v in points[name]] for name in replay.brokers],
                "links": [
                    [number[a], number[b], round(_width(rate, widest), 1)]
                    for (a, b), rate in piece.links.items()
                ],
                "look": [
                    [
                        round(_radius(piece.subscriptions.get(name, 0), most), 1),
                        colour(piece.load.get(name)),
                        len(piece.publishers.get(name, ())),
                    ]
                    for name in replay.brokers
                ],
                "sum": round(sum(piece.links.values()), 1),
            }
            for piece, points in zip(replay.slices, places, strict=True)
        ],
        "moves": [round(move.at_s, 3) for move in replay.moves],
        "journeys": [
            [round(journey.at_s, 3), [[hop, number[a], number[b]] for hop, a, b in journey.hops]]
            for journey in replay.journeys
            if 0 <= journey.at_s < end
        ],
    }
    return json.dumps(whole, separators=(",", ":")).replace("<", "\\u003c")


# The clock runs in slices. A hop of an event takes a quarter of a second for those who look on, however quick
# it was. #AT in the address of the page begins there, in slices.
SCRIPT = """
const canvas = document.getElementById("stage"), pen = canvas.getContext("2d");
const slider = document.getElementById("at"), button = document.getElementById("play");
const rate = document.getElementById("speed"), items = document.querySelectorAll("#moves li");
const count = run.slices.length, WIDTH = run.width, HEIGHT = run.height, HOP = 0.25;
const perSecond = () => count / 40 * +rate.value;  // slices
const most = Math.max(1e-9, ...run.slices.map(s => s.sum));
function brokers(time) {
  const k = Math.min(count - 1, Math.floor(time)), next = Math.min(count - 1, k + 1);
  const part = time - k, a = run.slices[k].at, b = run.slices[next].at;
  return a.map((p, n) => [0, 1].map(i => p[i] + (b[n][i] - p[i]) * Math.min(1, part)));
}
function show(time) {
  const k = Math.min(count - 1, Math.floor(time)), now = run.slices[k], at = brokers(time);
  pen.clearRect(0, 0, canvas.width, canvas.height);
  pen.fillStyle = "#222"; pen.font = "bold 15px Helvetica, Arial, sans-serif"; pen.textAlign = "left";
  pen.fillText(now.caption, 16, 28);
  pen.lineCap = "round"; pen.strokeStyle = "rgba(91,103,112,0.55)";
  for (const [a, b, width] of now.links) {
    pen.lineWidth = width;
    pen.beginPath(); pen.moveTo(...at[a]); pen.lineTo(...at[b]); pen.stroke();
  }
  pen.strokeStyle = "#222"; pen.textAlign = "center";
  now.look.forEach(([radius, fill, publishers], n) => {
    const [x, y] = at[n];
    pen.beginPath(); pen.arc(x, y, radius, 0, 7);
    pen.fillStyle = fill; pen.fill(); pen.lineWidth = 0.8; pen.stroke();
    pen.fillStyle = run.orange; pen.lineWidth = 0.5;
    for (let i = 0; i < Math.min(publishers, run.tags); i++) {
      const left = x + radius + 3 + i % 5 * (run.tag + 2), top = y - 8 + Math.floor(i / 5) * (run.tag + 2);
      pen.fillRect(left, top, run.tag, run.tag); pen.strokeRect(left, top, run.tag, run.tag);
    }
    pen.fillStyle = "#222"; pen.font = "11px Helvetica, Arial, sans-serif";
    pen.fillText(run.names[n], x, y + radius + 12);
  });
  pen.fillStyle = run.blue;
  for (const [begun, hops] of run.journeys) {
    const since = (time - begun / run.slice) / perSecond() / HOP;  // in hops
    if (since < 0 || since > 40) continue;
    for (const [hop, a, b] of hops) {
      const part = since - hop + 1;
      if (part < 0 || part > 1) continue;
      pen.beginPath();
      pen.arc(at[a][0] + (at[b][0] - at[a][0]) * part, at[a][1] + (at[b][1] - at[a][1]) * part, 3.5, 0, 7);
      pen.fill();
    }
  }
  course(time);
  let last = -1;
  run.moves.forEach((moved, i) => { if (moved <= time * run.slice) last = i; });
  items.forEach((item, i) => { item.style.fontWeight = i === last ? "bold" : ""; });
  if (last >= 0) items[last].parentElement.scrollTop = items[last].offsetTop - items[0].offsetTop - 60;
}
function course(time) {
  const low = HEIGHT + 100, high = HEIGHT + 24, left = 16, right = WIDTH - 16;
  const x = t => left + (right - left) * t / count, y = v => low - (low - high) * v / most;
  pen.strokeStyle = run.vermilion; pen.lineWidth = 1;
  for (const moved of run.moves) {
    const where = x(moved / run.slice);
    pen.beginPath(); pen.moveTo(where, low); pen.lineTo(where, low + 8); pen.stroke();
  }
  pen.strokeStyle = "#222"; pen.lineWidth = 1.4; pen.beginPath();
  run.slices.forEach((s, i) => pen[i ? "lineTo" : "moveTo"](x(i + 0.5), y(s.sum)));
  pen.stroke();
  pen.lineWidth = 0.7; pen.beginPath(); pen.moveTo(left, low); pen.lineTo(right, low); pen.stroke();
  pen.strokeStyle = run.blue; pen.lineWidth = 2;
  pen.beginPath(); pen.moveTo(x(time), low); pen.lineTo(x(time), high - 6); pen.stroke();
  pen.fillStyle = "#222"; pen.textAlign = "left"; pen.font = "12px Helvetica, Arial, sans-serif";
  pen.fillText("messages/s between brokers, at most " + Math.round(most).toLocaleString("en")
    + "; red marks: moves", left, HEIGHT + 12);
}
let playing = false, time = Math.min(count, Math.max(0, +location.hash.slice(1) || 0)), before = 0;
slider.value = time;
slider.oninput = () => { playing = false; button.textContent = "play"; time = +slider.value; show(time); };
button.onclick = () => {
  playing = !playing;
  button.textContent = playing ? "pause" : "play";
  if (playing && time >= count) time = 0;
  before = 0;
  if (playing) requestAnimationFrame(tick);
};
function tick(now) {
  if (!playing) return;
  if (before) time = Math.min(count, time + (now - before) / 1000 * perSecond());
  before = now;
  slider.value = time;
  show(time);
  if (time >= count) { playing = false; button.textContent = "play"; return; }
  requestAnimationFrame(tick);
}
show(time);
"""
