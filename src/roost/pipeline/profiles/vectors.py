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
PLACE = ("publisher", "broker", "life", "source", "from_client")
KEYS = (*PLACE, "first", "word")
SESSION_KEYS = ("publisher", "first", "broker", "life")
SUMS = ("bits", "seen", "deliveries")


def delivery_vectors(count: int = SESSION) -> Profile:
    """The profile, for sessions of so many publications."""
    if not 1 <= count <= BITS_MAX:
        raise UserError(f"a session of {count:,} publications; expected 1 to {BITS_MAX:,}")

    words = -(-count // WORD_BITS)

    def partial(deliveries: DataFrame) -> DataFrame:
        # One number for session and word: rows are many, and each key of a group costs.
        place = f"((sequence - 1) % {count})"
        return (
            deliveries.where("source is not null")
            .selectExpr(
                *PLACE,
                f"(sequence - 1) div {count} * {words} + {place} div {WORD_BITS} as slot",
                f"shiftleft(1L, cast({place} % {WORD_BITS} as int)) as bit",
                "local_subscribers as local",
            )
            .selectExpr("*", "if(local > 0, bit, 0L) as delivered")
            .groupBy(*PLACE, "slot")
            .agg(*_sums(bits="delivered", seen="bit", deliveries="local"))
            .selectExpr(
                *PLACE,
                f"slot div {words} * {count} + 1 as first",
                f"cast(slot % {words} as int) as word",
                *SUMS,
            )
        )

    def merged(sums: DataFrame) -> DataFrame:
        added = sums.groupBy(*KEYS).agg(*_sums(**{name: name for name in SUMS}))
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


def _sums(*, bits: str, seen: str, deliveries: str) -> list[Column]:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 (Spark is slow to load)

    return [
        F.bit_or(bits).alias("bits"),
        F.bit_or(seen).alias("seen"),
        F.sum(deliveries).alias("deliveries"),
    ]


def _as_on_line(added: DataFrame, count: int) -> DataFrame:
    """The words that brokers would have told.

    The words of a session are few: they are looked at together, in a list, which takes a third of what
    windows over sorted rows do.
    """
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    # The numbers of the first and the last publication of a word: its lowest and its highest bit.
    ends = added.withColumn("binary", F.expr("bin(seen)")).selectExpr(
        *KEYS,
        *SUMS,
        f"first + {WORD_BITS} * word + length(binary) - length(rtrim('0', binary)) as from_",
        f"first + {WORD_BITS} * word + length(binary) - 1 as to_",
    )
    words = F.collect_list(F.struct("word", *SUMS, "source", "from_client", "from_", "to_"))
    same = "each.source = final.source and each.from_client = final.from_client"
    return (
        ends.groupBy(*SESSION_KEYS)
        .agg(words.alias("words"))
        # Where the last of them came from, and the last that came from elsewhere.
        .withColumn(
            "final",
            F.expr(
                "array_max(transform(words, each -> struct(each.to_, each.source, each.from_client)))"
            ),
        )
        .selectExpr(
            *(*SESSION_KEYS, "final"),
            f"filter(words, each -> {same}) as words",
            f"array_max(transform(filter(words, each -> not ({same})), each -> each.to_)) as other",
        )
        .selectExpr(
            *SESSION_KEYS,
            "other is null and array_min(words.from_) = first as whole",
            f"final.to_ = first + {count - 1} as over",
            # Words that lie wholly before that count for nothing.
            "other is null or forall(words, each -> each.from_ > other or"
            f" other - first - {WORD_BITS} * each.word >= {WORD_BITS - 1}) as certain",
            "coalesce(other - first, -1L) as behind",
            "inline(words)",
        )
        .withColumn("low", F.expr(f"behind - {WORD_BITS} * word"))  # the last bit that counts not
        .withColumn(
            "mask",
            F.expr(
                f"case when low < 0 then -1L when low >= {WORD_BITS - 1} then 0L"
                " else shiftleft(-1L, cast(low + 1 as int)) end"
            ),
        )
        .selectExpr(
            *("publisher", "first", "broker", "life", "word"),
            "bits & mask as bits",
            "seen & mask as seen",
            "if(mask = 0L, 0L, deliveries) as deliveries",
            *("source", "from_client", "whole", "over", "certain"),
        )
    )
