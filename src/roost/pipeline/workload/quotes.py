"""Quotes of shares as publications: those of `simulation.market`, by the million.

One publisher a symbol, each at its own rate; see `schedule` for their order. A publisher's n-th publication
is the n-th quote of its symbol, and when the bars run out they start again: the very events that a
simulated publisher of the same market publishes. A task that makes publications holds all quotes of the
market once (about 105 bytes each: 10 MB for 40 symbols of 2,500 days), and picks rows of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa

from roost.pipeline.schemas import PUBLICATION
from roost.pipeline.workload.blocks import Block, Column, Integers, generated
from roost.pipeline.workload.schedule import Schedule
from roost.pipeline.workload.texts import joined
from roost.simulation.bars import CLASS, PRICES
from roost.simulation.generators.parts import Positive, market_of
from roost.simulation.market import Market, SyntheticMarket, quote_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Origin = Literal["no", "yes"]

QUOTE = pa.schema(
    [
        ("class", pa.string()),
        ("symbol", pa.string()),
        *((name, pa.float64()) for name in PRICES),
        ("volume", pa.int64()),
        ("date", pa.string()),
        ("openClose%Diff", pa.float64()),
        ("highLow%Diff", pa.float64()),
        ("closeEqualsLow", pa.string()),
        ("closeEqualsHigh", pa.string()),
    ]
)
# Who published it, as in the trace tables: the first of a publisher has the sequence number 1.
ORIGIN = pa.schema([("publisher", pa.string()), ("sequence", pa.int64()), ("time", pa.float64())])
BAR = pa.schema(
    [
        ("symbol", pa.string()),
        ("day", pa.int64()),
        *((name, pa.float64()) for name in PRICES),
        ("volume", pa.int64()),
        ("date", pa.string()),
    ]
)
DAYS = 2_500
SYMBOLS_A_PARTITION = 200


@dataclass(frozen=True)
class Quotes:
    """All quotes of some symbols, one symbol after the other."""

    symbols: tuple[str, ...]
    starts: Integers  # where each symbol's quotes begin, and at the end where the last ones end
    rows: pa.RecordBatch

    @classmethod
    def of(cls, market: Market, symbols: Sequence[str]) -> Quotes:
        """Those of a market."""
        parts = []
        for symbol in symbols:
            columns = {**quote_columns(market.bars(symbol))}
            n = len(columns["volume"])
            parts.append(
                pa.RecordBatch.from_arrays(
                    [pa.repeat(CLASS, n), pa.repeat(symbol, n), *map(pa.array, columns.values())],
                    schema=QUOTE,
                )
            )
        starts = np.cumsum([0, *(part.num_rows for part in parts)])
        return cls(
            tuple(symbols), starts, pa.Table.from_batches(parts).combine_chunks().to_batches()[0]
        )

    def places(self, symbols: Integers, sequence: Integers) -> Integers:
        """The rows of the n-th quotes of symbols, both given as numbers."""
        start = self.starts[symbols]
        return start + sequence % (self.starts[symbols + 1] - start)


@dataclass(frozen=True)
class Source:
    """Whose quotes they are. Made-up ones are made where they are needed, those of a file are sent there."""

    seed: int
    publishers: int
    given: Market | None = None

    @classmethod
    def of(cls, seed: int, publishers: int, bars: str) -> Source:
        """The market of the seed, or of a file of bars; a symbol a publisher."""
        return cls(seed, publishers, market_of(seed, publishers, bars) if bars else None)

    @cached_property
    def market(self) -> Market:
        """The market."""
        return self.given or SyntheticMarket(self.seed, self.publishers)

    @property
    def symbols(self) -> tuple[str, ...]:
        """What is published."""
        return self.market.symbols[: self.publishers]

    @cached_property
    def quotes(self) -> Quotes:
        """All of their quotes."""
        if self.given is None:
            return _synthetic_quotes(self.seed, self.publishers)
        return Quotes.of(self.given, self.symbols)


@lru_cache(maxsize=2)
def _synthetic_quotes(seed: int, publishers: int) -> Quotes:
    """Kept for the next task of the same process."""
    market = SyntheticMarket(seed, publishers)
    return Quotes.of(market, market.symbols)


def quote_publications(
    spark: SparkSession,
    source: Source,
    rates_per_min: Sequence[float],
    *,
    rows: int,
    first: int = 0,
    partitions: int | None = None,
    origin: Origin = "no",
) -> DataFrame:
    """The quotes that publishers with these rates publish, in the order of time.

    With `origin` there are the columns publisher, sequence and time (in seconds), too. They are columns like
    all others: attributes, for whoever matches the table.
    """
    fields = [*QUOTE, *(ORIGIN if origin == "yes" else ())]
    return generated(
        spark,
        Publications(source, tuple(rates_per_min), origin == "yes"),
        pa.schema([(PUBLICATION, pa.int64()), *fields]),
        seed=source.seed,
        rows=rows,
        first=first,
        partitions=partitions,
    )


@dataclass(frozen=True)
class Publications:
    """Blocks of quotes."""

    source: Source
    rates_per_min: tuple[float, ...]
    origin: bool

    @cached_property
    def schedule(self) -> Schedule:
        """Who publishes when."""
        return Schedule(self.rates_per_min)

    def __call__(self, block: Block) -> dict[str, Column]:
        quotes = self.source.quotes
        who, sequence, time_us = self.schedule.turns(block.number * block.size, block.size)
        picked = quotes.rows.take(pa.array(quotes.places(who, sequence)))
        columns = {PUBLICATION: block.rows, **dict(zip(QUOTE.names, picked.columns, strict=True))}
        return columns | (origins(who, sequence, time_us) if self.origin else {})


def origins(who: Integers, sequence: Integers, time_us: Integers) -> dict[str, Column]:
    """The columns that say where publications come from."""
    return {
        "publisher": joined("P", who + 1),
        "sequence": sequence + 1,
        "time": time_us / 1e6,
    }


# --- bars -----------------------------------------------------------------------------------------


def bars(
    spark: SparkSession,
    *,
    seed: int,
    partitions: int | None = None,
    symbols: Positive = 100,
    days: Positive = DAYS,
) -> DataFrame:
    """Daily bars of made-up shares, symbol by symbol and day by day."""
    return generated(
        spark,
        MadeUpBars(SyntheticMarket(seed, symbols, days)),
        BAR,
        seed=seed,
        rows=symbols * days,
        partitions=partitions or max(1, symbols // SYMBOLS_A_PARTITION),
        block_size=days,
    )


@dataclass(frozen=True)
class MadeUpBars:
    """A block a symbol."""

    market: SyntheticMarket

    def __call__(self, block: Block) -> dict[str, Column]:
        symbol = self.market.symbols[block.number]
        made = self.market.bars(symbol)
        return {
            "symbol": pa.repeat(symbol, block.size),
            "day": np.arange(block.size),
            **dict(zip(BAR.names[2:], map(pa.array, made), strict=True)),
        }
