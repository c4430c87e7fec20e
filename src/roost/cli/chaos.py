"""`roost chaos`: brokers are killed, stopped and run out of disk under load; nothing may be lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from roost.cli.console import people, print_json

if TYPE_CHECKING:
    from roost.bench.chaos.run import Verdict

EXIT_VIOLATIONS = 1

EXAMPLES = """\b
Examples:
  roost chaos
  roost chaos --kills 3 --stops 1 --fills 1 --events 20000
  roost chaos --seed 12 --json
"""


def register(app: typer.Typer) -> None:
    app.command("chaos", epilog=EXAMPLES)(chaos)


def chaos(
    kills: Annotated[int, typer.Option(min=0, help="How often a broker is killed (-9).")] = 50,
    stops: Annotated[int, typer.Option(min=0, help="How often one is stopped for 5 s.")] = 5,
    fills: Annotated[int, typer.Option(min=0, help="How often one's disk is full for 3 s.")] = 5,
    events: Annotated[int, typer.Option(min=1, help="At least so many.")] = 1_000_000,
    seed: Annotated[int, typer.Option(min=0, help="Of the faults.")] = 1,
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Real brokers, real faults, durable subscriptions: of all acknowledged events none may be lost.

    A chain of three brokers with their stores, a publisher at one end, a durable subscriber at each. To fill
    a disk takes the right to mount one (root); without it those rounds are left out, and that is said.
    """
    import asyncio

    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from roost.bench.chaos.run import run

    total = kills + stops + fills
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("faults"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as progress:
        task = progress.add_task("", total=total)

        def say(what: str, done: int, acknowledged: int) -> None:
            progress.update(task, completed=done, description=f"{what} ({acknowledged:,} events)")

        verdict = asyncio.run(
            run(seed, kills=kills, stops=stops, fills=fills, events=events, say=say)
        )
    if json_:
        print_json(as_json(verdict, seed))
    else:
        show(verdict, seed)
    if not verdict.clean:
        raise typer.Exit(EXIT_VIOLATIONS)


def as_json(verdict: Verdict, seed: int) -> dict[str, Any]:
    recoveries = [done.recovery_s for done in verdict.rounds]
    return {
        "run": f"chaos-{seed}",
        "summary": {
            "rounds": len(verdict.rounds),
            "not_run": verdict.not_run,
            "published": verdict.published,
            "acknowledged": verdict.acknowledged,
            "received": verdict.received,
            "recovery_s_max": max(recoveries, default=0.0),
            "seconds": verdict.seconds,
            "stuck": verdict.stuck,
        },
        "checks": {
            "delivered": sum(verdict.received.values()),
            "lost": verdict.lost,
            "doubled": verdict.doubled,
            "reordered": verdict.reordered,
            "routing_errors": 0,
        },
    }


def show(verdict: Verdict, seed: int) -> None:
    from rich.table import Table

    console = people()
    table = Table(title=f"Chaos, seed {seed}", title_justify="left")
    for column in ("fault", "broker", "rounds", "recovery s: mean", "worst"):
        table.add_column(column, justify="left" if column in ("fault", "broker") else "right")
    kinds = sorted({(done.round.fault, done.round.broker) for done in verdict.rounds})
    for fault, broker in kinds:
        times = [
            d.recovery_s
            for d in verdict.rounds
            if (d.round.fault, d.round.broker) == (fault, broker)
        ]
        mean = sum(times) / len(times)
        table.add_row(fault, broker, str(len(times)), f"{mean:.2f}", f"{max(times):.2f}")
    console.print(table)
    console.print(
        f"{verdict.acknowledged:,} events acknowledged of {verdict.published:,} published, in"
        f" {verdict.seconds:.0f} s, to {len(verdict.received)} durable subscribers:"
        f" {verdict.lost:,} lost, {verdict.doubled:,} doubled, {verdict.reordered:,} out of order."
    )
    if verdict.not_run:
        console.print(f"{verdict.not_run} rounds with a full disk need root, and were left out.")
    if verdict.stuck:
        console.print(f"Stuck: {verdict.stuck}.")
    if not verdict.clean:
        console.print(f"Again: roost chaos --seed {seed}")
