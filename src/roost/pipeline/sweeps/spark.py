"""Running cells as Spark tasks, one cell a task.

A range with as many partitions as there are cells is one job, whose tasks Spark gives to whichever core is
free, in the order of the partitions. Spark keeps its Python processes, so that imports are paid once a
process. A cell writes its own file; it also comes back as a row, for a cluster that does not share the
folder.

A task whose process dies is tried again by Spark. When it dies too often the job fails, and with it whatever
else was running. So whoever was at work then is a suspect, and each suspect is run again in a job of its own:
a job that fails alone has only itself to blame, and is recorded as failed. The rest goes on.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import msgspec
import pyarrow as pa

from roost.errors import UserError
from roost.pipeline.session import local_cores
from roost.pipeline.sweeps.folder import Result
from roost.pipeline.sweeps.tasks import load_task
from roost.pipeline.sweeps.workers import POLL_S, TRIES, Work, lost_cell, run_cell

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOBS_AT_ONCE = 32


class SparkTasks:
    """Runs cells as tasks of a session."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    def slots(self) -> int | None:
        """How many cells run at a time, on this machine; nobody knows how large a cluster is."""
        master = self._session.conf.get("spark.master", "")
        return local_cores(master) if master and master.startswith("local") else None

    def __call__(self, work: Work, tick: Callable[[], None]) -> None:
        """Runs the work to its end."""
        cells = list(work.cells)
        while cells:
            (error,) = self._run([work._replace(cells=cells)], tick)
            cells = work.folder.missing(cells)
            if error is None:
                break
            suspects = [cell for cell in cells if work.folder.begun(cell.id) is not None]
            if not suspects:
                raise UserError(
                    f"Spark gave up, {len(cells):,} cells are left: {_first_line(error)}"
                ) from error
            errors = self._run([work._replace(cells=[cell]) for cell in suspects], tick)
            for cell, alone in zip(suspects, errors, strict=True):
                if alone is not None and work.folder.result(cell.id) is None:
                    work.folder.finish(lost_cell(work, cell, TRIES, _reason(alone)))
            cells = work.folder.missing(cells)

    def _run(self, jobs: Sequence[Work], tick: Callable[[], None]) -> list[BaseException | None]:
        """Runs jobs side by side; what each failed of."""
        tag = f"roost-sweep-{uuid4().hex}"
        with ThreadPoolExecutor(min(len(jobs), JOBS_AT_ONCE)) as threads:
            futures: list[Future[None]] = [threads.submit(self._job, job, tag) for job in jobs]
            try:
                while wait_for(futures, POLL_S).not_done:
                    tick()
                tick()
            except BaseException:
                for future in futures:
                    future.cancel()
                with suppress(Exception):  # it may be gone already
                    self._session.interruptTag(tag)
                raise
        return [future.exception() for future in futures]

    def _job(self, work: Work, tag: str) -> None:
        self._session.addTag(tag)  # which is the thread's own
        number = len(work.cells)
        frame = self._session.range(0, number, 1, number).mapInArrow(
            CellTask(work), "result binary"
        )
        for row in frame.collect():
            result = msgspec.json.decode(row[0], type=Result)
            if work.folder.result(result.cell) is None:
                work.folder.finish(result)


class CellTask:
    """What a Spark task does: the cells whose numbers it gets."""

    def __init__(self, work: Work) -> None:
        self._work = work
        # Where modules are on the machine of the sweep; elsewhere they have to be installed.
        self._path = list(sys.path)

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        known = {str(Path(place).absolute()) for place in sys.path}
        sys.path += [p for p in self._path if str(Path(p).absolute()) not in known]
        task = load_task(self._work.task)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                result = run_cell(self._work, task, self._work.cells[number])
                encoded = pa.array([msgspec.json.encode(result)], pa.binary())
                yield pa.RecordBatch.from_arrays([encoded], ["result"])


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _reason(error: BaseException) -> str:
    """Why a task was lost; Spark tells it in the middle of a long text."""
    return "its process died" if "Python worker exited" in str(error) else _first_line(error)
