"""The page on recorded runs: traffic, delays and loads over time, overlays, decisions, what was predicted.

It is one file that asks for nothing else and has no script: pictures are SVG (`roost.pictures`), long series
are thinned to a few hundred points beforehand (`series`). Light or dark, as its reader likes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

import msgspec
import numpy as np

from roost.overlay.trees import Link, Topology, first_fault
from roost.pictures import page as pages
from roost.pictures.charts import Chart
from roost.pictures.charts import Series as Line
from roost.pictures.overlays import draw_svg
from roost.pipeline.plans.plan import Plan
from roost.pipeline.reports.series import Decided, Edge, Floats, Series
from roost.pipeline.sweeps.tasks import Row

# Brokers of which each has a line; of the others there are the mean and the highest.
LINES = 5
EVIDENCE_MAX = 1_500
DECISIONS_SHOWN = 100
Cells = Sequence[tuple[str, str]]  # text, and its class: "n" for figures


def report_page(
    runs: Sequence[Series], plan: Plan | None = None, compared: Mapping[str, Row] | None = None
) -> str:
    """The page on these runs, in the order of time."""
    names = ", ".join(run.run for run in runs)
    parts = ["<h2>In figures</h2>", *_summary(runs)]
    if plan is not None:
        parts += _plan(plan, runs)
    if compared:
        parts += _compared(compared)
    for run in runs:
        parts += _run(run)
    lead = f"{len(runs)} recorded run{'s' if len(runs) > 1 else ''}: {names}"
    return pages.page("Roost: what was recorded", lead, parts)


# --- tables ---------------------------------------------------------------------------------------------


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], words: int = 1) -> Iterator[str]:
    """A table whose first columns are words, and the others figures."""
    yield "<table><tr>"
    for number, text in enumerate(head):
        yield f"<th{_class(number, words)}>{escape(text)}</th>"
    yield "</tr>"
    for row in rows:
        cells = (f"<td{_class(n, words)}>{escape(text)}</td>" for n, text in enumerate(row))
        yield f"<tr>{''.join(cells)}</tr>"
    yield "</table>"


def _class(column: int, words: int) -> str:
    return "" if column < words else ' class="n"'


def _summary(runs: Sequence[Series]) -> Iterator[str]:
    head = (
        "run",
        "kind",
        "seconds",
        "brokers",
        "published/s",
        "messages/s",
        "delivered/s",
        "delay, mean",
        "delay, p99",
        "busiest",
        "decisions",
    )
    yield from _table(head, [_summary_row(run) for run in runs], 2)


def _summary_row(run: Series) -> list[str]:
    broker, busy = run.busiest
    return [
        run.run,
        run.kind,
        f"{run.seconds:,.0f}",
        f"{len(run.brokers):,}",
        f"{run.total_published / run.seconds:,.1f}",
        f"{run.total_messages / run.seconds:,.1f}",
        f"{run.total_delivered / run.seconds:,.1f}",
        _ms(run.total_mean_s),
        _ms(run.total_p99_s),
        f"{100 * busy:.3g} % ({broker})",
        f"{run.decided:,}",
    ]


def _ms(seconds: float) -> str:
    return "" if np.isnan(seconds) else f"{1e3 * seconds:,.3g} ms"


# --- over time ------------------------------------------------------------------------------------------


def _run(run: Series) -> Iterator[str]:
    yield f"<h2>{escape(run.run)}</h2>"
    yield from pages.figures(
        [
            Chart(
                id=run.run,
                title="Traffic",
                x="seconds",
                y="a second",
                series=(
                    _line("published", run.times, run.published),
                    _line("messages between brokers", run.times, run.messages),
                    _line("delivered", run.times, run.delivered),
                ),
                note=f"Means over {run.width_s:.3g} s.",
            ),
            Chart(
                id=run.run,
                title="Delay of deliveries",
                x="seconds",
                y="ms",
                series=(
                    _line("mean", run.times, 1e3 * run.mean_s),
                    _line("p50", run.times, 1e3 * run.p50_s),
                    _line("p99", run.times, 1e3 * run.p99_s),
                ),
                note="From publishing until matched where it is delivered; quantiles to 2 %.",
            ),
            Chart(
                id=run.run,
                title="How busy brokers are",
                x="seconds",
                y="utilisation, %",
                series=tuple(_loads(run)),
                note="The higher of input and output.",
            ),
        ]
    )
    yield "<h3>Overlay</h3>"
    yield from _overlays(run)
    yield "<h3>Decisions</h3>"
    yield from _decisions(run)


def _line(name: str, times: Floats, values: Floats) -> Line:
    points = zip(times.tolist(), values.tolist(), strict=True)
    return Line(name, tuple((x, y) for x, y in points if not np.isnan(y)))


def _loads(run: Series) -> Iterator[Line]:
    means = {b: float(np.nanmean(u)) for b, u in run.utilisation.items() if not np.isnan(u).all()}
    first = sorted(means, key=lambda broker: (-means[broker], broker))[:LINES]
    if len(means) > len(first):
        rows = np.array([run.utilisation[broker] for broker in means])
        known = ~np.isnan(rows).all(0)
        mean = np.full(rows.shape[1], np.nan)
        mean[known] = np.nanmean(rows[:, known], 0)
        yield _line(f"mean of {len(means)}", run.times, 100 * mean)
    for broker in first:
        yield _line(broker, run.times, 100 * run.utilisation[broker])


def _overlays(run: Series) -> Iterator[str]:
    yield '<div class="charts">'
    same = set(run.links_before) == set(run.links_after)
    for title, links in (("at the beginning", run.links_before), ("at the end", run.links_after)):
        yield f"<figure>{_overlay(run, title, links)}"
        yield f"<figcaption>Overlay {title}. Links are as wide as what they carried.</figcaption></figure>"
    yield "</div>"
    if same:
        yield "<p>No link has moved.</p>"


def _overlay(run: Series, title: str, links: Mapping[Edge, float]) -> str:
    brokers = tuple(sorted(set(run.brokers) | {end for link in links for end in link}))
    topology = Topology(brokers, tuple(Link(a, b) for a, b in links))
    fault = first_fault(topology)
    if fault is not None:
        return f"<p>It can't be drawn: {escape(fault.what)}.</p>"
    return draw_svg(topology, title, {frozenset(link): rate for link, rate in links.items()})


# --- decisions ------------------------------------------------------------------------------------------


def _decisions(run: Series) -> Iterator[str]:
    shown = run.decisions[-DECISIONS_SHOWN:]
    if not shown:
        yield "<p>Nothing was moved.</p>"
        return
    if len(run.decisions) > len(shown):
        yield f"<p>The last {len(shown)} of {run.decided:,}.</p>"
    yield "<table><tr><th class='n'>s</th><th>by</th><th>what</th><th>why</th>"
    yield "<th class='n'>predicted</th><th class='n'>measured</th><th>evidence</th></tr>"
    for each in shown:
        yield (
            f"<tr><td class='n'>{each.time:,.1f}</td><td>{escape(each.module)}</td>"
            f"<td>{escape(_what(each))}</td><td>{escape(each.why)}</td>"
            f"<td class='n'>{escape(_figures(each.predicted))}</td>"
            f"<td class='n'>{escape(_figures(each.measured))}</td><td>{_evidence(each)}</td></tr>"
        )
    yield "</table>"


def _what(each: Decided) -> str:
    if each.kind == "outcome":
        return f"outcome of {each.subject}"
    done = "" if each.acted else "would "
    if each.kind == "rewire":
        return f"{done}link {each.subject} to {each.choice}"
    return f"{done}move {each.subject} from {each.broker} to {each.choice}"


def _figures(said: Mapping[str, float]) -> str:
    words = []
    if "load_per_s" in said:
        words.append(f"{said['load_per_s']:,.2f}/s")
    if "delay_s" in said:
        words.append(f"{1e3 * said['delay_s']:,.3g} ms")
    if "saves" in said:
        words.append(f"saves {said['saves']:,.4g}")
    return ", ".join(words)


def _evidence(each: Decided) -> str:
    text = msgspec.json.format(msgspec.json.encode(each.evidence), indent=1).decode()
    cut = text if len(text) <= EVIDENCE_MAX else text[:EVIDENCE_MAX] + " ..."
    return f"<details><summary>show</summary><pre>{escape(cut)}</pre></details>"


# --- plans and comparisons ------------------------------------------------------------------------------


def _plan(plan: Plan, runs: Sequence[Series]) -> Iterator[str]:
    yield f"<h2>Plan {escape(plan.id)}</h2>"
    yield f"<p>Made from {plan.seconds:,.0f} s of {escape(plan.run)}; {len(plan.steps)} steps.</p>"
    measured = [
        [
            f"measured: {run.run}",
            f"{run.total_messages / run.seconds:,.2f}",
            _ms(run.total_mean_s),
            f"{100 * run.busiest[1]:.3g} %",
        ]
        for run in runs
    ]
    predicted = [
        [name, f"{e.load_per_s:,.2f}", _ms(e.delay_s), f"{100 * e.busiest:.3g} %"]
        for name, e in (("before, by the model", plan.before), ("predicted", plan.after))
    ]
    yield from _table(("", "messages/s", "delay", "busiest"), [*predicted, *measured])
    yield "<h3>Each optimiser alone, as predicted</h3>"
    yield from _table(
        ("who", "messages/s", "delay", "busiest", "weighted sum", "moves"),
        [
            [
                one.who,
                f"{one.effect.load_per_s:,.2f}",
                _ms(one.effect.delay_s),
                f"{100 * one.effect.busiest:.3g} %",
                f"{one.cost:.3f}",
                f"{one.steps:,}",
            ]
            for one in plan.alone
        ],
    )
    yield "<h3>What was chosen</h3>"
    yield from _table(
        ("#", "by", "what", "why", "messages/s", "delay"),
        [
            [
                str(each.number),
                each.by,
                each.wish,
                each.why,
                f"{each.before.load_per_s:,.2f} → {each.after.load_per_s:,.2f}",
                f"{_ms(each.before.delay_s)} → {_ms(each.after.delay_s)}",
            ]
            for each in plan.decisions
        ],
        4,
    )
    if plan.conflicts:
        yield f"<details><summary>{len(plan.conflicts)} conflicts</summary><ul>"
        for conflict in plan.conflicts:
            yield f"<li>{escape(conflict.by)}: <b>{escape(conflict.chosen)}</b><ul>"
            for other in conflict.others:
                yield f"<li>{escape(other.by)}: {escape(other.wish)}: {escape(other.why)}</li>"
            yield "</ul></li>"
        yield "</ul></details>"


def _compared(rows: Mapping[str, Row]) -> Iterator[str]:
    yield "<h2>Optimisers alone and together</h2>"
    yield "<p>The recorded workload, replayed in the simulator with each of them acting.</p>"
    head = ("who", "messages/s", "delay", "busiest", "moves", "delivered", "broken promises")
    yield from _table(
        head,
        [
            [
                name,
                f"{row['load_per_s']:,.2f}",
                _ms(float(row["delay_s"] or 0.0)),
                f"{100 * float(row['busiest'] or 0.0):.3g} % ({row['busiest_broker']})",
                f"{row['moves']:,}",
                f"{row['delivered']:,}",
                f"{row['violations']:,}",
            ]
            for name, row in rows.items()
        ],
    )
