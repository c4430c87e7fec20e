"""Charts: lines over a common axis.

Every line has a colour and a mark of its own, so that lines are told apart by any eyes and in grey print. The
value of a mark is shown where the pointer rests on it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct

from roost.pictures.svg import BLUE, INK, ORANGE, VERMILION, document, escaped, text

WIDTH, HEIGHT = 620.0, 380.0
LEFT, RIGHT, TOP = 66.0, 16.0, 34.0
BELOW = 52.0  # ticks and the name of the axis
BESIDE = 36.0  # the name of the other axis, and gaps on both sides of its ticks
INSET = 12.0  # between the frame and the first and last points
LEGEND_ROW = 20.0
LETTER = 6.6  # about the width of one, at the size of the legend
COLOURS = ("#000000", BLUE, VERMILION, "#009E73", "#CC79A7", ORANGE, "#56B4E9", "#7A5C00")
MARKS = ("circle", "square", "triangle", "diamond", "down", "cross")
GRID = "#DDDDDD"
TICKS = 5
MARKS_MAX = 40  # a line of more points is drawn without


class Series(Struct, frozen=True):
    """A line of a chart."""

    name: str
    points: tuple[tuple[float, float], ...]


class Chart(Struct, frozen=True, kw_only=True):
    """A graph, and the figures in it."""

    id: str  # of a paper's graph: "000 fig 5a"; several charts may be of one
    title: str
    x: str
    y: str
    series: tuple[Series, ...]
    doubling: bool = False  # each x is about twice the one before
    note: str = ""


class _Scale(NamedTuple):
    """From values to places."""

    low: float
    high: float
    start: float
    end: float
    doubling: bool = False

    def at(self, value: float) -> float:
        low, high = self.low, self.high
        if self.doubling:
            value, low, high = math.log2(value), math.log2(low), math.log2(high)
        share = (value - low) / (high - low) if high > low else 0.5
        return self.start + share * (self.end - self.start)


def draw(chart: Chart) -> str:
    """The chart as an SVG document."""
    series = [line for line in chart.series if line.points]
    rows = _legend_rows([line.name for line in series])
    lines = [text(LEFT, 20, chart.title, 14, bold=True)]
    if series:
        across, up = _scales(chart, series)
        lines += _axes(chart, series, across, up)
        for number, line in enumerate(series):
            lines += _line(line, number, across, up)
        lines += _legend(rows)
    else:
        lines.append(text(LEFT, HEIGHT / 2, "no figures"))
    return document(WIDTH, HEIGHT + LEGEND_ROW * len(rows), chart.title, lines)


def _scales(chart: Chart, series: Sequence[Series]) -> tuple[_Scale, _Scale]:
    xs = [x for line in series for x, _ in line.points]
    ys = [y for line in series for _, y in line.points]
    low, high = min(0.0, *ys), max(0.0, *ys)
    step = _step(high - low)
    up = _Scale(
        math.floor(low / step) * step, math.ceil(high / step) * step, HEIGHT - BELOW, TOP + 6
    )
    longest = max(len(number(tick)) for tick in _ticks(up.low, up.high))
    left = max(LEFT, BESIDE + LETTER * longest)
    across = _Scale(min(xs), max(xs), left + INSET, WIDTH - RIGHT - INSET, chart.doubling)
    return across, up


def _step(extent: float) -> float:
    """A round number, about a fifth of it."""
    if extent <= 0:
        return 1.0
    rough = extent / TICKS
    power: float = 10.0 ** math.floor(math.log10(rough))
    return next(power * m for m in (1, 2, 2.5, 5, 10) if power * m >= rough * 0.999)


def _ticks(low: float, high: float) -> list[float]:
    step = _step(high - low)
    first = math.ceil(low / step - 1e-9)
    return [n * step for n in range(first, math.floor(high / step + 1e-9) + 1)]


def _axes(chart: Chart, series: Sequence[Series], across: _Scale, up: _Scale) -> Iterator[str]:
    bottom, left = up.start, across.start - INSET
    for tick in _ticks(up.low, up.high):
        y = up.at(tick)
        yield f'<line x1="{left:g}" x2="{WIDTH - RIGHT:g}" y1="{y:.1f}" y2="{y:.1f}" stroke="{GRID}"/>'
        yield text(left - 8, y + 4, number(tick), anchor="end")
    xs = sorted({x for line in series for x, _ in line.points})
    for tick in xs if chart.doubling else _ticks(across.low, across.high):
        x = across.at(tick)
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{bottom:g}" y2="{bottom + 4:g}" stroke="{INK}"/>'
        yield text(x, bottom + 18, number(tick), anchor="middle")
    yield (
        f'<line x1="{left:g}" x2="{WIDTH - RIGHT:g}" y1="{bottom:g}" y2="{bottom:g}"'
        f' stroke="{INK}"/>'
    )
    yield text((left + WIDTH - RIGHT) / 2, bottom + 38, chart.x, anchor="middle")
    y = (up.start + up.end) / 2
    yield (
        f'<text transform="translate(16 {y:g}) rotate(-90)" text-anchor="middle" fill="{INK}">'
        f"{escaped(chart.y)}</text>"
    )


def _line(line: Series, index: int, across: _Scale, up: _Scale) -> Iterator[str]:
    colour = COLOURS[index % len(COLOURS)]
    places = [(across.at(x), up.at(y)) for x, y in line.points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8"/>'
    if len(places) > MARKS_MAX:
        return
    for (x, y), (value, height) in zip(places, line.points, strict=True):
        told = escaped(f"{line.name}: {number(height)} at {number(value)}")
        yield f"<g><title>{told}</title>{_mark(index, x, y)}</g>"


def _mark(index: int, x: float, y: float) -> str:
    colour = COLOURS[index % len(COLOURS)]
    shape = MARKS[index % len(MARKS)]
    if shape == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.8" fill="{colour}"/>'
    outlines = {
        "square": ((-3.5, -3.5), (3.5, -3.5), (3.5, 3.5), (-3.5, 3.5)),
        "triangle": ((0, -4.6), (4.4, 3.4), (-4.4, 3.4)),
        "diamond": ((0, -4.8), (4.8, 0), (0, 4.8), (-4.8, 0)),
        "down": ((0, 4.6), (4.4, -3.4), (-4.4, -3.4)),
        "cross": (
            *((-1.3, -4.2), (1.3, -4.2), (1.3, -1.3), (4.2, -1.3), (4.2, 1.3), (1.3, 1.3)),
            *((1.3, 4.2), (-1.3, 4.2), (-1.3, 1.3), (-4.2, 1.3), (-4.2, -1.3), (-1.3, -1.3)),
        ),
    }
    points = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in outlines[shape])
    return f'<polygon points="{points}" fill="{colour}"/>'


def _legend_rows(names: Sequence[str]) -> list[list[tuple[int, str]]]:
    """As many to a row as fit."""
    rows: list[list[tuple[int, str]]] = []
    room = 0.0
    for index, name in enumerate(names):
        width = _legend_width(name)
        if not rows or width > room:
            rows.append([])
            room = WIDTH - LEFT - RIGHT
        rows[-1].append((index, name))
        room -= width
    return rows


def _legend_width(name: str) -> float:
    return 40 + LETTER * len(name)


def _legend(rows: Sequence[Sequence[tuple[int, str]]]) -> Iterator[str]:
    for row, entries in enumerate(rows):
        x, y = LEFT, HEIGHT + LEGEND_ROW * row
        for index, name in entries:
            colour = COLOURS[index % len(COLOURS)]
            yield (
                f'<line x1="{x:.1f}" x2="{x + 22:.1f}" y1="{y:g}" y2="{y:g}" stroke="{colour}"'
                ' stroke-width="1.8"/>'
            )
            yield _mark(index, x + 11, y)
            yield text(x + 28, y + 4, name)
            x += _legend_width(name)


def number(value: float) -> str:
    """Three digits, or all of a whole number."""
    if value == 0:
        return "0"
    if abs(value) >= 1000 or float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:.3g}"
