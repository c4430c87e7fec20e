"""Where a sweep lives: its cells, one small file for each that is finished, and in the end one table.

    FOLDER/_sweep.json          which cells there are
    FOLDER/_cells/ID.json       what became of one
    FOLDER/_cells/ID.running    somebody is at it (or was, when it died)
    FOLDER/part-0.parquet       all of them as a table

Whoever runs a cell writes its file, whole or not at all, so that a sweep that is killed loses nothing that
was finished. Readers of a folder of Parquet (Spark, Arrow) pass over names that begin with an underscore or a
dot: as `LAKE/sweeps/run=NAME` it is a run of a table of the lake.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from roost.errors import UserError
from roost.pipeline.sweeps.grid import Cell
from roost.pipeline.sweeps.tasks import Parameters, Value

TABLE = "part-0.parquet"


class Result(Struct, frozen=True, kw_only=True):
    """What became of a cell."""

    cell: str
    parameters: Parameters
    seed: int
    status: Literal["done", "failed"]
    # What the task gave, if it is done; what it raised, if it failed.
    figures: dict[str, Value | None] = {}
    error: str | None = None
    traceback: str | None = None
    seconds: float
    worker: str
    tries: int
    code: str


class Manifest(Struct, frozen=True):
    """What a folder is for."""

    task: str
    cells: list[Cell]


class Begun(Struct, frozen=True):
    """That somebody is at a cell, and for which time."""

    worker: str
    tries: int


class SweepFolder:
    """The files of a sweep."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()  # others who write here may run elsewhere
        self._manifest = self.path / "_sweep.json"
        self._cells = self.path / "_cells"

    # --- the sweep as a whole -----------------------------------------------------------------------

    @contextmanager
    def locked(self) -> Iterator[None]:
        """For one sweep at a time; the lock of one that is killed goes with it."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            names = [entry.name for entry in self.path.iterdir()]
            if self._manifest.name not in names and any(not name.startswith("_") for name in names):
                raise UserError(
                    f"{self.path}: there are other files in it, and no sweep; expected a new folder"
                )
            lock = (self.path / "_lock").open("w")
        except OSError as bad:
            raise UserError(f"{self.path}: {bad.strerror or bad}") from None
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserError(
                    f"{self.path}: another process is at this sweep; wait for it, or end it"
                ) from None
            yield

    def manifest(self) -> Manifest | None:
        """What the folder is for, if that has been decided."""
        try:
            return msgspec.json.decode(self._manifest.read_bytes(), type=Manifest)
        except FileNotFoundError:
            return None
        except msgspec.MsgspecError as bad:
            raise UserError(
                f"{self._manifest}: damaged ({bad}); expected what a sweep wrote. --overwrite begins anew"
            ) from None

    def decide(self, manifest: Manifest) -> None:
        """Makes the folder one for these cells."""
        self._cells.mkdir(exist_ok=True)
        _write_whole(self._manifest, msgspec.json.encode(manifest))

    def clear(self) -> None:
        """Forgets all that a sweep wrote here."""
        shutil.rmtree(self._cells, ignore_errors=True)
        for path in (self._manifest, self.path / TABLE):
            path.unlink(missing_ok=True)

    # --- its cells ----------------------------------------------------------------------------------

    def begin(self, cell: Cell, worker: str) -> int:
        """Says that a worker is at a cell; gives for which time."""
        before = self.begun(cell.id)
        tries = 1 + (before.tries if before is not None else 0)
        _write_whole(self._mark(cell.id), msgspec.json.encode(Begun(worker, tries)))
        return tries

    def begun(self, cell: str) -> Begun | None:
        """Who is at a cell, or was when it died."""
        try:
            return msgspec.json.decode(self._mark(cell).read_bytes(), type=Begun)
        except FileNotFoundError:
            return None

    def finish(self, result: Result) -> None:
        """Keeps what became of a cell."""
        _write_whole(self._file(result.cell), msgspec.json.encode(result))
        self._mark(result.cell).unlink(missing_ok=True)

    def result(self, cell: str) -> Result | None:
        """What became of a cell, if that is known. A file that is damaged is as good as none."""
        try:
            return msgspec.json.decode(self._file(cell).read_bytes(), type=Result)
        except (FileNotFoundError, msgspec.MsgspecError):
            return None

    def results(self, cells: Iterable[Cell]) -> list[Result]:
        """Of those that have one."""
        found = (self.result(cell.id) for cell in cells)
        return [result for result in found if result is not None]

    def missing(self, cells: Iterable[Cell]) -> list[Cell]:
        """Those of which nothing is known."""
        finished = self.finished()
        return [cell for cell in cells if cell.id not in finished]

    def finished(self) -> set[str]:
        """The ids of all that have a result."""
        return self._named(".json")

    def running(self) -> set[str]:
        """The ids of all that somebody is at."""
        return self._named(".running")

    def forget(self, cells: Iterable[Cell]) -> None:
        """Lets these be run again."""
        for cell in cells:
            self._file(cell.id).unlink(missing_ok=True)

    def forget_running(self) -> None:
        """At the start of a sweep nobody is at any cell: those that were are dead."""
        for cell in self.running():
            self._mark(cell).unlink(missing_ok=True)

    def _named(self, suffix: str) -> set[str]:
        names = (entry.name for entry in os.scandir(self._cells))
        return {name.removesuffix(suffix) for name in names if name.endswith(suffix)}

    def _file(self, cell: str) -> Path:
        return self._cells / f"{cell}.json"

    def _mark(self, cell: str) -> Path:
        return self._cells / f"{cell}.running"


def _write_whole(path: Path, data: bytes) -> None:
    """All of it or nothing, also if two write the same file."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    aside.write_bytes(data)
    aside.replace(path)
