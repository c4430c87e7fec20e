"""The main part of `roost demo`: a live federation, GRAPE at work in it, and what came of that."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from roost.bench.demo.plan import Plan
    from roost.bench.demo.report import Report
    from roost.bench.demo.run import Played, Stage
    from roost.cli.demo.joining import Joining

TITLE = "A live federation that rearranges itself"


def set_up(console: Console, lake: Path, *, fast: bool) -> Stage:
    """The brokers begin to start; whoever gets them ends them."""
    announce(console, "starting brokers in the background ...")
    # Only now, for it takes a moment.
    from roost.bench.demo.plan import BROKERS
    from roost.bench.demo.run import FAST, USUAL, Stage
    from roost.matching.kernels.jit import is_compiled
    from roost.overlay.topologies import balanced_tree
    from roost.runtime.warming import warm_up

    if not is_compiled():  # each process of brokers would compile the same
        warm_up(partial(announce, console))
    return Stage(balanced_tree(BROKERS), FAST if fast else USUAL, lake)


def announce(console: Console, what: str) -> None:
    """What takes a while."""
    console.print(what, style="dim")


def show(
    console: Console, stage: Stage, spark: Joining, picture: Path, began: float
) -> dict[str, Any]:
    """From the first event to the picture; the facts of it."""
    from roost.bench.demo.plan import plan_of
    from roost.bench.demo.report import facts, report_of
    from roost.cli.demo.view import View

    plan = plan_of(stage.longest_s)
    show_plan(console, plan)
    with View(console) as view:
        played = stage.play(plan, view.watch, spark.is_here)
    announce(console, "Spark reads what the brokers recorded ...\n")
    report = report_of(spark.session(), plan, played)
    picture.write_text(picture_of(plan, report, played), "utf-8")
    show_report(console, report, played, picture)
    return {**facts(report, played, plan, time.monotonic() - began), "picture": str(picture)}


def holds(shown: dict[str, Any]) -> bool:
    """Whether the demo has shown what it is to show."""
    checks = shown["checks"]
    wrong = checks["lost"] + checks["doubled"] + checks["reordered"] + checks["unwanted"]
    return not wrong and all(claim["holds"] for claim in shown["claims"])


# --- what is said -----------------------------------------------------------------------------------


def show_plan(console: Console, plan: Plan) -> None:
    """Who is where."""
    from rich.padding import Padding

    console.print(f"\n{TITLE}", style="bold")
    words = (
        f"{len(plan.topology.brokers)} brokers linked as a tree, on real sockets;"
        f" {len(plan.publishers)} publishers of stock quotes and {len(plan.subscribers)} subscribers."
        " Each publisher's subscribers are close to each other, and the publisher is at the other end of"
        " the tree. GRAPE is to find that out."
    )
    # However wide the terminal is, no line is broken twice.
    console.print(Padding(words, (0, 0, 1, 2), expand=False))


def show_report(console: Console, report: Report, played: Played, picture: Path) -> None:
    """The table, the verdict, and where the picture is."""
    from rich.table import Table

    table = Table(
        title="Before and after, computed by Spark from the brokers' traces", title_justify="left"
    )
    table.add_column("")
    for name in ("before", "after", "change"):
        table.add_column(name, justify="right")
    for line in report.lines:
        table.add_row(f"{line.what} ({line.unit})" if line.unit else line.what, *line.words)
    console.print(table)
    verdict, moves = played.judged.verdict, [m for m in played.scene.moves if m.acted]
    console.print(
        f"{len(moves)} moves. An oracle outside, which knows only what was published and who asked for"
        f" what: of {verdict.published:,} events and {verdict.delivered:,} deliveries {verdict.lost} lost,"
        f" {verdict.doubled} doubled, {verdict.reordered} reordered; none took longer than"
        f" {played.judged.delay_max_ms:,.0f} ms.",
        style="green" if verdict.clean else "red",
    )
    for claim in report.claims:
        what = f"{claim.what} by {claim.ours:.0f} %, at least {claim.expected:.0f} % was promised"
        if claim.holds:
            console.print(f"  {what}", style="green")
        else:
            console.print(f"  {what}: NOT KEPT", style="red")
    console.print(f"A picture of it: {picture}\n", soft_wrap=True)


def picture_of(plan: Plan, report: Report, played: Played) -> str:
    """With the audiences in colours."""
    from roost.pictures.before_after import Row, picture

    # Two leaves below the same broker have one.
    above = list(dict.fromkeys(upper for upper, _ in plan.audiences))
    groups: dict[str, int] = {}
    for publisher, audience in zip(plan.publishers, plan.audiences, strict=True):
        groups |= dict.fromkeys((publisher.name, *audience), above.index(audience[0]))
    rows = [
        Row(f"{line.what} ({line.unit})".replace(" ()", ""), *line.words) for line in report.lines
    ]
    verdict = played.judged.verdict
    return picture(
        plan.topology,
        groups,
        report.halves,
        rows,
        TITLE,
        f"{verdict.published:,} events, {verdict.delivered:,} deliveries: {verdict.lost} lost,"
        f" {verdict.doubled} doubled, {verdict.reordered} reordered. Computed by Spark from the brokers'"
        " traces.",
    )
