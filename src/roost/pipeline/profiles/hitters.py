"""Heavy hitters: who publishes most, who is delivered most, through whom most passes.

column                   what
kind, name               a publisher, client or broker
events, bytes            that it published, was delivered, or routed
deliveries               to clients, of the events of a publisher or at a broker
share                    of the events of its kind
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from roost.errors import UserError
from roost.pipeline.profiles.profile import Profile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SHOWN = 20
KEYS = ("kind", "name")


def heavy_hitters(count: int = SHOWN) -> Profile:
    """The profile: so many of each kind. All are counted, so that those of later segments may overtake."""
    if count < 1:
        raise UserError(f"{count} heavy hitters of each kind; expected at least one")
    return Profile(
        name="hitters",
        what="who publishes, receives and routes most",
        table="deliveries",
        needs=("clients",),
        partial=_partial,
        merged=lambda sums: _merged(sums, count),
    )


def _partial(deliveries: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 (Spark is slow to load)

    counted = (
        F.count("*").alias("events"),
        F.sum("bytes").alias("bytes"),
        F.sum("local_subscribers").alias("deliveries"),
    )
    # By publisher and broker at once: both kinds are sums of it, and few in comparison.
    pairs = deliveries.groupBy("publisher", "broker").agg(
        *counted,
        F.count_if(F.col("hop") == 0).alias("published"),
        F.sum(F.when(F.col("hop") == 0, F.col("bytes")).otherwise(0)).alias("published_bytes"),
    )
    publishers = pairs.selectExpr(
        *("'publisher' as kind", "publisher as name"),
        *("published as events", "published_bytes as bytes", "deliveries"),
    )
    brokers = pairs.selectExpr(
        *("'broker' as kind", "broker as name", "events", "bytes", "deliveries")
    )
    clients = (
        deliveries.where("local_subscribers > 0")
        .select("bytes", F.explode("clients.client").alias("name"))
        .groupBy("name")
        .agg(F.count("*").alias("events"), F.sum("bytes").alias("bytes"))
        .selectExpr("'client' as kind", "name", "events", "bytes", "events as deliveries")
    )
    return _added(publishers.union(brokers).union(clients))


def _added(sums: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    columns = ("events", "bytes", "deliveries")
    return sums.groupBy(*KEYS).agg(*(F.sum(name).alias(name) for name in columns))


def _merged(sums: DataFrame, count: int) -> DataFrame:
    from pyspark.sql import Window  # noqa: PLC0415
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    kind = Window.partitionBy("kind")
    most = kind.orderBy(F.col("events").desc(), "name")
    return (
        _added(sums)
        .withColumn("share", F.try_divide("events", F.sum("events").over(kind)))
        .withColumn("place", F.row_number().over(most))
        .where(F.col("place") <= count)
        .orderBy("kind", "place")
        .drop("place")
    )
