"""Traffic a link, from the counts that brokers write down once a period (the table `links`).

A count is of a channel, which may begin again: with the broker, with its neighbour, with the link. So what
was sent is the sum of what a count rose by from row to row, within a life of the broker, and a count that is
lower than before has begun at 0. The first row of a life is what the others are compared with; of traces
without lives, it is a count from 0.

    column                                   what
    broker, neighbour, class, life
    sent, received                           messages
    since, until                             of the first and last row
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from roost.pipeline.profiles.profile import Profile

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

LINK = ("broker", "neighbour", "class", "life")


def link_traffic() -> Profile:
    """The profile."""
    return Profile(
        name="traffic",
        what="messages a link, class and life of its broker",
        table="links",
        needs=("life",),
        partial=_partial,
        merged=_merged,
    )


def increments(links: DataFrame) -> DataFrame:
    """The rows of `links` with what each has more than the one before it: sent_more, received_more."""
    from pyspark.sql import Window  # noqa: PLC0415 (Spark is slow to load)
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    # Two rows of the same time are the first of a life, and the first that was counted.
    order = Window.partitionBy(*LINK).orderBy("time", "sent", "received")
    return links.withColumns(
        {
            f"{name}_more": _more(
                F.col(name),
                F.lag(name).over(order),
                F.when(F.col("life").isNull(), F.col(name)).otherwise(0),
            )
            for name in ("sent", "received")
        }
    )


def _more(count: Column, before: Column, first: Column) -> Column:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    return F.when(before.isNull(), first).when(count >= before, count - before).otherwise(count)


def _partial(links: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    order = F.struct("time", "sent", "received")
    return (
        increments(links)
        .groupBy(*LINK)
        .agg(
            F.sum("sent_more").alias("sent"),
            F.sum("received_more").alias("received"),
            F.min(order).alias("first"),
            F.max(order).alias("last"),
        )
    )


def _merged(sums: DataFrame) -> DataFrame:
    """What was counted in each part, and from the last of one to the first of the next."""
    from pyspark.sql import Window  # noqa: PLC0415
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    order = Window.partitionBy(*LINK).orderBy("first")
    between = {
        f"{name}_between": _more(
            F.col(f"first.{name}"), F.lag(f"last.{name}").over(order), F.lit(0)
        )
        for name in ("sent", "received")
    }
    return (
        sums.withColumns(between)
        .groupBy(*LINK)
        .agg(
            F.sum(F.col("sent") + F.col("sent_between")).alias("sent"),
            F.sum(F.col("received") + F.col("received_between")).alias("received"),
            F.min("first.time").alias("since"),
            F.max("last.time").alias("until"),
        )
    )
