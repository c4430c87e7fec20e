"""The workloads by name, with their tables and parameters: what a command can list and set."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from roost.errors import UserError
from roost.pipeline.workload.bluedove import bluedove_publications, bluedove_subscriptions
from roost.pipeline.workload.quotes import bars
from roost.pipeline.workload.relocation import relocation_publications, relocation_subscriptions
from roost.pipeline.workload.stock import stock_publications, stock_subscriptions
from roost.pipeline.workload.thesis import thesis_publications, thesis_subscriptions
from roost.pipeline.workload.topics import (
    hierarchy_publications,
    hierarchy_subscriptions,
    overlay_publications,
    overlay_subscriptions,
)
from roost.simulation.generators.parameters import (
    Parameter,
    description_of,
    parameters_of,
    read_values,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Value = int | float | str

# What every table is made with; the rest of the keywords are the parameters of the workload.
OWN = frozenset(("seed", "rows", "first", "partitions"))


@dataclass(frozen=True)
class Workload:
    """Some tables that belong together. A parameter of several tables is the same for all of them."""

    name: str
    source: str
    tables: Mapping[str, Callable[..., DataFrame]]

    @property
    def descriptions(self) -> dict[str, str]:
        """One line on each table."""
        return {table: description_of(make) for table, make in self.tables.items()}

    @cached_property
    def parameters(self) -> Mapping[str, Parameter]:
        """What can be set besides the seed and the numbers of rows, by name."""
        found: dict[str, Parameter] = {}
        for make in self.tables.values():
            found |= parameters_of(make, OWN)
        return found

    def values(self, texts: Mapping[str, str]) -> dict[str, Value]:
        """All parameters, with the values (as texts) that differ from the defaults."""
        defaults = {name: parameter.default for name, parameter in self.parameters.items()}
        return defaults | read_values(self.name, self.parameters, texts)

    def frames(
        self,
        spark: SparkSession,
        seed: int,
        values: Mapping[str, Value],
        *,
        rows: Mapping[str, int] | None = None,
        partitions: int | None = None,
    ) -> dict[str, DataFrame]:
        """The tables. `rows` of those that differ from what the paper has."""
        self.check_rows(rows or {})
        frames = {}
        for table, make in self.tables.items():
            chosen: dict[str, Any] = {
                name: values[name] for name in parameters_of(make, OWN) if name in values
            }
            if rows and table in rows:
                chosen["rows"] = rows[table]
            frames[table] = make(spark, seed=seed, partitions=partitions, **chosen)
        return frames

    def check_rows(self, rows: Mapping[str, int]) -> None:
        """Refuses rows of what it does not have."""
        for table in rows:
            if table not in self.tables or table == BARS:
                raise UserError(f"{self.name}: the number of {table} can't be set")


BARS = "bars"

WORKLOADS: Mapping[str, Workload] = {
    workload.name: workload
    for workload in (
        Workload(
            "thesis",
            "001 section 5.1",
            {"publications": thesis_publications, "subscriptions": thesis_subscriptions},
        ),
        Workload(
            "relocation",
            "000 section 5.1",
            {"publications": relocation_publications, "subscriptions": relocation_subscriptions},
        ),
        Workload(
            "overlay",
            "002 section 6.1",
            {"publications": overlay_publications, "subscriptions": overlay_subscriptions},
        ),
        Workload(
            "hierarchy",
            "003 section V",
            {"publications": hierarchy_publications, "subscriptions": hierarchy_subscriptions},
        ),
        Workload(
            "bluedove",
            "004 section IV-B",
            {"publications": bluedove_publications, "subscriptions": bluedove_subscriptions},
        ),
        Workload(
            "stock",
            "the match benchmark",
            {"publications": stock_publications, "subscriptions": stock_subscriptions},
        ),
        Workload(BARS, "the quotes of thesis and relocation", {BARS: bars}),
    )
}


def workload_of(name: str) -> Workload:
    """The workload of that name."""
    if name not in WORKLOADS:
        raise UserError(f"no workload is called {name!r}; there are {', '.join(WORKLOADS)}")
    return WORKLOADS[name]
