"""What all benchmarks of the command line share: progress while they run, a table, a report, an exit code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from roost.cli.console import people, print_json

if TYPE_CHECKING:
    from roost.bench.report import Result, Table
    from roost.bench.timing import Say

EXIT_VIOLATIONS = 1


def measure(
    run: Callable[[Say], Result],
    table: Callable[[Result], Table],
    write: Path | None,
    json_: bool,
    is_clean: Callable[[Result], bool] | None = None,
) -> None:
    """One benchmark, from a look at where it is to be written to what is told of it."""
    check_writable(write)
    result = measured(run, table, write, quiet=json_)
    if json_:
        print_json(result)
    if is_clean is not None and not is_clean(result):
        raise typer.Exit(EXIT_VIOLATIONS)


def measured(
    run: Callable[[Say], Result],
    table: Callable[[Result], Table],
    write: Path | None,
    *,
    quiet: bool,
) -> Result:
    """Its result, which has been shown and written."""
    from roost.bench.timing import progress

    with progress() as say:
        result = run(say)
    publish(result, table(result), write, quiet=quiet)
    return result


def check_writable(path: Path | None) -> None:
    """Refuses before measuring, not after."""
    from roost.errors import UserError

    if path is not None and not path.parent.is_dir():
        raise UserError(f"{path}: there is no folder {path.parent}")


def publish(result: Result, table: Table, write: Path | None, *, quiet: bool) -> None:
    """Prints the table, unless quiet, and writes it to a file, if asked."""
    import datetime

    from roost.bench import report

    today = datetime.datetime.now(datetime.UTC).date()
    if not quiet:
        show(table, report.provenance(result, today))
    if write is not None:
        report.write(write, table, result, today)


def show(table: Table, provenance: str) -> None:
    """The table for a terminal."""
    from rich import table as rich
    from rich.padding import Padding

    console = people()
    console.print(table.title, style="bold")
    grid = rich.Table()
    for number, column in enumerate(table.columns):
        grid.add_column(column, justify="right" if number else "left")
    for row in table.rows:
        grid.add_row(*row)
    console.print(grid)
    for note in table.notes:
        console.print(Padding(note, (0, 0, 0, 2)))
    console.print(Padding(provenance, (0, 0, 1, 2), style="dim"))
