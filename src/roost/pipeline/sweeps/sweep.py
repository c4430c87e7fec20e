"""Sweeps: a grid of parameters and seeds, each cell one run of a task, in processes or as Spark tasks.

    task = load_task("roost.pipeline.sweeps.sim:SIM")
    cells = cells_of(reference, task, read_axes(["generator=tree", "brokers=7,15"]), read_seeds("5"))
    with open_sweep(SweepFolder(path), reference, cells) as sweep:
        sweep.run(LocalWorkers(2))          # or SparkTasks(session)
        outcome = sweep.finish()

A task is a pure function (`tasks`), a grid its parameters (`grid`). Every cell leaves a file in
the sweep's folder as soon as it is finished (`folder`), so that running the same sweep again runs only
what is missing, and what has failed. The long cells begin first, where the task can tell which they are: a
long one that begins last would leave the other cores idle.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import roost
from roost.errors import UserError
from roost.pipeline.sweeps.folder import TABLE, Manifest, Result, SweepFolder
from roost.pipeline.sweeps.grid import Cell
from roost.pipeline.sweeps.progress import Say, Watch
from roost.pipeline.sweeps.table import Group, groups, results_table, violations, write_table
from roost.pipeline.sweeps.workers import Executor, Work
from roost.traces.run import About, about_row, check_run_name, part_path, write_row

LAKE_TABLE = "sweeps"
CODE_DIGITS = 12


@dataclass(frozen=True)
class Outcome:
    """What came of the cells that were asked for."""

    results: list[Result]
    groups: list[Group]
    table: Path
    ran: int  # cells that were run now; the others were there
    wall_s: float
    cell_s: float  # what the cells that were run now took, one by one
    slots: int
    other_code: int  # results of a different version of the code

    @property
    def efficiency(self) -> float:
        """The share of the cores' time that went into cells; 1 if nothing was run."""
        return self.cell_s / (self.wall_s * self.slots) if self.ran else 1.0

    @property
    def failed(self) -> list[Result]:
        """Cells that gave no figures."""
        return [result for result in self.results if result.status == "failed"]

    @property
    def broken(self) -> list[Result]:
        """Cells that found promises broken."""
        return [result for result in self.results if violations(result)]


class Sweep:
    """A sweep in its folder, which is ours while it is open."""

    def __init__(self, folder: SweepFolder, manifest: Manifest, cells: Sequence[Cell]) -> None:
        self._folder = folder
        self._manifest = manifest
        self._cells = cells
        self._code = code_of(manifest.task)
        self.missing = folder.missing(cells)
        self._ran: set[str] = set()
        self._wall_s = 0.0
        self._slots: int | None = None

    def run(self, execute: Executor, say: Say = lambda _: None) -> None:
        """Runs what is missing; all that is finished is kept, however this ends."""
        watch = Watch(self._folder, self.missing, len(self._cells) - len(self.missing), say)
        ordered = sorted(self.missing, key=lambda cell: -cell.cost)
        self._slots = execute.slots()
        work = Work(self._folder, self._manifest.task, self._code, ordered)
        try:
            execute(work, watch.look)
        except OSError as bad:
            where = bad.filename or self._folder.path
            raise UserError(f"{where}: {bad.strerror or bad}; what is finished is kept") from bad
        finally:
            watch.look()
        self._wall_s = watch.elapsed_s
        self._ran = {cell.id for cell in self.missing}
        self.missing = self._folder.missing(self._cells)

    def finish(self) -> Outcome:
        """Gathers all results of the folder in its table; what came of the cells that were asked for."""
        everything = self._folder.results(self._manifest.cells)
        table = self._folder.path / TABLE
        write_table(table, results_table(everything))
        asked = {cell.id for cell in self._cells}
        results = [result for result in everything if result.cell in asked]
        ran = [result for result in results if result.cell in self._ran]
        return Outcome(
            results=results,
            groups=groups(results),
            table=table,
            ran=len(ran),
            wall_s=self._wall_s,
            cell_s=sum(result.seconds for result in ran),
            slots=self._slots or max(len({result.worker for result in ran}), 1),
            other_code=sum(result.code != self._code for result in results),
        )


@contextmanager
def open_sweep(
    folder: SweepFolder,
    task: str,
    cells: Sequence[Cell],
    *,
    extend: bool = False,
    overwrite: bool = False,
) -> Iterator[Sweep]:
    """The sweep of these cells in that folder, as far as it has come; `task` is where the task is.

    A folder holds one sweep. It may be asked for some of its cells only; others are refused, unless they
    `extend` it. With `overwrite` it begins anew. Cells that have failed are run again.
    """
    with folder.locked():
        if overwrite:
            folder.clear()
        before = folder.manifest()
        if before is not None:
            cells_before = {cell.id for cell in before.cells}
            new = [cell for cell in cells if cell.id not in cells_before]
            refuse_other(folder.path, before, task, new, len(cells), extend=extend)
            manifest = Manifest(task, [*before.cells, *new])
        else:
            manifest = Manifest(task, list(cells))
        folder.decide(manifest)
        folder.forget_running()
        # A failure is no result, and neither is a file that can't be read.
        status = {result.cell: result.status for result in folder.results(manifest.cells)}
        folder.forget(cell for cell in cells if status.get(cell.id, "failed") == "failed")
        yield Sweep(folder, manifest, cells)


def lake_folder(lake: Path, run: str) -> Path:
    """Where a sweep is in a lake."""
    check_run_name(run)
    return lake / LAKE_TABLE / f"run={run}"


def note_run(lake: Path, run: str, config: Mapping[str, Any]) -> None:
    """Notes in the lake's table of runs what a sweep was made of."""
    row = about_row(LAKE_TABLE, About("sweep", config=config, began=time.time()))
    write_row(part_path(lake, "runs", run, LAKE_TABLE), row)


def refuse_other(
    path: Path, before: Manifest, task: str, new: Sequence[Cell], asked: int, *, extend: bool
) -> None:
    """Refuses what does not belong to the sweep that is there."""
    instead = "--overwrite forgets it, another folder keeps both"
    if before.task != task:
        raise UserError(
            f"{path}: there is a sweep of {before.task} in it, not of {task}; {instead}"
        )
    if new and not extend:
        raise UserError(
            f"{path}: there is a sweep of {len(before.cells):,} cells in it, and {len(new):,} of the"
            f" {asked:,} cells asked for are none of them (the first: {new[0]}); --extend adds them,"
            f" {instead}"
        )


def code_of(task: str) -> str:
    """A short hash of the code that runs: of Roost, and of the task's own module."""
    files = sorted(Path(roost.__file__).parent.rglob("*.py"))
    module = find_spec(task.partition(":")[0])
    if module is not None and module.origin is not None:
        files.append(Path(module.origin))
    whole = sha256()
    for file in files:
        whole.update(file.read_bytes())
    return whole.hexdigest()[:CODE_DIGITS]
