"""Load indices over time (001 section 3.3.1): of each broker and period the mean and the highest of each.

column               what
broker, since        the broker, and when the period begins
samples
input_utilisation, ...          means
input_utilisation_max, ...      the highest
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from roost.errors import UserError
from roost.pipeline.profiles.profile import Profile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PERIOD_S = 60.0
INDICES = (
    "input_utilisation",
    "output_utilisation",
    "matching_delay_s",
    "input_rate",
    "output_rate",
    "input_queueing_delay_s",
    "output_queueing_delay_s",
    "cpu_utilisation",
    "memory_bytes",
)


def loads_over_time(period_s: float = PERIOD_S) -> Profile:
    """The profile, with periods of that length."""
    if not period_s > 0:
        raise UserError(f"periods of {period_s} s; expected some length")

    def partial(loads: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812, PLC0415 (Spark is slow to load)

        since = F.floor(F.col("time") / F.lit(period_s)) * F.lit(period_s)
        return loads.groupBy("broker", since.alias("since")).agg(
            F.count("*").alias("samples"),
            *(F.sum(name).alias(name) for name in INDICES),
            *(F.max(name).alias(f"{name}_max") for name in INDICES),
        )

    def merged(sums: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812, PLC0415

        added = sums.groupBy("broker", "since").agg(
            F.sum("samples").alias("samples"),
            *(F.sum(name).alias(name) for name in INDICES),
            *(F.max(f"{name}_max").alias(f"{name}_max") for name in INDICES),
        )
        means = {name: F.col(name) / F.col("samples") for name in INDICES}
        return added.withColumns(means).orderBy("broker", "since")

    return Profile(
        name=f"loads-{period_s:g}",
        what=f"load indices over time, {period_s:g} s a row",
        table="loads",
        config={"period_s": period_s},
        partial=partial,
        merged=merged,
    )
