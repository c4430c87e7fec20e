"""GRAPE's delivery vectors from recorded traffic (000 section 4.1, figure 3).

A session is `count` consecutive publications of a publisher, and is known by the number of the first, as
on-line (`relocation.sessions`): publication s is in the session that began at s - (s - 1) mod count, and has
bit (s - 1) mod count. A vector is kept as words of 64 bits, one row each: the OR over rows is an aggregate
that Spark has, and a session may have up to 2^20 bits.

    column                      what
    publisher, first            whose session
    broker, life                where; in another life a broker has forgotten what it had before
    word, bits                  64 bits of the vector: publications that were delivered to clients there
    seen                        ... that came there
    deliveries                  to clients, one a client, of the publications of this word
    source, from_client         where they came from
    whole, over                 whether the first publication of the session came there, and the last
    certain                     see below

**As the broker had it.** When the direction changes that publications come from, a broker begins the session
anew. What counts are the publications since: those behind the last one that came from elsewhere. Bits say
which publications they are of, so they can be told apart after they were added up; deliveries can't, and are
too many if publications came from the same side before and after. Such a vector is not `certain`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from roost.errors import UserError
from roost.optimising.bitvector import BITS_MAX, WORD_BITS
from roost.pipeline.profiles.profile import Profile

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SESSION = 100
KEYS = ("publisher", "first", "broker", "life", "source", "from_client", "word")


def delivery_vectors(count: int = SESSION) -> Profile:
    """The profile, for sessions of so many publications."""
    if not 1 <= count <= BITS_MAX:
        raise UserError(f"a session of {count:,} publications; expected 1 to {BITS_MAX:,}")

    def partial(deliveries: DataFrame) -> DataFrame:
        place = f"(sequence - 1) % {count}"
        return (
            deliveries.where("source is not null")
            .selectExpr(
                "publisher",
                f"sequence - {place} as first",
                "broker",
                "life",
                "source",
                "from_client",
                f"cast(({place}) div {WORD_BITS} as int) as word",
                f"shiftleft(1L, cast(({place}) % {WORD_BITS} as int)) as bit",
                "local_subscribers as local",
                "sequence",
                "time",
            )
            .selectExpr("*", "if(local > 0, bit, 0L) as delivered")
            .groupBy(*KEYS)
            .agg(*_sums(bits="delivered", seen="bit", deliveries="local", times=("time", "time")))
        )

    def merged(sums: DataFrame) -> DataFrame:
        columns = {"bits": "bits", "seen": "seen", "deliveries": "deliveries"}
        added = sums.groupBy(*KEYS).agg(
            *_sums(**columns, times=("began", "last"), sequences=("from_", "to_"))
        )
        return _as_on_line(added, count)

    return Profile(
        name=f"vectors-{count}",
        what=f"GRAPE's delivery vectors, {count} publications a session",
        table="deliveries",
        needs=("source", "from_client", "life"),
        config={"session": count},
        partial=partial,
        merged=merged,
    )


def _sums(
    *,
    bits: str,
    seen: str,
    deliveries: str,
    times: tuple[str, str],
    sequences: tuple[str, str] = ("sequence", "sequence"),
) -> list[Column]:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 (Spark is slow to load)

    return [
        F.bit_or(bits).alias("bits"),
        F.bit_or(seen).alias("seen"),
        F.sum(deliveries).alias("deliveries"),
        F.min(sequences[0]).alias("from_"),
        F.max(sequences[1]).alias("to_"),
        F.min(times[0]).alias("began"),
        F.max(times[1]).alias("last"),
    ]


def _as_on_line(added: DataFrame, count: int) -> DataFrame:
    """The words that brokers would have told."""
    from pyspark.sql import Window  # noqa: PLC0415
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    session = Window.partitionBy("publisher", "first", "broker", "life")
    upstream = F.struct("source", "from_client")
    final = added.withColumn("final", F.max_by(upstream, "to_").over(session))
    other = F.when(upstream != F.col("final"), F.col("to_"))
    marked = (
        final.withColumn("other", F.max(other).over(session))
        .where(upstream == F.col("final"))
        .withColumn("behind", F.coalesce(F.col("other") - F.col("first"), F.lit(-1)))
        .withColumn("low", F.expr(f"behind - {WORD_BITS} * word"))  # the last bit that counts not
        .withColumn(
            "mask",
            F.expr(
                f"case when low < 0 then -1L when low >= {WORD_BITS - 1} then 0L"
                " else shiftleft(-1L, cast(low + 1 as int)) end"
            ),
        )
    )
    masked = marked.selectExpr(
        *("publisher", "first", "broker", "word", "life", "source", "from_client", "began", "last"),
        "bits & mask as bits",
        "seen & mask as seen",
        "if(mask = 0L, 0L, deliveries) as deliveries",
        "other is null or from_ > other or mask = 0L as clean",
        "from_",
        "to_",
        "other",
    )
    whole = F.min(F.when(F.col("other").isNull(), F.col("from_"))).over(session) == F.col("first")
    return masked.select(
        *("publisher", "first", "broker", "life", "word", "bits", "seen", "deliveries"),
        *("source", "from_client"),
        F.coalesce(whole, F.lit(False)).alias("whole"),
        (F.max("to_").over(session) == F.col("first") + count - 1).alias("over"),
        F.min("clean").over(session).alias("certain"),
        "began",
        "last",
    )
