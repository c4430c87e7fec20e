"""The results of a sweep: as one table, and each combination of parameters over its seeds."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct

from roost.pipeline.sweeps.folder import Result
from roost.pipeline.sweeps.tasks import VIOLATIONS, Parameters, Value

# The table: the cell and its parameters, its seed, how it ended; its figures; and how it was run.
AFTER = ("error", "seconds", "worker", "tries", "code")


def results_table(results: Sequence[Result]) -> pa.Table:
    """A row a result, in their order; a column for every parameter and figure that any of them has."""
    columns: dict[str, list[Value | None]] = {"cell": [r.cell for r in results]}
    for name in _names(r.parameters for r in results):
        columns[name] = [r.parameters.get(name) for r in results]
    columns["seed"] = [r.seed for r in results]
    columns["status"] = [r.status for r in results]
    for name in _names(r.figures for r in results):
        columns[name] = [r.figures.get(name) for r in results]
    for name in AFTER:
        columns[name] = [getattr(r, name) for r in results]
    return pa.table({name: _array(values) for name, values in columns.items()})


def _names(dictionaries: Iterable[dict[str, Any]]) -> list[str]:
    """All keys, in the order in which they first come."""
    return list(dict.fromkeys(name for one in dictionaries for name in one))


def _array(values: list[Value | None]) -> pa.Array:
    """Truths, whole numbers, numbers, or else texts."""
    kinds = {type(value) for value in values if value is not None}
    for plain, arrow in (
        ({bool}, pa.bool_()),
        ({int}, pa.int64()),
        ({int, float}, pa.float64()),
    ):
        if kinds and kinds <= plain:
            return pa.array(values, arrow)
    return pa.array([None if value is None else str(value) for value in values], pa.string())


def write_table(path: Path, table: pa.Table) -> None:
    """All of it or nothing."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    pq.write_table(table, aside, compression="zstd")
    aside.replace(path)


# --- over the seeds ---------------------------------------------------------------------------------


class Spread(Struct, frozen=True):
    """A figure over the seeds of a combination."""

    mean: float
    std: float  # of the sample; 0 for one seed
    min: float
    max: float
    n: int  # seeds that have the figure


class Group(Struct, frozen=True):
    """A combination of parameters."""

    parameters: Parameters
    done: int
    failed: int
    violations: int
    figures: dict[str, Spread]


def groups(results: Iterable[Result]) -> list[Group]:
    """Each combination of parameters over its seeds, in the order in which they first come."""
    together: dict[tuple[tuple[str, Value], ...], list[Result]] = {}
    for result in results:
        together.setdefault(tuple(result.parameters.items()), []).append(result)
    return [_group(dict(key), members) for key, members in together.items()]


def _group(parameters: Parameters, members: Sequence[Result]) -> Group:
    done = [result for result in members if result.status == "done"]
    figures = {}
    for name in _names(result.figures for result in done):
        values = [result.figures.get(name) for result in done]
        numbers = [float(value) for value in values if isinstance(value, int | float)]
        if numbers and not any(isinstance(value, str) for value in values):
            figures[name] = _spread(numbers)
    return Group(
        parameters=parameters,
        done=len(done),
        failed=sum(result.status == "failed" for result in members),
        violations=sum(map(violations, done)),
        figures=figures,
    )


def _spread(numbers: Sequence[float]) -> Spread:
    return Spread(
        mean=fmean(numbers),
        std=stdev(numbers) if len(numbers) > 1 else 0.0,
        min=min(numbers),
        max=max(numbers),
        n=len(numbers),
    )


def violations(result: Result) -> int:
    """How many promises a cell found broken."""
    found = result.figures.get(VIOLATIONS)
    return int(found) if isinstance(found, int | float) else 0
