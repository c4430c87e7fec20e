"""Quantiles of many values, by counting them in buckets whose widths grow with the values (as DDSketch does).

The bucket of x is the least i with G^i >= x, and stands for the value in its middle, which is off by 1 % at
most. Counts can be added up, weighted ones too, and there are some hundreds of buckets however many values
there are: an exact percentile keeps every distinct value in memory, and takes ten times as long.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ACCURACY = 0.01
GROWTH = (1 + ACCURACY) / (1 - ACCURACY)
# What is not above this counts as nothing: a nanosecond, if it is a time.
LEAST = 1e-9
BUCKET, WEIGHT = "bucket", "weight"


def bucket_of(value: Column) -> Column:
    """The number of a value's bucket; that of what is next to nothing, or below, is null."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 (Spark is slow to load)

    number = F.ceil(F.log(value) / F.lit(math.log(GROWTH)))
    return F.when(value > LEAST, number.cast("int"))


def value_of(bucket: Column) -> Column:
    """What a bucket stands for."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    middle = F.pow(F.lit(GROWTH), bucket) * F.lit(2 / (1 + GROWTH))
    return F.when(bucket.isNull(), F.lit(0.0)).otherwise(middle)


def quantiles(counts: DataFrame, keys: list[str], wanted: dict[str, float]) -> DataFrame:
    """One row for each of `keys`, with a column for each quantile that is wanted.

    `counts` has columns `bucket` and `weight` besides the keys; what has no weight counts for nothing.
    """
    from pyspark.sql import Window  # noqa: PLC0415
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    rising = Window.partitionBy(*keys).orderBy(F.col(BUCKET).asc_nulls_first())
    below = counts.groupBy(*keys, BUCKET).agg(F.sum(WEIGHT).alias(WEIGHT)).where(f"{WEIGHT} > 0")
    placed = below.withColumn("up_to", F.sum(WEIGHT).over(rising)).withColumn(
        "all", F.sum(WEIGHT).over(Window.partitionBy(*keys))
    )
    value = value_of(F.col(BUCKET))
    return placed.groupBy(*keys).agg(
        *(
            F.min(F.when(F.col("up_to") >= share * F.col("all"), value)).alias(name)
            for name, share in wanted.items()
        )
    )
