"""What an experiment is: a grid of cells, and what is claimed and drawn from their figures.

A cell is one run of a sweep's task (`pipeline.sweeps.tasks`), a pure function from parameters and a seed to
a row of figures. So an experiment runs wherever a sweep does, keeps every cell that is finished, and goes on
where it was. All that it says comes from the rows: a *claim* compares a figure with a criterion, a *chart*
shows figures, a *finding* says in words what follows from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan
from statistics import fmean

from msgspec import Struct

from roost.pictures.charts import Chart, Series
from roost.pipeline.sweeps.folder import Result
from roost.pipeline.sweeps.tasks import Value

# Axes by name, with their values as `--set` would have them.
Grid = Mapping[str, Sequence[Value]]


class Claim(Struct, frozen=True, kw_only=True):
    """Something that is said of the figures, and whether it is so. Programs read these names."""

    id: str  # where the paper says it: "000 fig 5a"
    what: str
    paper: float | None  # its figure, if it gives one
    ours: float | None  # None: there is no such figure, because cells failed
    unit: str
    criterion: str
    holds: bool
    # Where it lies with 95 % confidence, by what it is for each seed; None: one seed, or no mean of them.
    interval: tuple[float, float] | None = None


class Scale(Struct, frozen=True):
    """How large the runs are, and over how many seeds."""

    name: str
    seeds: int
    settings: Mapping[str, Value]
    what: str


class Results:
    """The figures of some cells."""

    def __init__(self, results: Iterable[Result]) -> None:
        self.done = [result for result in results if result.status == "done"]

    def where(self, **wanted: Value) -> Results:
        """Those cells that have these parameters."""
        return Results(
            result
            for result in self.done
            if all(result.parameters.get(name) == value for name, value in wanted.items())
        )

    def values(self, figure: str) -> list[float]:
        """Of all cells that have it."""
        found = (result.figures.get(figure) for result in self.done)
        return [float(value) for value in found if isinstance(value, int | float)]

    def mean(self, figure: str) -> float:
        """Over the cells; NaN if none has it."""
        values = self.values(figure)
        return fmean(values) if values else nan

    def parameter(self, name: str) -> list[float]:
        """The values of a number, in order."""
        found = (result.parameters.get(name) for result in self.done)
        return sorted({value for value in found if isinstance(value, int | float)})

    def figures(self, prefix: str) -> dict[float, str]:
        """Figures called PREFIX and a number, by the number."""
        names = {name for result in self.done for name in result.figures}
        tails = {name.removeprefix(prefix): name for name in names if name.startswith(prefix)}
        numbers = {float(tail): name for tail, name in tails.items() if _is_number(tail)}
        return dict(sorted(numbers.items()))

    def line(self, name: str, prefix: str) -> Series:
        """A series over the numbers in the names of figures."""
        means = ((x, self.mean(figure)) for x, figure in self.figures(prefix).items())
        return Series(name, tuple((x, y) for x, y in means if not isnan(y)))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def reduction(before: Results, after: Results, figure: str) -> float:
    """By how many per cent a figure is lower, means over the cells against each other."""
    was = before.mean(figure)
    return 100 * (1 - after.mean(figure) / was) if was else nan


def most(values: Iterable[float]) -> float:
    """The largest; NaN if one of them is, or if there is none."""
    known = list(values)
    return max(known) if known and not any(map(isnan, known)) else nan


@dataclass(frozen=True)
class Experiment:
    """One that can be run by name."""

    name: str
    what: str
    # The task of its cells, as MODULE:ATTRIBUTE.
    task: str
    scales: Mapping[str, Scale]
    # The cells of a scale; what a user has given (`takes`) is in the second argument.
    grids: Callable[[Scale, Mapping[str, str]], Sequence[Grid]]
    claims: Callable[[Results], Sequence[Claim]]
    charts: Callable[[Results], Sequence[Chart]]
    # Which of the paper's figures are reached, and under which conditions.
    findings: Callable[[Results], Sequence[str]] = lambda _: ()
    # More pages, by the names of their files.
    pages: Callable[[], Mapping[str, str]] = dict
    takes: tuple[str, ...] = ()


# --- criteria ---------------------------------------------------------------------------------------


def at_least(
    id: str, what: str, ours: float, bound: float, unit: str = "%", paper: float | None = None
) -> Claim:
    """Holds if the figure is not below the bound."""
    return _claim(id, what, ours, unit, paper, f"at least {bound:g}", ours >= bound)


def at_most(
    id: str, what: str, ours: float, bound: float, unit: str = "%", paper: float | None = None
) -> Claim:
    """Holds if the figure is not above the bound."""
    return _claim(id, what, ours, unit, paper, f"at most {bound:g}", ours <= bound)


def _claim(
    id: str, what: str, ours: float, unit: str, paper: float | None, criterion: str, holds: bool
) -> Claim:
    return Claim(
        id=id,
        what=what,
        paper=paper,
        ours=None if isnan(ours) else ours,
        unit=unit,
        criterion=criterion,
        holds=holds,  # False of NaN
    )
