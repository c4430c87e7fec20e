"""How far a sweep is, from what is in its folder: the same for all ways to run it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import NamedTuple

from roost.pipeline.sweeps.folder import SweepFolder
from roost.pipeline.sweeps.grid import Cell


class Progress(NamedTuple):
    """How far it is."""

    total: int  # cells of the sweep
    done: int  # ... that are finished, well or not, now or earlier
    failed: int
    running: int
    elapsed_s: float
    left_s: float | None  # what it will still take; None before anything is finished


Say = Callable[[Progress], None]


class Watch:
    """Looks into the folder of a sweep that is being run, and says what it sees."""

    def __init__(self, folder: SweepFolder, cells: Sequence[Cell], kept: int, say: Say) -> None:
        self._folder = folder
        self._open = {cell.id: cell for cell in cells}
        self._total = kept + len(cells)
        self._failed = 0
        self._cost_done = 0.0
        self._say = say
        self._began = perf_counter()

    @property
    def elapsed_s(self) -> float:
        """Since it began to look."""
        return perf_counter() - self._began

    def look(self) -> None:
        """Says how far it is now."""
        for id_ in self._folder.finished() & self._open.keys():
            result = self._folder.result(id_)
            if result is not None:
                self._cost_done += self._open.pop(id_).cost
                self._failed += result.status == "failed"
        cost_left = sum(cell.cost for cell in self._open.values())
        elapsed = self.elapsed_s
        self._say(
            Progress(
                total=self._total,
                done=self._total - len(self._open),
                failed=self._failed,
                running=len(self._folder.running() & self._open.keys()),
                elapsed_s=elapsed,
                left_s=elapsed * cost_left / self._cost_done if self._cost_done else None,
            )
        )
