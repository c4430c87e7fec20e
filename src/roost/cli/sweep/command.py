"""`roost sweep`: a grid of parameters and seeds, as processes or as Spark tasks."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roost.cli.console import people, print_json, say_many_seeds, warn
from roost.cli.spark import ConfOption, MasterOption, session_of
from roost.errors import UserError

if TYPE_CHECKING:
    from roost.pipeline.sweeps.sweep import Outcome, Sweep
    from roost.pipeline.sweeps.tasks import Task
    from roost.pipeline.sweeps.workers import Executor

EXIT_FAILED = 1
SIM = "sim"
FIGURES_SHOWN = 6

EXAMPLES = """\b
A task is `sim`, or a function of your own: MODULE:FUNCTION, of (parameters, seed).
Every cell is kept as soon as it is finished: the same command again runs what is missing.
Exit codes: 0 done, 1 cells failed or found violations, 2 bad input.

\b
Examples:
  roost sweep
  roost sweep sim --generator relocation --set spread=1,2,4,8 --seeds 10 --out spread
  roost sweep sim --generator tree --set brokers=7..31..8 --set covering=on,off --lake lake --run cover
  roost sweep sim --file local.workload --set until=600 --seeds 0-99 --spark --out local
  roost sweep my.experiment:run --set x=1,2 --jobs 4 --show gain --json
"""


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("sweep", epilog=EXAMPLES)(sweep)


def sweep(
    task: Annotated[
        str | None, typer.Argument(metavar="TASK", help="What to run; without it, lists them.")
    ] = None,
    generator: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of the workload (roost sim generate).")
    ] = None,
    file: Annotated[
        Path | None, typer.Option(metavar="FILE", dir_okay=False, help="The workload.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUES",
            help="An axis: KEY=1,2,4 or KEY=1..4 or KEY=0.1..0.5..0.1; repeatable.",
        ),
    ] = None,
    seeds: Annotated[
        str, typer.Option(metavar="SEEDS", help="How many (10), a range (5-9) or a list (3,7).")
    ] = "1",
    jobs: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Processes; else one a core.")
    ] = None,
    spark: Annotated[bool, typer.Option("--spark", help="As Spark tasks.")] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", file_okay=False, help="Keep the results there.")
    ] = None,
    lake: Annotated[
        Path | None,
        typer.Option(metavar="DIR", file_okay=False, help="... or in DIR/sweeps/run=NAME."),
    ] = None,
    run: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of the run; else from the grid.")
    ] = None,
    extend: Annotated[
        bool, typer.Option("--extend", help="Add these cells to the sweep that is there.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Forget the sweep that is there.")
    ] = False,
    show: Annotated[
        list[str] | None, typer.Option(metavar="FIGURE,...", help="Figures to show.")
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    master: MasterOption = None,
    conf: ConfOption = None,
) -> None:
    """Run a task for every combination of parameters, with every seed."""
    from roost.cli.sweep import report
    from roost.pipeline.sweeps.folder import SweepFolder
    from roost.pipeline.sweeps.grid import cells_of, read_axes, read_seeds
    from roost.pipeline.sweeps.sweep import note_run, open_sweep
    from roost.pipeline.sweeps.tasks import load_task, reference_of, registered

    if task is None:
        report.show_tasks(people(), {name: load_task(r) for name, r in registered().items()})
        return
    on_spark = spark or master is not None or bool(conf)
    if on_spark and jobs is not None:
        raise UserError("--jobs is for processes; for Spark expected --master 'local[N]'")
    axes = read_axes([*workload_axis(task, generator, file), *(set_ or [])])
    reference = reference_of(task)
    find_modules_here()
    loaded = load_task(reference)
    chosen = read_seeds(seeds)
    if seeds.isdecimal():
        say_many_seeds(len(chosen), 0, f"--seeds {seeds}-{seeds}")
    cells = cells_of(reference, loaded, axes, chosen)
    name = run or run_name(task, [cell.id for cell in cells])
    with (
        kept_in(out, lake, name) as folder,
        open_sweep(
            SweepFolder(folder), reference, cells, extend=extend, overwrite=overwrite
        ) as opened,
    ):
        if opened.missing:
            with executor(on_spark, jobs, master, conf) as execute:
                carry_out(opened, execute, folder if out or lake else None)
        outcome = opened.finish()
    if lake is not None:
        note_run(lake, name, {"task": reference, "axes": dict(axes), "seeds": seeds})
    if outcome.other_code:
        warn(
            f"{outcome.other_code:,} of the results are of another version of the code;"
            " --overwrite runs all anew"
        )
    table = outcome.table if out or lake else None
    if json_:
        print_json(report.as_json(name, reference, outcome, table, task))
    else:
        report.show_outcome(
            people(), outcome, shown_figures(show, loaded, outcome), title=name, task=task
        )
        if table is not None:
            people().print(f"Results: {table}", soft_wrap=True)
    if outcome.failed or outcome.broken:
        raise typer.Exit(EXIT_FAILED)


def workload_axis(task: str, generator: str | None, file: Path | None) -> list[str]:
    """The options that are short for an axis of the task `sim`."""
    if generator is None and file is None:
        return []
    if task != SIM:
        raise UserError(f"--generator and --file are for the task {SIM}; expected --set")
    from roost.pipeline.sweeps.sim import FILE, GENERATOR

    named = {GENERATOR: generator, FILE: file}
    return [f"{name}={value}" for name, value in named.items() if value is not None]


def find_modules_here() -> None:
    """A task of one's own may be in the current folder, as for `python -m`."""
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)


