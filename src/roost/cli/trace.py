"""`roost trace on` and `roost trace off`: recording of the traffic of brokers that run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roost.cli.fleet import (
    Fleet,
    about_fleet,
    answers_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

EXAMPLES = """\b
The tables are those of `roost sim run --trace`: Parquet, in a folder for each table and run.
All brokers write into the same run, each files of its own: a new one every minute, and
those before are there, and whole; see `roost lake`. A broker that is killed loses the last,
and goes on with the run when it is started again, if it has a store.

\b
Examples:
  roost trace on traces
  roost trace on traces --run monday
  roost trace on traces --content
  roost trace off
"""


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    trace = typer.Typer(
        no_args_is_help=True,
        rich_markup_mode=None,
        help="Record the traffic of brokers that run.",
        epilog=EXAMPLES,
    )
    trace.command("on", epilog=EXAMPLES)(on)
    trace.command("off", epilog=EXAMPLES)(off)
    app.add_typer(trace, name="trace")


@about_fleet
def on(
    fleet: Fleet,
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", file_okay=False, help="On the brokers' machines.")
    ],
    run: Annotated[
        str, typer.Option(metavar="NAME", help="Of the run; a new name if none is given.")
    ] = "",
    content: Annotated[
        bool, typer.Option("--content", help="The events themselves, too: they may be private.")
    ] = False,
) -> None:
    """Begin to record."""
    from roost.runtime.recorder import new_run
    from roost.traces.run import check_run_name

    run = run or new_run("live")
    check_run_name(run)
    order = {"on": True, "folder": str(folder.absolute()), "run": run, "content": content}
    tell(fleet, order, f"records into {folder}, the run {run}")


@about_fleet
def off(
    fleet: Fleet,
) -> None:
    """End recording: what was recorded is complete."""
    tell(fleet, {"on": False}, "records no more")


def tell(fleet: Fleet, order: Mapping[str, object], done: str) -> None:
    """Tells all brokers; an error names those that did not do it."""
    for target, _ in answers_of(fleet, "/trace", order):
        typer.echo(f"{target.label} {done}")
