"""POP's averages over traced publications (000 section 3.1): the Publisher Profile Tables of all brokers.

Of each traced publication a broker hears how many subscribers it was delivered to behind each neighbour, and
keeps running averages: three parts what it was, one part the newest number (`relocation.pop.Profile`). From a
trace, the brokers that a publication came to form a tree, each with the neighbour that it came from, so what
is behind a neighbour is a sum over those who have it on their way to the publisher.

    column             what
    publisher, broker
    traces             that the averages are of
    local              average number of subscribers at the broker
    downstream         ... at and behind each neighbour

Where a broker that a publication was sent to has no row of it, nobody above heard a result, and it does not
count there. The profile of a publisher whose publications come from another side than before begins anew, as
on-line. Results are taken in the order of the publications: on-line it is that of the last answer to
each, which is the same unless answers overtake each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from roost.pipeline.profiles.profile import Profile
from roost.relocation.pop import NEWEST_WEIGHT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PUBLICATION = ["publisher", "sequence"]


def pop_averages(newest: float = NEWEST_WEIGHT) -> Profile:
    """The profile, with this weight for the newest number."""
    return Profile(
        name="pop",
        what="POP's averages over traced publications",
        table="deliveries",
        needs=("source", "from_client", "neighbours", "traced", "life"),
        config={"newest": newest},
        partial=_traced,
        merged=lambda rows: _averages(_results(rows), newest),
    )


def _traced(deliveries: DataFrame) -> DataFrame:
    """The rows themselves: a few tens a minute and publisher."""
    return deliveries.where("traced and source is not null").select(
        *PUBLICATION,
        "broker",
        "hop",
        "local_subscribers",
        "source",
        "from_client",
        "life",
        "neighbours",
    )


def _results(rows: DataFrame) -> DataFrame:
    """A row for each broker that heard all results of a publication: publisher, sequence, broker, upstream,
    local, downstream."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 (Spark is slow to load)

    # What came again in another life of a broker was routed again.
    others = [name for name in rows.columns if name not in (*PUBLICATION, "broker")]
    last = F.max_by(F.struct(*others), "life").alias("last")
    rows = rows.groupBy(*PUBLICATION, "broker").agg(last).select(*PUBLICATION, "broker", "last.*")
    came_from = rows.where("not from_client").groupBy(*PUBLICATION)
    entries = F.map_from_entries(F.collect_list(F.struct("broker", "source"))).alias("parents")
    known = rows.join(came_from.agg(entries), PUBLICATION, "left").withColumn(
        "parents", F.coalesce("parents", F.expr("cast(map() as map<string, string>)"))
    )
    # The way back to the publisher, this broker first; and those who should have the event, and have no row.
    way = known.withColumns(
        {
            "way": F.expr(
                "aggregate(sequence(1, hop + 1), array(broker), (way, step) -> if(step > hop, way,"
                " array_append(way, parents[element_at(way, -1)])))"
            ),
            "missing": F.expr(
                "size(neighbours) - size(filter(map_values(parents), each -> each = broker))"
            ),
        }
    )
    # Each row counts for its broker, and for every broker on the way, there for the neighbour before it.
    counted = way.selectExpr(
        *PUBLICATION,
        "inline(transform(way, (each, place) -> struct(each as at,"
        " if(place = 0, null, way[place - 1]) as neighbour, local_subscribers as subscribers,"
        " missing as missing, if(place = 0, struct(if(from_client, null, source) as source, life), null)"
        " as upstream)))",
    )
    sums = counted.groupBy(*PUBLICATION, "at", "neighbour").agg(
        F.sum("subscribers").alias("subscribers"),
        F.sum("missing").alias("missing"),
        F.any_value("upstream", True).alias("upstream"),
    )
    pairs = F.collect_list(
        F.when(F.col("neighbour").isNotNull(), F.struct("neighbour", "subscribers"))
    )
    return (
        sums.groupBy(*PUBLICATION, F.col("at").alias("broker"))
        .agg(
            F.sum("missing").alias("missing"),
            F.any_value("upstream", True).alias("upstream"),
            F.sum(F.when(F.col("neighbour").isNull(), F.col("subscribers"))).alias("local"),
            F.map_from_entries(pairs).alias("downstream"),
        )
        .where("missing = 0 and upstream is not null")
        .drop("missing")
    )


def _averages(results: DataFrame, newest: float) -> DataFrame:
    """Running averages since the publications come from where they come from."""
    from pyspark.sql import Window  # noqa: PLC0415
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    place = Window.partitionBy("publisher", "broker").orderBy("sequence")
    everything = Window.partitionBy("publisher", "broker")
    turned = ~F.col("upstream").eqNullSafe(F.lag("upstream").over(place))
    since = (
        results.withColumn("turned", F.when(turned, F.col("sequence")))
        .withColumn("since", F.max("turned").over(everything))
        .where("sequence >= since")
    )
    traces = F.collect_list(F.struct("sequence", "local", "downstream"))
    gathered = (
        since.groupBy("publisher", "broker")
        .agg(traces.alias("traces"))
        .withColumn(
            "traces",
            F.expr(
                "array_sort(traces, (one, other) -> cast(sign(one.sequence - other.sequence) as int))"
            ),
        )
    )
    return gathered.selectExpr(
        "publisher",
        "broker",
        "size(traces) as traces",
        f"{_average('trace.local', newest)} as local",
        "map_from_entries(transform(array_sort(array_distinct(flatten(transform(traces,"
        " trace -> map_keys(trace.downstream))))), name -> struct(name,"
        f" {_average('coalesce(trace.downstream[name], 0)', newest)}))) as downstream",
    )


def _average(value: str, newest: float) -> str:
    """Of a value of each of `traces`, in their order; the first is taken as it is."""
    number = f"cast({value} as double)"
    return (
        "aggregate(traces, cast(null as double), (old, trace) -> if(old is null,"
        f" {number}, {1.0 - newest!r}D * old + {newest!r}D * {number}))"
    )
