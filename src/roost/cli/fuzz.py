"""`roost fuzz`: what a live broker must bear from whoever reaches its port."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from roost.cli.console import people, print_json

if TYPE_CHECKING:
    from roost.runtime.frame_fuzz_run import Report

EXIT_VIOLATIONS = 1
COUNT = 100_000
MB = 1e6

FRAMES_EXAMPLES = """\b
Starts a broker of its own and plays hostile streams to it, many at a time, while two clients
that mind their own business exchange events, which must all arrive. A seed is a round of
streams; rounds go on from it until there were as many frames as asked for.
Exit codes: 0 the broker bore it all, 1 it did not, 2 bad input.

\b
Examples:
  roost fuzz frames
  roost fuzz frames --count 1000000 --seed 7
  roost fuzz frames --seed 134 --count 1 --stream 17
"""


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    fuzz = typer.Typer(
        no_args_is_help=True,
        rich_markup_mode=None,
        help="Hostile input to a live broker.",
        epilog=FRAMES_EXAMPLES,
    )
    # With a callback the group keeps its name in front of its only command.
    fuzz.callback()(lambda: None)
    fuzz.command("frames", epilog=FRAMES_EXAMPLES)(frames)
    app.add_typer(fuzz, name="fuzz")


def frames(
    count: Annotated[int, typer.Option(min=1, metavar="N", help="How many frames.")] = COUNT,
    seed: Annotated[int, typer.Option(min=0, metavar="K", help="Of the first round.")] = 0,
    stream: Annotated[
        int | None,
        typer.Option(min=0, metavar="I", help="Only this stream of each round."),
    ] = None,
    durable: Annotated[bool, typer.Option("--durable", help="The broker has a store.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Play hostile streams to a broker, which has to go on as if nothing were."""
    import asyncio
    import sys

    from roost.cli.sim.report import progress
    from roost.runtime.frame_fuzz_run import run
    from roost.runtime.warming import warm_up

    # What the broker would say of compiling, the first time, is no complaint.
    warm_up(lambda text: print(text, file=sys.stderr))
    with progress("frames", count) as say:
        report = asyncio.run(run(seed, count, only=stream, durable=durable, progress=say))
    if json_:
        print_json(as_dict(report))
    else:
        show(report)
    if report.violations:
        raise typer.Exit(EXIT_VIOLATIONS)


def as_dict(report: Report) -> dict[str, Any]:
    from msgspec.structs import asdict

    return {**asdict(report), "replay": report.replay}


def show(report: Report) -> None:
    """The figures and the verdict, for people."""
    from rich.padding import Padding
    from rich.table import Table

    console = people()
    grid = Table(show_header=False)
    grid.add_column()
    grid.add_column(justify="right")
    for label, text in rows(report):
        grid.add_row(label, text)
    console.print(grid)
    for violation in report.violations:
        console.print(Padding(violation, (0, 0, 0, 2), expand=False), style="red")
    if report.replay:
        console.print(f"  replay: {report.replay}", soft_wrap=True)
    took = f"{report.frames:,} frames in {report.wall_s:.0f} s"
    if report.violations:
        console.print(f"{took}: the broker did not bear it", style="bold red")
    else:
        console.print(f"{took}, no violations", style="bold green")


def rows(report: Report) -> list[tuple[str, str]]:
    before, after = report.memory_before_bytes / MB, report.memory_after_bytes / MB
    memory = f"{before:,.0f} MB, {after:,.0f} MB" if report.memory_after_bytes else "not judged"
    return [
        ("frames sent", f"{report.frames:,}"),
        ("connections", f"{report.connections:,}"),
        ("refused with a reason", f"{report.refused:,}"),
        ("different reasons", f"{report.reasons:,}"),
        ("requests refused on connections that went on", f"{report.requests_refused:,}"),
        ("well-behaved events exchanged", f"{report.exchanged:,}"),
        ("  lost", f"{report.lost:,}" if report.lost else "none"),
        ("  the slowest", f"{report.slowest_s * 1e3:,.0f} ms"),
        ("the broker's memory, before and after", memory),
        ("hangs", f"{report.hangs:,}" if report.hangs else "none"),
        ("the broker still serves", "yes" if report.serves else "no"),
    ]
