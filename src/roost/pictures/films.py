"""Overlays that change, as pictures that move: a page with a film a column, and stills beside them.

Brokers stand on rings around one that stays in the middle, in an order that stays too, so that what moves in
the picture is what was rewired. Links are as wide as their traffic. The page needs no network and no
library; without scripts it shows the first, a middle and the last picture of each film.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from html import escape

from msgspec import Struct

from roost.overlay.layout import Point, radial
from roost.overlay.trees import Link, Topology, rooted
from roost.pictures import page as pages
from roost.pictures.svg import BLUE, INK, PAPER, VERMILION, coord, document, text

SIZE, MARGIN = 520.0, 26.0
HEADING = 64.0
RADIUS = 6.0
WIDEST = 11.0
LINE, RELAY = "#5B6770", "#C4C8CC"
COLOURS = {"publisher": VERMILION, "subscriber": BLUE, "relay": RELAY}
LEGEND = "red: publishers; blue: subscribers; grey: brokers that only relay; links as wide as their traffic"


class Frame(Struct, frozen=True):
    """One picture of a film."""

    caption: str
    # Messages over each link, by its two ends.
    traffic: Mapping[tuple[str, str], float]


class Film(Struct, frozen=True):
    """An overlay as it changes; of the last picture's tree, `middle` is the broker in the middle."""

    title: str
    brokers: tuple[str, ...]
    kinds: Mapping[str, str]  # publisher, subscriber or relay
    middle: str
    frames: tuple[Frame, ...]


def film_page(title: str, lead: str, films: Sequence[Film]) -> str:
    """The page, as HTML."""
    drawn = [_placed(film) for film in films]
    parts = [
        '<p><button id="play">play</button> <input id="at" type="range" min="0" value="0"'
        f' max="{max(len(film.frames) for film in films) - 1}" style="width: 420px"></p>',
        '<div class="charts">',
        *(_stage(number, film) for number, film in enumerate(films)),
        "</div>",
        f"<p>{escape(LEGEND)}.</p>",
        "<h2>Before, during, after</h2>",
        *(still for film in films for still in _stills(film)),
        f"<script>const films = {_data(films, drawn)};\n{SCRIPT}</script>",
    ]
    return pages.page(title, lead, parts)


def draw_frame(film: Film, number: int) -> str:
    """One picture as an SVG document."""
    frame, points = film.frames[number], _placed(film)[number]
    widest = _widest(film)
    lines = [text(16, 28, film.title, 15, bold=True), text(16, 48, frame.caption)]
    lines += (
        f'<line x1="{coord(points[a].x)}" y1="{coord(points[a].y)}" x2="{coord(points[b].x)}"'
        f' y2="{coord(points[b].y)}" stroke="{LINE}" stroke-width="{_width(count, widest):.1f}"'
        ' stroke-opacity="0.55" stroke-linecap="round"/>'
        for (a, b), count in frame.traffic.items()
    )
    lines += (
        f'<circle cx="{coord(points[name].x)}" cy="{coord(points[name].y)}" r="{coord(RADIUS)}"'
        f' fill="{COLOURS[film.kinds[name]]}" stroke="{INK}" stroke-width="0.7"><title>{escape(name)}'
        "</title></circle>"
        for name in film.brokers
    )
    return document(SIZE, SIZE + HEADING, f"{film.title}: {frame.caption}", lines)