def run_name(task: str, cells: Sequence[str]) -> str:
    """The same for the same grid, so that the same command finds its run again."""
    from hashlib import sha256

    stem = re.sub(r"[^A-Za-z0-9_.-]+", "-", task)
    return f"{stem}-{sha256(' '.join(sorted(cells)).encode()).hexdigest()[:8]}"


@contextmanager
def kept_in(out: Path | None, lake: Path | None, name: str) -> Iterator[Path]:
    """The folder of the sweep; without one it is only printed."""
    if out is not None and lake is not None:
        raise UserError("--out and --lake say where the results go; expected one of them")
    if lake is not None:
        from roost.pipeline.sweeps.sweep import lake_folder

        yield lake_folder(lake, name)
    elif out is not None:
        yield out
    else:
        from tempfile import TemporaryDirectory

        with TemporaryDirectory(prefix="roost-sweep-") as folder:
            yield Path(folder)


@contextmanager
def executor(
    on_spark: bool, jobs: int | None, master: str | None, conf: Sequence[str] | None
) -> Iterator[Executor]:
    """What runs the cells."""
    if on_spark:
        from roost.pipeline.sweeps.spark import SparkTasks

        settings = ["spark.ui.showConsoleProgress=false"]  # there is a bar of ours
        if master is None or master.startswith("local"):
            # The JVM has little to do, and its best compiler would only keep the cores from the cells.
            settings.append("spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1")
        with session_of(master, [*settings, *(conf or ())]) as session:
            yield SparkTasks(session)
    else:
        from roost.pipeline.sweeps.workers import LocalWorkers

        yield LocalWorkers(jobs or len(os.sched_getaffinity(0)))


def carry_out(opened: Sweep, execute: Executor, folder: Path | None) -> None:
    """Runs what is missing, in view of a person."""
    from roost.cli.sweep import report

    with report.progress() as say:
        try:
            opened.run(execute, say)
        except KeyboardInterrupt:
            if folder is not None:
                print(
                    f"interrupted; what is finished is kept in {folder}, and the same command goes on",
                    file=sys.stderr,
                )
            raise


def shown_figures(show: list[str] | None, task: Task, outcome: Outcome) -> list[str]:
    """Those that are asked for and there; else those that the task would show."""
    there = list(dict.fromkeys(name for group in outcome.groups for name in group.figures))
    if show:
        asked = [name for text in show for name in text.split(",") if name]
        for name in asked:
            if name not in there and outcome.groups:
                warn(f"--show {name}: no such figure; there are {', '.join(there)}")
        return [name for name in asked if name in there]
    return [name for name in task.show if name in there] or there[:FIGURES_SHOWN]
