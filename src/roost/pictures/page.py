"""Pages of HTML: a heading, tables and charts in one file that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from roost.pictures.charts import Chart, draw, number

# Those who like it dark get it so, pictures too: what they are painted with stands in their attributes, which
# a style overrules.
DARK = """
@media (prefers-color-scheme: dark) {
  :root { color-scheme: dark; }
  body { color: #ddd; background: #16181c; } p.lead, figcaption { color: #aaa; }
  th, td { border-bottom-color: #3a3f47; } th { border-bottom-color: #777; } svg { border-color: #3a3f47; }
  td.yes { color: #4cd0a0; } td.no { color: #ff8a95; } tr.no { background: #3a1d22; }
  svg > rect[fill="#FFFFFF"] { fill: #1d2026; } svg text[fill="#222222"] { fill: #ddd; }
  svg g[fill="#222222"] { fill: #ddd; } svg g > rect[fill="#FFFFFF"]:not([stroke]) { fill: #1d2026; }
  svg [stroke="#222222"] { stroke: #bbb; } svg [stroke="#DDDDDD"] { stroke: #3a3f47; }
  svg polyline[stroke="#000000"], svg line[stroke="#000000"] { stroke: #f0f0f0; }
  svg circle[fill="#000000"], svg polygon[fill="#000000"] { fill: #f0f0f0; }
  svg polyline[stroke="#0072B2"], svg line[stroke="#0072B2"] { stroke: #4aa8e0; }
  svg circle[fill="#0072B2"], svg polygon[fill="#0072B2"] { fill: #4aa8e0; }
}
"""
STYLE = """
body { font: 15px/1.5 Helvetica, Arial, 'DejaVu Sans', sans-serif; color: #222; background: #fff;
       max-width: 1320px; margin: 24px auto; padding: 0 20px; }
h1 { font-size: 24px; margin-bottom: 4px; } h2 { font-size: 18px; margin-top: 32px; }
p.lead { color: #555; margin-top: 0; }
table { border-collapse: collapse; font-size: 13px; }
th, td { padding: 4px 10px; border-bottom: 1px solid #ddd; text-align: left; vertical-align: top; }
th { border-bottom: 2px solid #888; } td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
td.yes { color: #006a4e; font-weight: bold; } td.no { color: #b00020; font-weight: bold; }
tr.no { background: #fdecee; }
.charts { display: flex; flex-wrap: wrap; gap: 24px; } figure { margin: 0; max-width: 620px; }
figcaption { font-size: 13px; color: #555; } svg { max-width: 100%; height: auto; border: 1px solid #ddd; }
details { font-size: 13px; margin-top: 4px; } li { margin-bottom: 4px; }
"""


# Of a longer series nobody reads the figures.
TABLE_MAX = 100


def page(title: str, lead: str, parts: Iterable[str]) -> str:
    """The whole page; `parts` are what stands below its heading, as HTML."""
    lines = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title><style>{STYLE}{DARK}</style></head><body>",
        f"<h1>{escape(title)}</h1>",
        f'<p class="lead">{escape(lead)}</p>',
        *parts,
        "</body></html>",
    ]
    return "\n".join(lines) + "\n"


def figures(charts: Iterable[Chart]) -> Iterator[str]:
    """Charts side by side, as far as there is room, each with its figures as a table to unfold."""
    yield '<div class="charts">'
    for chart in charts:
        yield from _figure(chart)
    yield "</div>"


def _figure(chart: Chart) -> Iterator[str]:
    yield "<figure>"
    yield draw(chart)
    note = f" {escape(chart.note)}" if chart.note else ""
    yield f"<figcaption>{escape(chart.id)}.{note}</figcaption>"
    if max((len(line.points) for line in chart.series), default=0) <= TABLE_MAX:
        yield "<details><summary>figures</summary>"
        yield from _table(chart)
        yield "</details>"
    yield "</figure>"


def _table(chart: Chart) -> Iterator[str]:
    """The points of a chart: a row a series."""
    xs = sorted({x for line in chart.series for x, _ in line.points})
    head = "".join(f'<th class="n">{number(x)}</th>' for x in xs)
    yield f"<table><tr><th>{escape(chart.x)}</th>{head}</tr>"
    for line in chart.series:
        values = dict(line.points)
        cells = "".join(
            f'<td class="n">{number(values[x]) if x in values else ""}</td>' for x in xs
        )
        yield f"<tr><td>{escape(line.name)}</td>{cells}</tr>"
    yield "</table>"
