"""A scale that takes seconds, and tables of a run that never was."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa

from roost.experiments.frame import Scale
from roost.experiments.relocation.tables import Tables, tables_of
from roost.pipeline.sweeps.folder import Result
from roost.pipeline.sweeps.sweep import Sweep
from roost.pipeline.sweeps.tasks import load_task
from roost.pipeline.sweeps.workers import Work, run_cell
from roost.traces import SCHEMAS

EMPTY = {pa.string(): "", pa.bool_(): False}
TINY = Scale(
    "tiny",
    1,
    {"brokers": 7, "publishers": 2, "until_s": 125.0},
    "7 brokers, 2 publishers, 2 minutes",
)


def here(sweep: Sweep) -> None:
    """Runs what is missing in this process, which is quicker for little."""
    sweep.run(_Here())


class _Here:
    def slots(self) -> int:
        return 1

    def __call__(self, work: Work, tick: Callable[[], None]) -> None:
        for cell in work.cells:
            run_cell(work, load_task(work.task), cell)
            tick()


def result(parameters: Mapping[str, Any], seed: int, **figures: Any) -> Result:
    """A cell that gave these figures."""
    return Result(
        cell=f"{sorted(parameters.items())} {seed}",
        parameters=dict(parameters),
        seed=seed,
        status="done",
        figures=figures,
        seconds=1.0,
        worker="here",
        tries=1,
        code="0",
    )


def tables(
    brokers: tuple[str, ...],
    *,
    deliveries: Iterable[Mapping[str, Any]] = (),
    links: Iterable[Mapping[str, Any]] = (),
    loads: Iterable[Mapping[str, Any]] = (),
    decisions: Iterable[Mapping[str, Any]] = (),
) -> Tables:
    """Tables with these rows; what a row does not say is 0 or empty."""
    given = {"deliveries": deliveries, "links": links, "loads": loads, "decisions": decisions}
    return tables_of({name: _table(name, rows) for name, rows in given.items()}, brokers)


def _table(name: str, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    schema = SCHEMAS[name]
    empty = {f.name: EMPTY.get(f.type, [] if pa.types.is_list(f.type) else 0) for f in schema}
    whole = [{**empty, **row} for row in rows]
    return pa.table(
        {f.name: pa.array([row[f.name] for row in whole], f.type) for f in schema}, schema=schema
    )
