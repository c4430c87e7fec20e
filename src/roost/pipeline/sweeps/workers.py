"""Running one cell, wherever that is; and running many in processes of this machine.

Not `ProcessPoolExecutor`: when one of its processes is killed, it gives up all of them, and does not say
whose work it was. Here every process has a pipe of its own, and holds one cell at a time: when it dies, that
cell is begun anew in a new process, and the others never notice. A cell whose process dies again and again
is recorded as failed. A process lives for many cells, so that what they import is loaded once.
"""

from __future__ import annotations

import gc
import math
import multiprocessing
import os
import signal
import socket
import sys
import threading
import traceback
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from time import perf_counter
from typing import NamedTuple, Protocol

import numpy as np

from roost.errors import type_of
from roost.pipeline.sweeps.folder import Result, SweepFolder
from roost.pipeline.sweeps.grid import FIXED, Cell
from roost.pipeline.sweeps.tasks import Row, Task, Value, load_task

# How often a cell is begun whose process dies.
TRIES = 3
# How often whoever looks on is told.
POLL_S = 0.25
INT_MAX = 2**63


class Work(NamedTuple):
    """What is to be run: cells in the order in which they are to begin."""

    folder: SweepFolder
    task: str
    code: str
    cells: Sequence[Cell]


class Executor(Protocol):
    """Runs work to its end, and calls `tick` now and then."""

    def __call__(self, work: Work, tick: Callable[[], None]) -> None: ...

    def slots(self) -> int | None:
        """How many cells run at a time, if that is known."""


# --- one cell ---------------------------------------------------------------------------------------


def run_cell(work: Work, task: Task, cell: Cell) -> Result:
    """Runs a cell and keeps what became of it, whatever that is.

    Where the folder can't be reached (a cluster that does not share it), only gives it back.
    """
    worker = f"{socket.gethostname()}:{os.getpid()}"
    reachable = work.folder.path.is_dir()
    tries = work.folder.begin(cell, worker) if reachable else 1
    began = perf_counter()
    # What is there already is no garbage, and need not be searched for any. Where somebody has frozen things
    # before us, they stay so: Spark's workers search for garbage after every task.
    was_frozen = gc.get_freeze_count() > 0
    gc.freeze()
    figures: dict[str, Value | None] = {}
    error = told = None
    try:
        figures = flat_row(task.run(dict(cell.parameters), cell.seed), cell)
    except (Exception, SystemExit) as bad:
        error = f"{type(bad).__name__}: {bad}" if str(bad) else type(bad).__name__
        told = traceback.format_exc()
    # A world is full of cycles, and the next one needs the memory.
    gc.collect()
    if not was_frozen:
        gc.unfreeze()
    seconds = perf_counter() - began
    result = Result(
        cell=cell.id,
        parameters=cell.parameters,
        seed=cell.seed,
        status="done" if error is None else "failed",
        figures=figures,
        error=error,
        traceback=told,
        seconds=seconds,
        worker=worker,
        tries=tries,
        code=work.code,
    )
    if reachable:
        work.folder.finish(result)
    return result


def flat_row(row: Row, cell: Cell) -> dict[str, Value | None]:
    """The row of a task as it is kept: NumPy's numbers as plain ones, those that are not finite as None."""
    if not isinstance(row, Mapping):
        raise TypeError(f"the task gave {type_of(row)}; expected a mapping from names to figures")
    taken = {*FIXED, *(parameter.lower() for parameter in cell.parameters)}
    flat: dict[str, Value | None] = {}
    for name, given in row.items():
        value = _plain(given)
        if str(name).lower() in taken:
            raise ValueError(
                f"the figure {name!r} is called like a parameter or a column of every result;"
                " expected another name"
            )
        if not isinstance(value, bool | int | float | str | None):
            raise TypeError(
                f"the figure {name!r} is {type_of(value)};"
                " expected a number, a text, a truth or None"
            )
        if isinstance(value, int) and not -INT_MAX <= value < INT_MAX:
            raise ValueError(f"the figure {name!r} is {value}; expected at most 64 bits")
        flat[name] = None if isinstance(value, float) and not math.isfinite(value) else value
    return flat


