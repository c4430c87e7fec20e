"""`roost pipeline workload`: the workloads of the papers as tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roost.cli.console import people, print_json
from roost.cli.spark import ConfOption, MasterOption, session_of
from roost.errors import UserError

if TYPE_CHECKING:
    from roost.pipeline.workload.writing import Write, Written

EXAMPLES = """\b
Without NAME it lists what there is, with its parameters. The tables depend on the seed and the
parameters only, not on cores or partitions.

\b
Examples:
  roost pipeline workload
  roost pipeline workload stock --publications 10000000 --out stock
  roost pipeline workload thesis --seed 7 --set publishers=100 --lake lake --run thesis-7
  roost pipeline workload relocation --set bars=quotes.parquet --out relocation --json
"""


def register(pipeline: typer.Typer) -> None:
    """Adds the command."""
    pipeline.command("workload", epilog=EXAMPLES)(workload)


def workload(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Of the workload.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of all that is drawn.")] = 0,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Set a parameter; repeatable."),
    ] = None,
    publications: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="How many; else as in the paper.")
    ] = None,
    subscriptions: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="How many; else as in the paper.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", file_okay=False, help="Write Parquet files to DIR/TABLE."),
    ] = None,
    lake: Annotated[
        str | None, typer.Option(metavar="DIR", help="Write the tables of a run of this lake.")
    ] = None,
    run: Annotated[str | None, typer.Option(metavar="NAME", help="Of the run in the lake.")] = None,
    partitions: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="How many files a table has.")
    ] = None,
    master: MasterOption = None,
    conf: ConfOption = None,
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Generate the quotes, publications and subscriptions of a paper."""
    asked = {"publications": publications, "subscriptions": subscriptions}
    rows = {table: n for table, n in asked.items() if n is not None}
    if name is None:
        if set_ or rows or out is not None or lake is not None:
            raise UserError(
                "which workload? expected a NAME; `roost pipeline workload` lists what there is"
            )
        list_workloads(json_=json_)
        return
    from roost.cli.sim.command import assignments
    from roost.pipeline.workload.registry import workload_of
    from roost.pipeline.workload.writing import written

    chosen = workload_of(name)
    values = chosen.values(assignments(set_ or []))
    chosen.check_rows(rows)
    config: dict[str, object] = {"workload": name, "parameters": values, "rows": rows}
    write = target(out, lake, run, list(chosen.tables), seed=seed, config=config)
    with session_of(master, conf) as spark:
        frames = chosen.frames(spark, seed, values, rows=rows, partitions=partitions)
        tables = list(written(frames, write))
    if json_:
        from msgspec import to_builtins

        print_json({**config, "seed": seed, "tables": to_builtins(tables)})
    else:
        show(f"{name}, seed {seed}", tables)


def target(
    out: Path | None,
    lake: str | None,
    run: str | None,
    tables: list[str],
    *,
    seed: int,
    config: dict[str, object],
) -> Write:
    """Where the tables go: just one place."""
    from roost.pipeline.lake import Lake
    from roost.pipeline.workload.writing import into_folder, into_lake

    if (out is None) == (lake is None) or (lake is None) != (run is None):
        raise UserError("where to? expected --out DIR, or --lake DIR with --run NAME")
    if out is not None:
        return into_folder(out, tables)
    assert lake is not None
    assert run is not None
    return into_lake(Lake(lake), run, tables, seed=seed, config=config)


def show(title: str, tables: list[Written]) -> None:
    """What has been written."""
    from rich.table import Table

    grid = Table(title=title, title_justify="left")
    grid.add_column("table")
    for column in ("rows", "bytes", "seconds"):
        grid.add_column(column, justify="right")
    for table in tables:
        counts = ("-" if n is None else f"{n:,}" for n in (table.rows, table.bytes))
        grid.add_row(table.table, *counts, f"{table.seconds:.1f}")
    people().print(grid)


def list_workloads(*, json_: bool) -> None:
    """What there is, and what of it can be set."""
    from rich.padding import Padding

    from roost.papers import cited
    from roost.pipeline.workload.registry import WORKLOADS

    if json_:
        print_json(
            {
                name: {
                    "source": workload.source,
                    "tables": workload.descriptions,
                    "parameters": {p.name: p.default for p in workload.parameters.values()},
                }
                for name, workload in WORKLOADS.items()
            }
        )
        return
    console = people()
    for number, (name, workload) in enumerate(WORKLOADS.items()):
        if number:
            console.print()
        console.print(f"{name} ({cited(workload.source)})", style="bold")
        for table, description in workload.descriptions.items():
            console.print(Padding(f"{table}: {cited(description)}", (0, 0, 0, 2), expand=False))
        parameters = "  ".join(map(str, workload.parameters.values()))
        if parameters:
            console.print(Padding(parameters, (0, 0, 0, 2), style="dim", expand=False))
