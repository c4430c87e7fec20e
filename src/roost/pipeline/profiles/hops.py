"""What a broker and a link add to the age of an event: delays that can be added up along any path.

An event is as old at a broker as it was when the one before it had matched it, and what the link took, and
what it waited and was matched here. Ages are recorded, waits and matching too; so what a link took, with the
queue before it, is the mean age on arrival less the mean age on departure. Both are sums over the rows of one
broker, and no row has to be joined with another.

    column                what
    broker, other         a broker and a neighbour; null for what came from clients
    arrived, arrival_s    publications that came from there, and the sum of their ages then
    left, departure_s     publications that went there, and the sum of their ages then
    waiting_s, matching_s sums over those that came from there
    delivered, ages_s     deliveries of them to clients here, and the sum of their ages then
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from roost.pipeline.profiles.profile import Profile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KEYS = ("broker", "other")
SUMS = (
    "arrived",
    "arrival_s",
    "left",
    "departure_s",
    "waiting_s",
    "matching_s",
    "delivered",
    "ages_s",
)


def hop_times() -> Profile:
    """The profile."""
    return Profile(
        name="hops",
        what="what brokers and links add to the age of an event",
        table="deliveries",
        needs=("source", "from_client", "neighbours"),
        partial=_partial,
        merged=_added,
    )


def _partial(deliveries: DataFrame) -> DataFrame:
    known = deliveries.where("source is not null")
    came = known.selectExpr(
        "broker",
        "if(from_client, null, source) as other",
        "1L as arrived",
        "age_s - queueing_s - matching_s as arrival_s",
        "0L as left",
        "0D as departure_s",
        "queueing_s as waiting_s",
        "matching_s",
        "cast(local_subscribers as long) as delivered",
        "age_s * local_subscribers as ages_s",
    )
    went = known.selectExpr(
        "broker",
        "explode(neighbours) as other",
        "0L as arrived",
        "0D as arrival_s",
        "1L as left",
        "age_s as departure_s",
        "0D as waiting_s",
        "0D as matching_s",
        "0L as delivered",
        "0D as ages_s",
    )
    return _added(came.unionByName(went))


def _added(sums: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 (Spark is slow to load)

    return sums.groupBy(*KEYS).agg(*(F.sum(name).alias(name) for name in SUMS))
