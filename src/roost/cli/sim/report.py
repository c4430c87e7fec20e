"""What `roost sim` shows people: progress, figures, verdicts and stories."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from roost.broker.story import Storybook
from roost.cli.decisions import CHANGES, decision_of
from roost.cli.decisions import show as show_decisions
from roost.simulation.campaign import Campaign, Outcome
from roost.simulation.run import Checks
from roost.simulation.summary import BROKER_COLUMNS, BrokerSummary, Summary

if TYPE_CHECKING:
    from roost.cli.sim.run import Result

VIOLATIONS_SHOWN = 10
MOVES_SHOWN = 10
BROKERS_SHOWN = 40
# The first column of what is no table.
LABEL_WIDTH = 15


@contextmanager
def progress(what: str, total: float) -> Iterator[Callable[[float], None]]:
    """A bar on stderr, if a person is looking; call what it gives with how much is done."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Remaining

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn(what), Remaining())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=round(total))
        yield lambda done: bar.update(task, completed=round(done))


# --- a run ------------------------------------------------------------------------------------------


def show_run(console: Console, result: Result) -> None:
    """The figures, the brokers, the verdict."""
    console.print(f"Run {result.run}", style="bold")
    show_pairs(console, result.summary.rows())
    console.print()
    show_brokers(console, result.summary)
    console.print()
    show_moves(console, result)
    show_checks(console, result.checks, result.unfinished)
    if result.tables:
        console.print("\nTrace", style="bold")
        show_pairs(console, [(table, str(path)) for table, path in result.tables.items()])


def show_moves(console: Console, result: Result) -> None:
    """What its optimisers moved, or would have; the last ones if there are many."""
    if not result.decisions:
        return
    changes = [decision_of(row._asdict()) for row in result.decisions if row.kind in CHANGES]
    made = sum(decision["acted"] for decision in changes)
    moves = "1 move" if made == 1 else f"{made:,} moves"
    console.print(f"Optimisers: {len(result.decisions):,} decisions, {moves}", style="bold")
    if changes:
        show_decisions(console, changes, MOVES_SHOWN)
    if result.tables:
        where = f"--lake {result.tables['decisions'].parents[2]} --run {result.run}"
        console.print(f"  all of them: roost decisions {where}", style="dim", soft_wrap=True)
    console.print()


def show_pairs(console: Console, rows: list[tuple[str, str]]) -> None:
    """What is what, in two columns. Not a table, which would break paths and fill up lines."""
    for label, text in rows:
        line = Text.assemble((f"  {label:<{LABEL_WIDTH}}  ", "dim"), text)
        console.print(line, soft_wrap=True)


def show_brokers(console: Console, summary: Summary) -> None:
    """A row each; of many those that have most to do."""
    brokers = list(summary.per_broker)
    console.print("Brokers, in the last sample of their load", style="bold")
    shown = busiest(brokers) if len(brokers) > BROKERS_SHOWN else brokers
    grid = Table(box=None, padding=(0, 0, 0, 2), header_style="dim")
    for number, column in enumerate(BROKER_COLUMNS):
        grid.add_column(column, justify="right" if number else "left", no_wrap=True)
    for broker in shown:
        grid.add_row(*broker.row(), style="red" if broker.overloaded else None)
    console.print(grid)
    if len(brokers) > len(shown):
        console.print(f"  and {len(brokers) - len(shown):,} that have less to do", style="dim")
    for broker in brokers:
        if broker.overloaded:
            console.print(f"  {overload(broker)}", style="red")


def busiest(brokers: list[BrokerSummary]) -> list[BrokerSummary]:
    """Those with the highest utilisation, the highest first."""

    def utilisation(broker: BrokerSummary) -> float:
        load = broker.load
        return max(load.input_utilisation, load.output_utilisation) if load is not None else 0.0

    return sorted(brokers, key=utilisation, reverse=True)[:BROKERS_SHOWN]


def overload(broker: BrokerSummary) -> str:
    """What an operator would want to know."""
    since = broker.overloaded_since_s
    if since is None:
        return f"{broker.broker} is overloaded at the end (--trace tells since when)"
    return f"{broker.broker} is overloaded since {since:g} s"


def show_checks(console: Console, checks: Checks, unfinished: tuple[str, ...] = ()) -> None:
    """Each checker's verdict, and the first violations in words."""
    title = "no violations" if checks.clean else f"{violations(checks):,} violations"
    style = "bold green" if checks.clean else "bold red"
    console.print(f"Checks: {title}", style=style)
    show_pairs(console, verdicts(checks))
    show_violations(console, checks)
    if not checks.rested:
        why = f" ({'; '.join(unfinished)})" if unfinished else ""
        console.print(
            f"  not at rest: {checks.in_transit:,} events in transit, tables not judged{why}",
            style="yellow",
        )


def violations(checks: Checks) -> int:
    """How many there are of all kinds."""
    return sum(count for _, count in counts(checks))


def counts(checks: Checks) -> list[tuple[str, int]]:
    """What can be wrong, by the names that people use."""
    return [
        ("lost", checks.lost),
        ("doubled", checks.doubled),
        ("reordered", checks.reordered),
        ("unwanted", checks.unwanted),
        ("routing errors", checks.routing_errors),
        ("accounts", checks.account_errors),
        ("queues", checks.queue_errors),
    ]


def verdicts(checks: Checks) -> list[tuple[str, str]]:
    """What each checker says."""
    judges = {"routing errors": checks.routing_judged, "queues": checks.rested}
    rows = [("delivered", f"{checks.delivered:,}")]
    for name, count in counts(checks):
        judged = judges.get(name, True) or count
        rows.append((name, f"{count:,}" if count else "none" if judged else "not judged"))
    return rows


def show_violations(console: Console, checks: Checks) -> None:
    """The first of them."""
    for text in checks.violations[:VIOLATIONS_SHOWN]:
        console.print(Padding(text, (0, 0, 0, 2), expand=False), style="red")
    more = len(checks.violations) - VIOLATIONS_SHOWN
    if more > 0:
        console.print(f"  and {more:,} more", style="red")


def show_story(console: Console, id_: str, storybook: Storybook) -> None:
    """All that was said about something, in order."""
    chapters = storybook.story(id_)
    console.print(f"\nThe story of {id_}", style="bold")
    if not chapters:
        console.print("  nobody said anything about it")
    for chapter in chapters:
        console.print(str(chapter), soft_wrap=True)


# --- random scenarios -------------------------------------------------------------------------------


def show_failure(console: Console, outcome: Outcome, replay: str, saved: Path | None) -> None:
    """A seed that failed: what happened, and how to see it again."""
    console.print(f"seed {outcome.seed}", style="bold red")
    show_violations(console, outcome.checks)
    console.print(f"  replay: {replay}", soft_wrap=True)
    if saved is not None:
        console.print(f"  saved:  {saved}", soft_wrap=True)


def show_campaign(console: Console, campaign: Campaign) -> None:
    """How clients moved, and the last line."""
    moves = campaign.moves
    show_pairs(
        console,
        [
            ("moves finished", f"{moves.finished:,}"),
            ("of these", f"{moves.migrated:,} migrated their advertisements along the path"),
            ("moves abandoned", f"{moves.abandoned:,}"),
        ],
    )
    seeds, wrong = campaign.seeds, len(campaign.wrong)
    what = (
        f"{seeds:,} scenario{'s' if seeds > 1 else ''}, {campaign.delivered:,} deliveries checked"
    )
    if wrong:
        console.print(f"{what}, violations in {wrong:,}", style="bold red")
    else:
        console.print(f"{what}, no violations", style="bold green")
