"""What a federation did in one part of a run, next to another: rates, delays and hops from its traces.

    windows = [Window("before", began, moved), Window("after", moved, ended)]
    compare(deliveries, links, loads, windows)

    column               what
    brokers              that recorded their load
    published_per_s      publications that came from clients
    between_per_s        messages from broker to broker, of any kind
    other_per_s          those of them that are no publications: subscriptions, what optimisers say, ...
    overhead             the latter over the former
    received_per_s       messages that a broker receives, from clients and brokers, on average
    busiest_per_s        publications at the broker that has most of them
    delivered_per_s      deliveries to subscribers
    delay_mean_s         from publishing to matching at the subscriber's broker, by delivery
    delay_median_s       likewise, to 1 % (`profiles.sketch`)
    hops                 links between publisher and subscriber, on average over deliveries

Brokers count their messages and write down the counts once a period (the table `links`), each at its own
time. So for each of them a window is what lies between two of its samples, the last ones up to the window's
two ends; rates are by that time, and publications that are set against messages are counted over it, too. A
count begins again when its broker does: see `profiles.traffic`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from roost.errors import UserError
from roost.pipeline.profiles.sketch import BUCKET, WEIGHT, bucket_of, quantiles
from roost.pipeline.profiles.traffic import increments
from roost.pipeline.schemas import checked

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

WINDOW = "window"


class Window(NamedTuple):
    """A part of a run: after `start` up to `end`, in the time of its traces."""

    name: str
    start: float
    end: float


def compare(
    deliveries: DataFrame, links: DataFrame, loads: DataFrame, windows: Sequence[Window]
) -> DataFrame:
    """One row a window, in their order; of one run. A window in which nothing was recorded has no row."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 (Spark is slow to load)

    checked(deliveries, "deliveries")
    spans = _spans(windows)
    samples = _samples(loads, spans)
    messages = (
        _link_rates(links, samples).groupBy(WINDOW).agg(F.sum("per_s").alias("between_per_s"))
    )
    since, until = F.col("since"), F.col("until")
    sent_on = (
        deliveries.join(samples, "broker")
        .where((F.col("time") > since) & (F.col("time") <= until))
        .groupBy(WINDOW, "broker", "since", "until")
        .agg(F.sum("forwarded").alias("forwarded"), F.count("*").alias("routed"))
        .groupBy(WINDOW)
        .agg(
            F.sum(F.col("forwarded") / (until - since)).alias("forwarded_per_s"),
            F.max(F.col("routed") / (until - since)).alias("busiest_per_s"),
        )
    )
    brokers = samples.groupBy(WINDOW).agg(F.count("*").alias("brokers"))
    other = F.greatest(F.col("between_per_s") - F.col("forwarded_per_s"), F.lit(0.0))
    return (
        _delivered(deliveries, spans)
        .join(messages, WINDOW)
        .join(sent_on, WINDOW)
        .join(brokers, WINDOW)
        .orderBy("number")
        .select(
            WINDOW,
            "brokers",
            "published_per_s",
            "between_per_s",
            other.alias("other_per_s"),
            F.try_divide(other, F.col("between_per_s")).alias("overhead"),
            ((F.col("between_per_s") + F.col("published_per_s")) / F.col("brokers")).alias(
                "received_per_s"
            ),
            "busiest_per_s",
            "delivered_per_s",
            "delay_mean_s",
            "delay_median_s",
            "hops",
        )
    )


def link_rates(links: DataFrame, loads: DataFrame, windows: Sequence[Window]) -> DataFrame:
    """Messages a second from each broker to each neighbour: window, broker, neighbour, per_s."""
    return _link_rates(links, _samples(loads, _spans(windows)))


