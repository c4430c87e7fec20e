"""The page of an experiment: claims next to the paper's figures, what follows, and every chart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from msgspec import structs

from roost.experiments.frame import Claim
from roost.experiments.report import Report
from roost.papers import cited
from roost.pictures import page as pages
from roost.pictures.charts import Chart, number


def page(report: Report) -> str:
    """The whole page, as HTML."""
    return pages.page(report.experiment.name, cited(report.experiment.what), _parts(report))


def for_people(chart: Chart) -> Chart:
    """With papers called by their authors."""
    series = tuple(structs.replace(line, name=cited(line.name)) for line in chart.series)
    return structs.replace(
        chart, id=cited(chart.id), title=cited(chart.title), note=cited(chart.note), series=series
    )


def _parts(report: Report) -> Iterator[str]:
    yield from _summary(report)
    yield "<h2>Claims</h2>"
    yield from _claims(report.claims)
    if report.findings:
        yield "<h2>What is reached, and under which conditions</h2>"
        yield "<ul>"
        for text in report.findings:
            yield f"<li>{escape(cited(text))}</li>"
        yield "</ul>"
    for name in report.pages:
        yield f'<p><a href="{escape(name)}">{escape(name)}</a></p>'
    yield "<h2>Graphs</h2>"
    yield from pages.figures(map(for_people, report.charts))


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
        f"<p>Scale {escape(report.scale.name)}: {escape(cited(report.scale.what))};"
        f" means over {len(report.seeds)} seed{'s' * (len(report.seeds) != 1)}."
        f" {held} of {len(report.claims)} claims hold."
        + (f" {checks['delivered']:,} deliveries, {promises}." if any(checks.values()) else "")
        + "</p>"
    )
    if report.failed:
        yield (
            f"<p><strong>{len(report.failed):,} of {report.cells:,} cells failed</strong>, the first"
            f" with: {escape(report.failed[0].error or '')}</p>"
        )


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{n:,} {name.replace('_', ' ')}" for name, n in counts.items())


def between(claim: Claim) -> str:
    """Where its figure lies over the seeds, in words."""
    if claim.interval is None:
        return ""
    low, high = map(number, claim.interval)
    return f"{low} to {high}" if low != high else low


def _claims(claims: Sequence[Claim]) -> Iterator[str]:
    yield (
        '<table><tr><th>where</th><th>what</th><th class="n">the paper</th><th class="n">ours</th>'
        '<th class="n">95 % of confidence</th>'
        "<th>unit</th><th>criterion</th><th>holds</th></tr>"
    )
    for claim in claims:
        paper = "" if claim.paper is None else number(claim.paper)
        ours = "-" if claim.ours is None else number(claim.ours)
        holds = "yes" if claim.holds else "no"
        yield (
            f'<tr class="{holds}"><td>{escape(cited(claim.id))}</td><td>{escape(cited(claim.what))}</td>'
            f'<td class="n">{paper}</td><td class="n">{ours}</td><td class="n">{between(claim)}</td>'
            f"<td>{escape(claim.unit)}</td>"
            f'<td>{escape(claim.criterion)}</td><td class="{holds}">{holds}</td></tr>'
        )
    yield "</table>"
