"""PRESS from recorded traffic (001 section 4.1.1): what a broker loses with a client, and who has it too.

On-line, a broker that is to offload samples its next N publications, and sets bit i of a client that the i-th
was delivered to, of the other broker's covering subscription set if that matches it, and of what comes there
whoever moves. Here all publications are the samples, and bits are kept by publisher and number, as in
`audiences`. So they mean the same at all brokers: what the clients of another one got is what its covering
subscription set matches (4.3), without a subscription to it.

    column              what
    broker, client
    since, until        when the first and the last publication came to the broker
    samples             publications that came there
    matched             those that the client got: over the samples, its share of the input rate (4.1)
    kept                those of them that come there whoever moves: published there, or going on from there
    shared              ... that clients of another broker got as well, by broker: what it would have anyway.
                        `matched` less this is what would be new there (4.4, 4.5)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from roost.optimising.bitvector import WORD_BITS
from roost.pipeline.profiles.profile import Profile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KEYS = ("broker", "kind", "client", "publisher", "word")
PLACE = ["publisher", "word"]
CLIENT, CAME, KEPT = "client", "came", "kept"


def press_spectra() -> Profile:
    """The profile."""
    return Profile(
        name="press",
        what="PRESS: what brokers would be rid of with a client, and who has it already",
        table="deliveries",
        needs=("source", "from_client", "neighbours", "clients"),
        partial=_partial,
        merged=_merged,
    )


def _partial(deliveries: DataFrame) -> DataFrame:
    nobody = "cast(null as string)"
    known = deliveries.where("source is not null").selectExpr(
        "broker",
        "publisher",
        f"sequence div {WORD_BITS} as word",
        f"shiftleft(1L, cast(sequence % {WORD_BITS} as int)) as bit",
        "time",
        f"if(from_client or size(neighbours) > 0, array(struct('{KEPT}' as kind, {nobody} as client)),"
        " array()) as kept",
        f"transform(clients, each -> struct('{CLIENT}' as kind, each.client as client)) as got",
    )
    came = f"array(struct('{CAME}' as kind, {nobody} as client))"
    rows = known.selectExpr(
        "broker", *PLACE, "bit", "time", f"inline(concat({came}, kept, got)) as (kind, client)"
    )
    return _added(rows, "bit", "time", "time")


def _added(rows: DataFrame, bits: str, since: str, until: str) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 (Spark is slow to load)

    return rows.groupBy(*KEYS).agg(
        F.bit_or(bits).alias("bits"), F.min(since).alias("since"), F.max(until).alias("until")
    )


def _merged(sums: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    added = _added(sums, "bits", "since", "until")
    clients = added.where(f"kind = '{CLIENT}'").select("broker", "client", *PLACE, "bits")
    came = (
        added.where(f"kind = '{CAME}'")
        .groupBy("broker")
        .agg(
            F.min("since").alias("since"),
            F.max("until").alias("until"),
            F.sum(F.expr("bit_count(bits)")).alias("samples"),
        )
    )
    kept = added.where(f"kind = '{KEPT}'").selectExpr("broker", *PLACE, "bits as kept")
    counts = (
        clients.join(kept, ["broker", *PLACE], "left")
        .groupBy("broker", "client")
        .agg(
            F.sum(F.expr("bit_count(bits)")).alias("matched"),
            F.sum(F.expr("bit_count(bits & coalesce(kept, 0L))")).alias("kept"),
        )
    )
    css = clients.groupBy(F.col("broker").alias("other"), *PLACE).agg(F.bit_or("bits").alias("css"))
    pairs = (
        clients.join(css, PLACE)
        .where("broker != other")
        .groupBy("broker", "client", "other")
        .agg(F.sum(F.expr("bit_count(bits & css)")).alias("shared"))
        .where("shared > 0")
        .groupBy("broker", "client")
        .agg(
            F.map_from_entries(F.array_sort(F.collect_list(F.struct("other", "shared")))).alias(
                "shared"
            )
        )
    )
    nothing = F.expr("cast(map() as map<string, bigint>)")
    return (
        counts.join(came, "broker")
        .join(pairs, ["broker", "client"], "left")
        .select(
            *("broker", "client", "since", "until", "samples", "matched", "kept"),
            F.coalesce("shared", nothing).alias("shared"),
        )
        .orderBy("broker", "client")
    )
