"""The page of an experiment: claims next to the paper's figures, what follows, and every chart.

One file that needs nothing else, neither a script nor a network.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from roost.experiments.charts import draw, number
from roost.experiments.frame import Chart, Claim
from roost.experiments.report import Report

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


def page(report: Report) -> str:
    """The whole page, as HTML."""
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(report.experiment.name)}</title><style>{STYLE}</style></head><body>",
        f"<h1>{escape(report.experiment.name)}</h1>",
        f'<p class="lead">{escape(report.experiment.what)}</p>',
        *_summary(report),
        "<h2>Claims</h2>",
        *_claims(report.claims),
    ]
    if report.findings:
        parts += ["<h2>What is reached, and under which conditions</h2>", "<ul>"]
        parts += [f"<li>{escape(text)}</li>" for text in report.findings]
        parts.append("</ul>")
    parts += ["<h2>Graphs</h2>", '<div class="charts">']
    for chart in report.charts:
        parts += _figure(chart)
    parts += ["</div>", "</body></html>"]
    return "\n".join(parts) + "\n"


def _summary(report: Report) -> Iterator[str]:
    held = sum(claim.holds for claim in report.claims)
    checks = report.checks
    breaches = {name: n for name, n in checks.items() if name != "delivered" and n}
    promises = (
        f"broken promises: {_counts(breaches)}"
        if breaches
        else "none lost, doubled, reordered or unwanted, no error in any table"
    )
    yield (
        f"<p>Scale {escape(report.scale.name)}: {escape(report.scale.what)};"
        f" means over {len(report.seeds)} seed{'s' * (len(report.seeds) != 1)}."
        f" {held} of {len(report.claims)} claims hold."
        f" {checks['delivered']:,} deliveries, {promises}.</p>"
    )
    if report.failed:
        yield (
            f"<p><strong>{len(report.failed):,} of {report.cells:,} cells failed</strong>, the first"
            f" with: {escape(report.failed[0].error or '')}</p>"
        )


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{n:,} {name.replace('_', ' ')}" for name, n in counts.items())


def _claims(claims: Sequence[Claim]) -> Iterator[str]:
    yield (
        '<table><tr><th>where</th><th>what</th><th class="n">the paper</th><th class="n">ours</th>'
        "<th>unit</th><th>criterion</th><th>holds</th></tr>"
    )
    for claim in claims:
        paper = "" if claim.paper is None else number(claim.paper)
        ours = "-" if claim.ours is None else number(claim.ours)
        holds = "yes" if claim.holds else "no"
        yield (
            f'<tr class="{holds}"><td>{escape(claim.id)}</td><td>{escape(claim.what)}</td>'
            f'<td class="n">{paper}</td><td class="n">{ours}</td><td>{escape(claim.unit)}</td>'
            f'<td>{escape(claim.criterion)}</td><td class="{holds}">{holds}</td></tr>'
        )
    yield "</table>"


def _figure(chart: Chart) -> Iterator[str]:
    yield "<figure>"
    yield draw(chart)
    note = f" {escape(chart.note)}" if chart.note else ""
    yield f"<figcaption>{escape(chart.id)}.{note}</figcaption>"
    yield "<details><summary>figures</summary>"
    yield from _table(chart)
    yield "</details></figure>"


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