def _plain(value: object) -> object:
    return value.item() if isinstance(value, np.generic) else value


def lost_cell(work: Work, cell: Cell, tries: int, why: str) -> Result:
    """What becomes of a cell that nobody survives."""
    begun = work.folder.begun(cell.id)
    return Result(
        cell=cell.id,
        parameters=cell.parameters,
        seed=cell.seed,
        status="failed",
        error=why,
        seconds=0.0,
        worker=begun.worker if begun is not None else "",
        tries=begun.tries if begun is not None else tries,
        code=work.code,
    )


# --- processes of this machine ----------------------------------------------------------------------


class LocalWorkers:
    """Runs cells in so many processes of this machine."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs

    def slots(self) -> int:
        """How many cells run at a time."""
        return self._jobs

    def __call__(self, work: Work, tick: Callable[[], None]) -> None:
        """Runs the work to its end."""
        waiting = deque(work.cells)
        deaths: Counter[str] = Counter()
        workers = [_Worker(work) for _ in range(min(self._jobs, len(waiting)))]
        try:
            while waiting or any(worker.cell for worker in workers):
                for worker in workers:
                    if worker.cell is None and waiting:
                        worker.give(waiting.popleft())
                tick()
                wait([worker.pipe for worker in workers if worker.cell], POLL_S)
                for place, worker in enumerate(workers):
                    if worker.cell is None or worker.lives():
                        continue
                    cell, why = worker.cell, worker.buried()
                    workers[place] = _Worker(work)
                    if work.folder.result(cell.id) is not None:
                        continue  # it died on its way back
                    deaths[cell.id] += 1
                    if deaths[cell.id] < TRIES:
                        waiting.appendleft(cell)
                    else:
                        work.folder.finish(lost_cell(work, cell, TRIES, f"{why}, {TRIES} times"))
        finally:
            for worker in workers:
                worker.end()


class _Worker:
    """A process, our end of its pipe, and the cell that it holds."""

    def __init__(self, work: Work) -> None:
        # Not forked: whoever calls may have threads, which a fork would leave half alive.
        context = multiprocessing.get_context("spawn")
        self.cell: Cell | None = None
        self.pipe, theirs = context.Pipe()
        self._process: SpawnProcess = context.Process(
            target=_serve, args=(theirs, work._replace(cells=())), daemon=True
        )
        self._process.start()
        theirs.close()  # so that its death closes the pipe

    def give(self, cell: Cell) -> None:
        self.cell = cell
        with suppress(OSError):  # it is dead, which is noticed when it is asked
            self.pipe.send(cell)

    def lives(self) -> bool:
        """Whether it does; and if it is done with its cell, it holds none any more."""
        try:
            if self.pipe.poll():
                self.pipe.recv()
                self.cell = None
        except (EOFError, OSError):
            return False
        return True

    def buried(self) -> str:
        """What it died of."""
        self._process.join()
        code = self._process.exitcode or 0
        self.pipe.close()
        if code >= 0:
            return f"its process ended (exit code {code})"
        return f"its process was killed ({signal.Signals(-code).name})"

    def end(self) -> None:
        self.pipe.close()
        self._process.kill()
        self._process.join()
        self._process.close()


def _serve(pipe: Connection, work: Work) -> None:
    """Runs in the process: one cell after the other."""
    # Ctrl-C is for the sweep, which then ends us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_die_with_parent, daemon=True).start()
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # standard output is for the answer
    task = load_task(work.task)
    while True:
        try:
            cell: Cell = pipe.recv()
        except EOFError:
            return
        run_cell(work, task, cell)
        pipe.send(None)


def _die_with_parent() -> None:
    """When the sweep is killed, whoever takes it up again wants the processors for himself."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
