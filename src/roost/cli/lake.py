"""`roost lake`: the runs of a folder of tables, without Spark."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roost.cli.console import json_value, people, print_json
from roost.cli.figures import Column, Row, fitted, wide
from roost.errors import UserError

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console

    from roost.pipeline.lake.files import TableInfo
    from roost.pipeline.lake.lake import RunInfo

EXAMPLES = """\b
A lake is a folder of tables, LAKE/TABLE/run=NAME/*.parquet. `roost sim run --trace LAKE`,
`roost trace on LAKE` and the commands of `roost pipeline` write runs into it.

\b
Examples:
  roost lake list
  roost lake list traces
  roost lake show tree-7 --lake traces
  roost lake sample loads --run tree-7
  roost lake compact monday
  roost lake prune --older-than 30d --keep-last 10
"""
COMPACT_EXAMPLES = """\b
A broker that records writes a file a table and minute. Those of an hour become one, sorted
by time; brokers may go on recording meanwhile, and no reader sees a row twice.

\b
Examples:
  roost lake compact
  roost lake compact monday --lake traces
"""
PRUNE_EXAMPLES = """\b
Without --yes it only shows what would go. A run is as old as what was last written to it.

\b
Examples:
  roost lake prune tree-7 tree-8 --yes
  roost lake prune --older-than 30d --keep-last 10
"""
DEFAULT = "lake"
ROWS = 5
UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 7 * 86_400}

LakeOption = Annotated[
    str,
    typer.Option("--lake", metavar="DIR", envvar="ROOST_LAKE", help="The folder of the tables."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    lake = typer.Typer(
        no_args_is_help=True,
        rich_markup_mode=None,
        help="See, compact and prune the runs of a folder of tables.",
        epilog=EXAMPLES,
    )
    lake.command("list", epilog=EXAMPLES)(list_runs)
    lake.command("show", epilog=EXAMPLES)(show)
    lake.command("sample", epilog=EXAMPLES)(sample)
    lake.command("compact", epilog=COMPACT_EXAMPLES)(compact)
    lake.command("prune", epilog=PRUNE_EXAMPLES)(prune)
    app.add_typer(lake, name="lake")


# --- list -------------------------------------------------------------------------------------------

RUN_COLUMNS = (
    Column("run", left=True),
    Column("kind", left=True),
    Column("seed", expendable=2),
    Column("rows"),
    Column("size"),
    Column("written", left=True, expendable=1),
    Column("tables", left=True, expendable=3),
)


def list_runs(
    place: Annotated[
        str | None, typer.Argument(metavar="[LAKE]", help="The same as --lake.")
    ] = None,
    lake: LakeOption = DEFAULT,
    json_: Json = False,
) -> None:
    """List the runs, those that were written last at the end."""
    from roost.pipeline.lake import Lake

    there = Lake(place or lake)
    found = [(run, there.tables(run.name)) for run in there.runs()]
    if json_:
        runs = [run_facts(run, tables) for run, tables in found]
        print_json({"lake": str(there.folder), "runs": runs})
        return
    console = wide()
    if not found:
        console.print(f"{there.folder} has no runs")
        return
    console.print(
        fitted(RUN_COLUMNS, [run_row(run, tables) for run, tables in found], console.width)
    )
    for run, tables in found:
        tell_problems(console, run, tables)


def run_row(run: RunInfo, tables: Sequence[TableInfo]) -> Row:
    cells = (
        run.name,
        run.kind,
        "-" if run.seed is None else str(run.seed),
        f"{sum(table.rows for table in tables):,}",
        size(sum(table.bytes for table in tables)),
        day(run.written),
        ", ".join(f"{table.table} {table.rows:,}" for table in tables),
    )
    return Row(cells, "yellow" if any(table.problem for table in tables) else None)


def run_facts(run: RunInfo, tables: Sequence[TableInfo]) -> dict[str, Any]:
    """A run, for programs."""
    from msgspec import to_builtins

    return {
        "run": run.name,
        "kind": run.kind,
        "seed": run.seed,
        "written": run.written,
        "rows": sum(table.rows for table in tables),
        "bytes": sum(table.bytes for table in tables),
        "tables": to_builtins(tables),
        "parts": to_builtins(run.parts),
        "problem": run.problem,
    }


def tell_problems(console: Console, run: RunInfo, tables: Sequence[TableInfo]) -> None:
    for problem in filter(None, (run.problem, *(table.problem for table in tables))):
        console.print(f"  {problem}", style="yellow", soft_wrap=True)


# --- show -------------------------------------------------------------------------------------------


def show(
    run: Annotated[str, typer.Argument(metavar="RUN")],
    lake: LakeOption = DEFAULT,
    json_: Json = False,
) -> None:
    """Show a run: its tables with their columns, and what it was made of."""
    from rich.padding import Padding

    from roost.pipeline.lake import Lake

    there = Lake(lake)
    found, tables = there.run(run), there.tables(run)
    if json_:
        print_json({"lake": str(there.folder), **run_facts(found, tables)})
        return
    console = people()
    console.print(f"{found.name}: {found.kind}, written {day(found.written)}", style="bold")
    tell_problems(console, found, tables)
    for table in tables:
        files = "1 file" if table.files == 1 else f"{table.files:,} files"
        console.print(
            f"\n{table.table}: {table.rows:,} rows, {files}, {size(table.bytes)}", style="bold"
        )
        columns = ", ".join(f"{name} {kind}" for name, kind in table.columns.items())
        console.print(Padding(columns, (0, 0, 0, 2)))
    for part in found.parts:
        seed = "" if part.seed is None else f", seed {part.seed}"
        began = "" if part.began is None else f", began {day(part.began)}"
        console.print(f"\npart {part.part}: {part.kind}{seed}{began}", style="bold")
        for what, facts in (("config", part.config), ("versions", part.versions)):
            text = json.dumps(facts, ensure_ascii=False)
            console.print(f"  {what} {text}", soft_wrap=True)


# --- sample -----------------------------------------------------------------------------------------


def sample(
    table: Annotated[str, typer.Argument(metavar="TABLE")],
    run: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="Of which run; else the last that has the table."),
    ] = None,
    rows: Annotated[
        int, typer.Option("--limit", "--rows", min=1, metavar="N", help="How many rows.")
    ] = ROWS,
    lake: LakeOption = DEFAULT,
    json_: Json = False,
) -> None:
    """Show the first rows of a table."""
    from roost.pipeline.lake import Lake

    there = Lake(lake)
    if run is None:
        having = [found.name for found in there.runs() if table in found.tables]
        # If none has it, the lake says which tables there are.
        run = having[-1] if having else ""
    found = there.sample(table, run, rows)
    if json_:
        whole = [plain(row) for row in found.to_pylist()]
        print_json({"lake": str(there.folder), "table": table, "run": run, "rows": whole})
        return
    console = people()
    console.print(f"{table} of {run}", style="bold")
    for first in range(0, max(1, len(found)), ROWS):
        show_rows(console, found, first)


def show_rows(console: Console, table: pa.Table, first: int) -> None:
    """A few rows side by side, because a table has more columns than a terminal has room for."""
    from rich.table import Table
    from rich.text import Text

    rows = table.slice(first, ROWS).to_pylist()
    grid = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for title in ("column", "type"):
        grid.add_column(title, no_wrap=True)
    for number in range(first + 1, first + len(rows) + 1):
        grid.add_column(str(number), overflow="fold")
    for field in table.schema:
        cells = [shown(row[field.name]) for row in rows]
        grid.add_row(*map(Text, (field.name, type_name(field.type), *cells)))
    console.print(grid)


def type_name(kind: pa.DataType) -> str:
    """A type in a word."""
    return str(kind).partition("<")[0]


def shown(value: object) -> str:
    """A value in a cell."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.6g}" if abs(value) < 1e6 else f"{value:.13g}"
    return value if isinstance(value, str) else json.dumps(plain(value), ensure_ascii=False)


def plain(value: Any) -> Any:
    """A value of any column as JSON has it; what it has no word for as text."""
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if value is None or isinstance(value, bool | int | float | str):
        return json_value(value)
    return value.hex() if isinstance(value, bytes) else str(value)


# --- compact ----------------------------------------------------------------------------------------


def compact(
    runs: Annotated[list[str] | None, typer.Argument(metavar="[RUN]...")] = None,
    lake: LakeOption = DEFAULT,
    json_: Json = False,
) -> None:
    """Join the files of recorded runs, those of an hour at a time; of all runs, if none is named."""
    from msgspec import to_builtins

    from roost.pipeline.lake import Lake

    there = Lake(lake)
    joined = there.compact(runs or ())
    if json_:
        print_json({"lake": str(there.folder), "runs": to_builtins(joined)})
        return
    for run in joined:
        typer.echo(f"{run.name}: {run.files:,} files of {run.files_before:,}")
    if not joined:
        typer.echo("no run has files to be joined")


# --- prune ------------------------------------------------------------------------------------------


def prune(
    runs: Annotated[list[str] | None, typer.Argument(metavar="[RUN]...")] = None,
    keep_last: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="All but the N that were written last.")
    ] = None,
    older_than: Annotated[
        str | None, typer.Option(metavar="AGE", help="Not written to for so long: 30d, 12h.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Remove them.")] = False,
    lake: LakeOption = DEFAULT,
    json_: Json = False,
) -> None:
    """Remove runs: by name, or those that are old; with both options, those that are old and not
    among the last."""
    from msgspec import to_builtins

    from roost.pipeline.lake import Lake

    there = Lake(lake)
    age = None if older_than is None else seconds(older_than)
    gone = there.prune(runs or (), keep_last=keep_last, older_than_s=age, dry_run=not yes)
    freed = sum(run.bytes for run in gone)
    if json_:
        names = to_builtins(gone)
        print_json({"lake": str(there.folder), "removed": yes, "runs": names, "bytes": freed})
        return
    for run in gone:
        typer.echo(f"{run.name} ({size(run.bytes)})")
    if not gone:
        typer.echo("no run is to go")
    elif yes:
        typer.echo(f"{len(gone):,} removed, {size(freed)}")
    else:
        typer.echo(f"{len(gone):,} would be removed, {size(freed)}; with --yes they are")


def seconds(text: str) -> float:
    """The argument of --older-than."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([smhdw])", text)
    if found is None:
        raise UserError(f"--older-than: {text!r} is no age; expected one such as 30d, 12h or 2w")
    return float(found[1]) * UNITS[found[2]]


def size(count: int) -> str:
    from rich.filesize import decimal

    return decimal(count)


def day(at: float) -> str:
    from datetime import datetime

    return datetime.fromtimestamp(at).strftime("%Y-%m-%d %H:%M")