def publisher_places(deliveries: DataFrame, windows: Sequence[Window]) -> DataFrame:
    """The broker at which each publisher published last: window, publisher, broker."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    checked(deliveries, "deliveries")
    return (
        _within(deliveries.where("hop = 0"), _spans(windows))
        .groupBy(WINDOW, "publisher")
        .agg(F.max_by("broker", "time").alias("broker"))
    )


# --- inside -----------------------------------------------------------------------------------------


def _spans(windows: Sequence[Window]) -> Column:
    """All windows, as an array that rows pick theirs from."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    for window in windows:
        if not window.start < window.end:
            raise UserError(
                f"the window {window.name!r} goes from {window.start} to {window.end}; expected an end"
                " behind its start"
            )
    if not windows or len({window.name for window in windows}) < len(windows):
        names = ", ".join(repr(window.name) for window in windows) or "none"
        raise UserError(f"the windows are {names}; expected one or more, with names of their own")
    return F.array(
        *(
            F.struct(
                F.lit(number).alias("number"),
                F.lit(name).alias(WINDOW),
                F.lit(float(start)).alias("start"),
                F.lit(float(end)).alias("end"),
            )
            for number, (name, start, end) in enumerate(windows)
        )
    )


def _within(frame: DataFrame, spans: Column) -> DataFrame:
    """The rows of each window: window, start and end, and its number."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    time = F.col("time")
    own = F.filter(spans, lambda span: (time > span["start"]) & (time <= span["end"]))
    return frame.select("*", F.inline(own))


def _samples(loads: DataFrame, spans: Column) -> DataFrame:
    """The time between two samples that stands for a window, of each broker: window, broker, since, until."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    checked(loads, "loads")
    time = F.col("time")
    before = F.max(F.when(time <= F.col("start"), time))
    return (
        loads.select("broker", "time", F.inline(F.filter(spans, lambda span: time <= span["end"])))
        .groupBy(WINDOW, "start", "broker")
        # A broker that began within the window has its first sample for a beginning.
        .agg(F.coalesce(before, F.min("time")).alias("since"), F.max("time").alias("until"))
        .where("until > since and until > start")
        .drop("start")
    )


def _link_rates(links: DataFrame, samples: DataFrame) -> DataFrame:
    """A row is a count that holds until the next one: what it rose by within the window was sent there."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    checked(links, "links")
    life = F.col("life") if "life" in links.columns else F.lit(None).cast("bigint")
    sent = F.when(F.col("time") > F.col("since"), F.col("sent_more"))
    return (
        increments(links.withColumn("life", life))
        .join(samples, "broker")
        .where(F.col("time") <= F.col("until"))
        .groupBy(WINDOW, "broker", "neighbour", "since", "until")
        .agg(F.coalesce(F.sum(sent), F.lit(0)).alias("sent"))
        .select(
            WINDOW,
            "broker",
            "neighbour",
            (F.col("sent") / (F.col("until") - F.col("since"))).alias("per_s"),
        )
    )


def _delivered(deliveries: DataFrame, spans: Column) -> DataFrame:
    """What counts by delivery, and what came from clients."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    local = F.col("local_subscribers")
    seconds = F.col("end") - F.col("start")
    sums = (
        _within(deliveries, spans)
        .groupBy("number", WINDOW, "start", "end", bucket_of(F.col("age_s")).alias(BUCKET))
        .agg(
            F.count_if(F.col("hop") == 0).alias("published"),
            F.sum(local).alias(WEIGHT),
            F.sum(F.col("age_s") * local).alias("delays_s"),
            F.sum(F.col("hop") * local).alias("hops_all"),
        )
    )
    totals = sums.groupBy("number", WINDOW, "start", "end").agg(
        F.sum("published").alias("published"),
        F.sum(WEIGHT).alias("delivered"),
        F.sum("delays_s").alias("delays_s"),
        F.sum("hops_all").alias("hops_all"),
    )
    return totals.join(
        quantiles(sums, ["number"], {"delay_median_s": 0.5}), "number", "left"
    ).select(
        "number",
        WINDOW,
        (F.col("published") / seconds).alias("published_per_s"),
        (F.col("delivered") / seconds).alias("delivered_per_s"),
        F.try_divide(F.col("delays_s"), F.col("delivered")).alias("delay_mean_s"),
        "delay_median_s",
        F.try_divide(F.col("hops_all"), F.col("delivered")).alias("hops"),
    )
