"""Who got which publications, from recorded traffic: what every decision about a client begins with.

A vector for each publisher, broker and client there: bit `sequence mod 64` of word `sequence div 64` says
that the client got that publication. GRAPE's vectors of a broker (000 section 4.1) are the OR over its
clients, its deliveries their sum; PRESS's of a subscription (001 section 4.1.1) are those of its clients; and
publications that the same clients got are of one kind for the flows of a tree (002). So this one table is
enough for all.

    column                      what
    publisher, broker, client   who got it, and where; of the publisher's own client, ...
    published                   ... true: `bits` are the publications that came from that client there
    word, bits
    began, last                 when the first and the last of them were matched
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from roost.optimising.bitvector import WORD_BITS
from roost.pipeline.profiles.profile import Profile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KEYS = ("publisher", "broker", "client", "published", "word")


def audiences() -> Profile:
    """The profile."""
    return Profile(
        name="audiences",
        what="who got which publications",
        table="deliveries",
        needs=("source", "from_client", "clients"),
        partial=_partial,
        merged=_merged,
    )


def _partial(deliveries: DataFrame) -> DataFrame:
    known = deliveries.where("source is not null").selectExpr(
        "publisher",
        "broker",
        "source",
        "from_client",
        "clients",
        "time",
        f"sequence div {WORD_BITS} as word",
        f"shiftleft(1L, cast(sequence % {WORD_BITS} as int)) as bit",
    )
    kept = ("publisher", "broker", "time", "word", "bit")
    got = known.selectExpr(*kept, "explode(clients.client) as client", "false as published")
    sent = known.where("from_client").selectExpr(
        *kept, "source as client", "from_client as published"
    )
    return _added(got.unionByName(sent), "bit", "time", "time")


def _merged(sums: DataFrame) -> DataFrame:
    return _added(sums, "bits", "began", "last")


def _added(rows: DataFrame, bits: str, first: str, last: str) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 (Spark is slow to load)

    return rows.groupBy(*KEYS).agg(
        F.bit_or(bits).alias("bits"),
        F.min(first).alias("began"),
        F.max(last).alias("last"),
    )