def _stills(film: Film) -> Iterator[str]:
    yield '<div class="charts">'
    for number in sorted({0, len(film.frames) // 2, len(film.frames) - 1}):
        yield f'<figure style="max-width: 380px">{draw_frame(film, number)}</figure>'
    yield "</div>"


def _placed(film: Film) -> list[dict[str, Point]]:
    """Where the brokers stand in each picture, all on sheets of one size."""
    order = _order(film)
    found = []
    for frame in film.frames:
        topology = Topology(order, tuple(Link(a, b) for a, b in frame.traffic))
        found.append(radial(rooted(topology, film.middle), 2.6 * RADIUS, 4.0 * RADIUS))
    return [_fitted(points) for points in found]


def _order(film: Film) -> tuple[str, ...]:
    """As the last tree has the brokers around its middle: who ends side by side starts side by side."""
    last = Topology(film.brokers, tuple(Link(a, b) for a, b in film.frames[-1].traffic))
    return tuple(rooted(last, film.middle).order)


def _fitted(points: Mapping[str, Point]) -> dict[str, Point]:
    reach = max(max(abs(p.x), abs(p.y)) for p in points.values()) or 1.0
    scale = (SIZE / 2 - MARGIN) / reach
    return {
        name: Point(SIZE / 2 + p.x * scale, HEADING + SIZE / 2 + p.y * scale)
        for name, p in points.items()
    }


def _widest(film: Film) -> float:
    return (
        max((count for frame in film.frames for count in frame.traffic.values()), default=1.0)
        or 1.0
    )


def _width(count: float, widest: float) -> float:
    return 0.6 + (WIDEST - 0.6) * count / widest


def _stage(number: int, film: Film) -> str:
    """Where a film is shown."""
    return (
        f'<figure style="max-width: 560px"><svg id="film{number}" viewBox="0 0 {coord(SIZE)}'
        f' {coord(SIZE + HEADING)}" width="{coord(SIZE)}" font-family="Helvetica, Arial, sans-serif">'
        f'<rect width="100%" height="100%" fill="{PAPER}"/>{text(16, 28, film.title, 15, bold=True)}'
        '<text class="caption" x="16" y="48" font-size="12"></text>'
        '<g class="links"></g><g class="brokers"></g></svg></figure>'
    )


def _data(films: Sequence[Film], drawn: Sequence[Sequence[Mapping[str, Point]]]) -> str:
    """All that the script needs; brokers are numbers."""
    found = []
    for film, placed in zip(films, drawn, strict=True):
        number = {name: i for i, name in enumerate(film.brokers)}
        widest = _widest(film)
        found.append(
            {
                "names": film.brokers,
                "colours": [COLOURS[film.kinds[name]] for name in film.brokers],
                "frames": [
                    {
                        "caption": frame.caption,
                        "at": [[round(v, 1) for v in points[name]] for name in film.brokers],
                        "links": [
                            [number[a], number[b], round(_width(count, widest), 1)]
                            for (a, b), count in frame.traffic.items()
                        ],
                    }
                    for frame, points in zip(film.frames, placed, strict=True)
                ],
            }
        )
    return json.dumps(found, separators=(",", ":")).replace("<", "\\u003c")


# From one picture to the next brokers glide; links are those of the nearer picture.
SCRIPT = """
const last = Math.max(...films.map(f => f.frames.length)) - 1;
const slider = document.getElementById("at"), button = document.getElementById("play");
const ns = "http://www.w3.org/2000/svg";
const make = (parent, tag, values) => {
  const made = document.createElementNS(ns, tag);
  for (const [k, v] of Object.entries(values)) made.setAttribute(k, v);
  parent.appendChild(made);
  return made;
};
const stages = films.map((film, i) => {
  const svg = document.getElementById("film" + i);
  const brokers = film.names.map((name, n) => {
    const dot = make(svg.querySelector(".brokers"), "circle",
      {r: 6, fill: film.colours[n], stroke: "#222", "stroke-width": 0.7});
    make(dot, "title", {}).textContent = name;
    return dot;
  });
  const links = film.names.slice(1).map(() => make(svg.querySelector(".links"), "line",
    {stroke: "#5B6770", "stroke-opacity": 0.55, "stroke-linecap": "round"}));
  return {film, brokers, links, caption: svg.querySelector(".caption")};
});
function show(time) {
  for (const {film, brokers, links, caption} of stages) {
    const end = film.frames.length - 1, at = Math.min(time, end);
    const one = film.frames[Math.floor(at)], two = film.frames[Math.min(Math.floor(at) + 1, end)];
    const part = at - Math.floor(at), near = part < 0.5 ? one : two;
    const place = n => [0, 1].map(k => one.at[n][k] * (1 - part) + two.at[n][k] * part);
    brokers.forEach((dot, n) => {
      const [x, y] = place(n);
      dot.setAttribute("cx", x);
      dot.setAttribute("cy", y);
    });
    links.forEach((line, n) => {
      const [a, b, width] = near.links[n];
      const [x1, y1] = place(a), [x2, y2] = place(b);
      for (const [k, v] of Object.entries({x1, y1, x2, y2, "stroke-width": width})) line.setAttribute(k, v);
    });
    caption.textContent = near.caption;
  }
}
let playing = false, time = 0, before = 0;
slider.step = 0.05;
slider.oninput = () => { playing = false; button.textContent = "play"; time = +slider.value; show(time); };
button.onclick = () => {
  playing = !playing;
  button.textContent = playing ? "pause" : "play";
  if (playing && time >= last) time = 0;
  before = 0;
  if (playing) requestAnimationFrame(tick);
};
function tick(now) {
  if (!playing) return;
  if (before) time = Math.min(last, time + (now - before) / 700);
  before = now;
  slider.value = time;
  show(time);
  if (time >= last) { playing = false; button.textContent = "play"; return; }
  requestAnimationFrame(tick);
}
show(0);
"""
