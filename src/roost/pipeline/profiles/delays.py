"""Delays by hop: how old events are when they have been matched at the brokers that deliver them.

column                what
hop                   links between publisher and subscriber
deliveries            to subscribers
mean_s, p50_s, ...    of their ages; quantiles to 1 % (`sketch`)
queueing_s            mean wait in the input queue of a broker at that hop, by event
matching_s            likewise
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from roost.pipeline.profiles.profile import Profile
from roost.pipeline.profiles.sketch import BUCKET, WEIGHT, bucket_of, quantiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

QUANTILES = {"p50_s": 0.5, "p90_s": 0.9, "p99_s": 0.99}
SUMS = (WEIGHT, "ages_s", "visits", "queueing_s", "matching_s")


def delays_by_hop() -> Profile:
    """The profile."""
    return Profile(
        name="delays",
        what="delays by hop",
        table="deliveries",
        partial=_partial,
        merged=_merged,
    )


def _partial(deliveries: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 (Spark is slow to load)

    local = F.col("local_subscribers")
    return deliveries.groupBy("hop", bucket_of(F.col("age_s")).alias(BUCKET)).agg(
        F.sum(local).alias(WEIGHT),
        F.sum(F.col("age_s") * local).alias("ages_s"),
        F.count("*").alias("visits"),
        F.sum("queueing_s").alias("queueing_s"),
        F.sum("matching_s").alias("matching_s"),
    )


def _merged(sums: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    totals = sums.groupBy("hop").agg(*(F.sum(name).alias(name) for name in SUMS))
    return (
        totals.join(quantiles(sums, ["hop"], QUANTILES), "hop", "left")
        .select(
            "hop",
            F.col(WEIGHT).alias("deliveries"),
            F.try_divide("ages_s", WEIGHT).alias("mean_s"),
            *QUANTILES,
            (F.col("queueing_s") / F.col("visits")).alias("queueing_s"),
            (F.col("matching_s") / F.col("visits")).alias("matching_s"),
        )
        .orderBy("hop")
    )
