"""What the experiments of 001 have in common: their task, and how shares of seeds are claimed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isnan, nan

from roost.experiments.frame import Results
from roost.pictures.charts import Chart, Series
from roost.pipeline.sweeps.folder import Result

TASK = "roost.experiments.balancing.cell:CELL"
PROFILES = ("thesis", "roost")
# In so many of the seeds, in %.
SHARES = {"thesis": 80.0, "roost": 95.0}
PERCENT = 100.0


def share(results: Results, is_so: Callable[[Result], bool]) -> float:
    """In how many of the runs something is so, in %; NaN if there are none."""
    if not results.done:
        return nan
    return PERCENT * sum(map(is_so, results.done)) / len(results.done)


def figure(result: Result, name: str) -> float:
    """One of a run; NaN if it has none."""
    value = result.figures.get(name)
    return float(value) if isinstance(value, int | float) else nan


def below(name: str, bound: float) -> Callable[[Result], bool]:
    """Whether a figure is not above a bound; who has none is not below."""
    return lambda result: figure(result, name) <= bound


def within(name: str, wanted: float, off: float) -> Callable[[Result], bool]:
    """Whether a figure is as wanted, up to a share of it."""
    return lambda result: abs(figure(result, name) - wanted) <= off * wanted


def is_near_zero(name: str, bound: float) -> Callable[[Result], bool]:
    """Whether a figure, of either sign, is within a bound; who has none has nothing to be wrong with."""

    def is_so(result: Result) -> bool:
        value = figure(result, name)
        return isnan(value) or abs(value) <= bound

    return is_so


def compared_charts(results: Results, charted: Mapping[str, tuple[str, str, str]]) -> list[Chart]:
    """Figures of the whole over time, with a line for each profile."""
    return [
        Chart(
            id=id_,
            title=title,
            x="time (s)",
            y=unit,
            series=tuple(
                results.where(profile=profile).line(profile, f"{name}_at_") for profile in PROFILES
            ),
        )
        for name, (id_, title, unit) in charted.items()
    ]


def cluster_line(results: Results, name: str, head: str) -> Series:
    """A figure of a cluster over time: the mean of its two edge-brokers."""
    first, second = (dict(results.line("", f"{name}_{head[:-1]}{n}_at_").points) for n in (1, 2))
    points = tuple((x, (y + second[x]) / 2) for x, y in first.items() if x in second)
    return Series(head, points)
