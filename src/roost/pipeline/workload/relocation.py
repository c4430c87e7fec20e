"""The workload of 000 section 5.1: subscribers that sink some, half or all of one publisher's quotes.

The quotes, the constants of the filters and who is rated how are those of `roost sim generate relocation`
with the same seed; see `simulation.generators.relocation`. Only the brokers are drawn anew: a publisher's
subscribers are on `spread` brokers of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa

from roost.errors import UserError
from roost.overlay.topologies import balanced_tree
from roost.pipeline.schemas import SUBSCRIPTION
from roost.pipeline.workload.blocks import Block, Column, Integers, generated
from roost.pipeline.workload.quotes import Origin, Source, quote_publications
from roost.pipeline.workload.texts import chosen, joined
from roost.pipeline.workload.thesis import BROKERS, PLACED, PUBLISHERS
from roost.simulation.generators.parts import Positive, Rate, Seconds, draws
from roost.simulation.generators.relocation import DECKS, allowed, rated_subscriptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SUBSCRIBERS_PER_PUBLISHER = 50
RATE_PER_MIN, UNTIL_S = 60.0, 1_085.0


def relocation_publications(
    spark: SparkSession,
    *,
    seed: int,
    rows: int | None = None,
    first: int = 0,
    partitions: int | None = None,
    publishers: Positive = PUBLISHERS,
    rate_per_min: Rate = RATE_PER_MIN,
    until_s: Seconds = UNTIL_S,
    bars: str = "",
    origin: Origin = "no",
) -> DataFrame:
    """Quotes of publishers that are all equally fast; as many as they publish until then."""
    return quote_publications(
        spark,
        Source.of(seed, publishers, bars),
        [rate_per_min] * publishers,
        rows=publishers * published(rate_per_min, until_s) if rows is None else rows,
        first=first,
        partitions=partitions,
        origin=origin,
    )


def relocation_subscriptions(
    spark: SparkSession,
    *,
    seed: int,
    rows: int | None = None,
    first: int = 0,
    partitions: int | None = None,
    distribution: Literal["random", "clustered"] = "random",
    spread: Positive = 10,
    brokers: Positive = BROKERS,
    publishers: Positive = PUBLISHERS,
    subscribers_per_publisher: Positive = SUBSCRIBERS_PER_PUBLISHER,
    rate_per_min: Rate = RATE_PER_MIN,
    until_s: Seconds = UNTIL_S,
    bars: str = "",
) -> DataFrame:
    """Low-, medium- and high-rated subscribers of one publisher after the other, over and over."""
    if spread > brokers:
        raise UserError(f"spread={spread}: there are only {brokers} brokers to spread over")
    make = Subscriptions(
        Source.of(seed, publishers, bars),
        distribution,
        spread,
        balanced_tree(brokers).brokers,
        subscribers_per_publisher,
        published(rate_per_min, until_s),
    )
    return generated(
        spark,
        make,
        PLACED,
        seed=seed,
        rows=publishers * subscribers_per_publisher if rows is None else rows,
        first=first,
        partitions=partitions,
    )


def published(rate_per_min: float, until_s: float) -> int:
    """How many quotes a publisher publishes, of which the constants are quantiles."""
    return max(ceil(rate_per_min * until_s / 60), 1)


@dataclass(frozen=True)
class Subscriptions:
    """Blocks of subscriptions. A task works out the constants of just the publishers that it needs."""

    source: Source
    distribution: str
    spread: int
    brokers: tuple[str, ...]
    per_publisher: int
    published: int

    @cached_property
    def rated(self) -> dict[int, dict[str, str]]:
        """The filters by publisher and rating, as far as they have been needed."""
        return {}

    @cached_property
    def places(self) -> dict[int, Integers]:
        """The brokers of a publisher, the same."""
        return {}

    def __call__(self, block: Block) -> dict[str, Column]:
        rng = block.draws("relocation subscriptions")
        deck = DECKS[self.distribution]
        publisher = block.rows // self.per_publisher % self.source.publishers
        needed, code = np.unique(publisher, return_inverse=True)
        for number in needed.tolist():
            self.prepare(number)
        ratings = sorted(set(deck))
        rating = np.array([ratings.index(letter) for letter in deck])[block.rows % len(deck)]
        words = pa.array([self.rated[p][letter] for p in needed.tolist() for letter in ratings])
        place = np.empty(block.size, np.int64)
        options = allowed(range(self.spread), self.distribution == "clustered")
        for number, letter in enumerate(ratings):
            own = np.flatnonzero(rating == number)
            place[own] = np.array(options[letter])[
                rng.integers(len(options[letter]), size=len(own))
            ]
        brokers = np.array([self.places[p] for p in needed.tolist()])[code, place]
        return {
            SUBSCRIPTION: block.rows,
            "filter": chosen(words, code * len(ratings) + rating),
            "subscriber": joined("S", block.rows + 1),
            "broker": chosen(pa.array(self.brokers), brokers),
        }

    def prepare(self, publisher: int) -> None:
        """Works out what a publisher's subscribers ask for, and where they are."""
        if publisher in self.rated:
            return
        source = self.source
        symbol = source.symbols[publisher]
        rated = rated_subscriptions(symbol, source.market.bars(symbol), self.published)
        self.rated[publisher] = {rating: str(asked) for rating, asked in rated.items()}
        rng = draws(source.seed, f"relocation places of {publisher}")
        self.places[publisher] = rng.permutation(len(self.brokers))[: self.spread]
