"""The clients of 001 section 5.1: a publisher a symbol, and subscriptions from the templates of table 5.1.

The publishers, their rates and their quotes are those of `roost sim generate tree` with the same seed. The
subscriptions come from the same templates, quotes and silent symbols (see `simulation.generators.thesis`),
but each row is drawn by itself: a row is silent with the probability `zero_traffic`, where a workload file
has just that share of silent subscribers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from roost.language import Operator, Predicate
from roost.overlay.topologies import balanced_tree
from roost.pipeline.schemas import SCHEMAS, SUBSCRIPTION
from roost.pipeline.workload.blocks import Block, Column, Floats, Integers, generated
from roost.pipeline.workload.quotes import Origin, Source, quote_publications
from roost.pipeline.workload.texts import Part, chosen, interleaved, joined
from roost.simulation.bars import CLASS
from roost.simulation.generators.parts import Positive, Share
from roost.simulation.generators.thesis import (
    SILENT_TEMPLATES,
    TEMPLATES,
    Template,
    tree_publishers,
    unpublished,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PUBLISHERS, SUBSCRIPTIONS, PUBLICATIONS = 40, 2_000, 100_000
BROKERS = 63
EVERY = str(Predicate("class", Operator.EQ, CLASS))
# A subscription that has a client, and the client a place.
PLACED = pa.schema(
    [*SCHEMAS["subscriptions"], ("subscriber", pa.string()), ("broker", pa.string())]
)


def thesis_publications(
    spark: SparkSession,
    *,
    seed: int,
    rows: int = PUBLICATIONS,
    first: int = 0,
    partitions: int | None = None,
    publishers: Positive = PUBLISHERS,
    bars: str = "",
    origin: Origin = "no",
) -> DataFrame:
    """Quotes of publishers that publish up to 60 a minute."""
    source = Source.of(seed, publishers, bars)
    return quote_publications(
        spark,
        source,
        [p.rate_per_min for p in tree_publishers(seed, source.symbols, ["B0"])],
        rows=rows,
        first=first,
        partitions=partitions,
        origin=origin,
    )


def thesis_subscriptions(
    spark: SparkSession,
    *,
    seed: int,
    rows: int = SUBSCRIPTIONS,
    first: int = 0,
    partitions: int | None = None,
    publishers: Positive = PUBLISHERS,
    zero_traffic: Share = 0.25,
    brokers: Positive = BROKERS,
    bars: str = "",
) -> DataFrame:
    """From the templates of 001 table 5.1, some without traffic, at any of the brokers."""
    source = Source.of(seed, publishers, bars)
    return generated(
        spark,
        Subscriptions(source, zero_traffic, balanced_tree(brokers).brokers),
        PLACED,
        seed=seed,
        rows=rows,
        first=first,
        partitions=partitions,
    )


@dataclass(frozen=True)
class Subscriptions:
    """Blocks of subscriptions."""

    source: Source
    zero_traffic: float
    brokers: tuple[str, ...]

    @cached_property
    def asked(self) -> pa.Array:
        """The beginning of filters for a symbol: those that are published, then those that are not."""
        source = self.source
        symbols = [*source.symbols, *unpublished(source.market.symbols, source.symbols)]
        return pa.array([f"{EVERY} and {Predicate('symbol', Operator.EQ, s)}" for s in symbols])

    @cached_property
    def volume_max(self) -> int:
        """No quote has more."""
        return int(self.source.quotes.rows["volume"].to_numpy().max())

    def __call__(self, block: Block) -> dict[str, Column]:
        rng = block.draws("thesis subscriptions")
        n, publishers = block.size, self.source.publishers
        silent = rng.uniform(size=n) < self.zero_traffic
        shares = rng.uniform(size=n)
        form = np.where(silent, drawn(SILENT_TEMPLATES, shares), drawn(TEMPLATES, shares))
        symbol = rng.integers(publishers, size=n)
        # Any quote of the symbol: its number is taken modulo how many there are.
        quote = self.source.quotes.places(symbol, rng.integers(1 << 62, size=n))
        asked = np.where(silent, publishers + rng.integers(publishers, size=n), symbol)
        unreached = (self.volume_max * rng.uniform(1, 2, n)).astype(np.int64)
        groups = []
        for number, template in enumerate(TEMPLATES):
            own = np.flatnonzero(form == number)
            parts: list[Part] = [chosen(self.asked, asked[own]) if template.symbol else EVERY]
            if template.bound is not None:
                attribute, operator = template.bound
                bound = self.source.quotes.rows[attribute].to_numpy()[quote[own]]
                if not template.symbol:
                    bound = np.where(silent[own], unreached[own], bound)
                parts += [f" and {attribute} {operator.value} ", bound]
            groups.append((own, joined(*parts, rows=len(own))))
        places = rng.integers(len(self.brokers), size=n)
        return {
            SUBSCRIPTION: block.rows,
            "filter": interleaved(n, groups),
            "subscriber": joined("S", block.rows + 1),
            "broker": chosen(pa.array(self.brokers), places),
        }


def drawn(templates: tuple[Template, ...], shares: Floats) -> Integers:
    """Which template each share of the whole falls to, as a place in `TEMPLATES`."""
    ends = np.cumsum([template.share for template in templates])
    places = np.array([TEMPLATES.index(template) for template in templates])
    picked: Integers = places[
        np.searchsorted(ends, shares * ends[-1], "right").clip(max=len(ends) - 1)
    ]
    return picked
