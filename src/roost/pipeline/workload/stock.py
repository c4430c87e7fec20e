"""The stock workload of the match benchmark: subscriptions to quotes, four of five for one symbol.

The papers' quotes, in a form that needs no bars: prices and volumes of 500 symbols, each log-normal around
what is usual for the symbol. Subscriptions are shared out as in 001 table 5.1, except that those to
everything are rarer (`everything`, one in 2,000): at a million subscriptions, one in a hundred would be all
that a matcher does. The bounds on a symbol's price or volume are those of another quote, so that any share
of its quotes passes; volumes without a symbol are bounded at what one quote in a hundred has.

The benchmark (`bench.workloads`) draws the same market one after the other; here every block is drawn by
itself, and a block is a trading day.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import pyarrow as pa
from msgspec import Meta
from numpy.typing import NDArray

from roost.language import Operator, Predicate
from roost.pipeline.schemas import PUBLICATION, SCHEMAS, SUBSCRIPTION
from roost.pipeline.workload.blocks import Block, Column, Floats, Integers, generated
from roost.pipeline.workload.texts import Part, chosen, interleaved, joined
from roost.simulation.bars import CLASS, PRICES
from roost.simulation.generators.parts import draws

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SYMBOLS = 500
RARE_VOLUME_PERCENTILE = 99.0
RARE_VOLUME_SPREAD = 0.05
QUOTES_TO_KNOW_THE_MARKET = 100_000
TRADING_DAYS = 250
LETTERS = np.array(list("ABCDEFGHIJKLMNOPQRSTUVWXYZ"))

# What a subscription asks for besides its symbol; and its share of all of them.
BOUNDED_SHARES = {"high": 0.20, "low": 0.20, "volume": 0.20}
BOUND_OPERATORS = {"high": Operator.GT, "low": Operator.LT, "volume": Operator.GT}
SYMBOL_SHARE = 0.34
RARE_SHARE = 0.05
CLASS_SHARE = 0.01
CLASS_SHARE_IF_LARGE = 0.0005

SUBSCRIPTIONS, PUBLICATIONS = 100_000, 100_000
QUOTE = pa.schema(
    [
        (PUBLICATION, pa.int64()),
        ("class", pa.string()),
        ("symbol", pa.string()),
        *((name, pa.float64()) for name in PRICES),
        ("volume", pa.int64()),
        ("date", pa.string()),
    ]
)


@dataclass(frozen=True)
class Market:
    """The symbols, and around what their prices and volumes move."""

    symbols: list[str]
    price: Floats
    volume: Floats

    @classmethod
    def draw(cls, rng: np.random.Generator) -> Market:
        """A market of `SYMBOLS` symbols."""
        return cls(
            tickers(rng, SYMBOLS),
            40 * rng.lognormal(0, 0.8, SYMBOLS),
            200_000 * rng.lognormal(0, 1.2, SYMBOLS),
        )

    def quotes(self, rng: np.random.Generator, codes: Integers) -> dict[str, NDArray[Any]]:
        """One quote a symbol code: prices in cents, volumes whole."""
        n = len(codes)
        opening = self.price[codes] * rng.lognormal(0, 0.2, n)
        closing = opening * rng.lognormal(0, 0.02, n)
        high = np.maximum(opening, closing) * rng.lognormal(0.01, 0.005, n).clip(1)
        low = np.minimum(opening, closing) / rng.lognormal(0.01, 0.005, n).clip(1)
        prices = {"open": opening, "high": high, "low": low, "close": closing}
        volume = self.volume[codes] * rng.lognormal(0, 0.6, n)
        return {
            **{name: price.round(2) for name, price in prices.items()},
            "volume": volume.astype(np.int64),
        }

    def names(self, codes: Integers) -> list[str]:
        """The symbols of codes."""
        return [self.symbols[code] for code in codes.tolist()]


def tickers(rng: np.random.Generator, n: int) -> list[str]:
    """Distinct names of two to four capital letters."""
    found: dict[str, None] = {}
    while len(found) < n:
        length = int(rng.choice([2, 3, 4], p=[0.1, 0.45, 0.45]))
        found["".join(rng.choice(LETTERS, length).tolist())] = None
    return list(found)


def rare_volume(market: Market, rng: np.random.Generator) -> float:
    """The volume that one quote in a hundred exceeds."""
    codes = rng.integers(0, SYMBOLS, QUOTES_TO_KNOW_THE_MARKET)
    return float(np.percentile(market.quotes(rng, codes)["volume"], RARE_VOLUME_PERCENTILE))


def shares(everything: float) -> list[float]:
    """The shares of subscriptions that are bounded, for a symbol, to rare volumes, and to everything."""
    symbol = SYMBOL_SHARE + CLASS_SHARE - everything
    return [*BOUNDED_SHARES.values(), symbol, RARE_SHARE, everything]


def trading_days() -> list[str]:
    """The days of the quotes."""
    days: list[str] = (
        np.busday_offset("2024-01-02", np.arange(TRADING_DAYS), roll="forward").astype(str).tolist()
    )
    return days


# --- tables ---------------------------------------------------------------------------------------


def stock_subscriptions(
    spark: SparkSession,
    *,
    seed: int,
    rows: int = SUBSCRIPTIONS,
    first: int = 0,
    partitions: int | None = None,
    everything: Annotated[float, Meta(ge=0, le=SYMBOL_SHARE)] = CLASS_SHARE_IF_LARGE,
) -> DataFrame:
    """Subscriptions to quotes, most of them for one symbol and a bound or none."""
    return generated(
        spark,
        Subscriptions(everything),
        SCHEMAS["subscriptions"],
        seed=seed,
        rows=rows,
        first=first,
        partitions=partitions,
    )


def stock_publications(
    spark: SparkSession,
    *,
    seed: int,
    rows: int = PUBLICATIONS,
    first: int = 0,
    partitions: int | None = None,
) -> DataFrame:
    """Quotes of any symbol, day after day."""
    return generated(
        spark, publications, QUOTE, seed=seed, rows=rows, first=first, partitions=partitions
    )


@lru_cache(maxsize=4)
def known_market(seed: int) -> tuple[Market, float]:
    """The market of a seed and its rare volume; kept for the next block."""
    rng = draws(seed, "stock market")
    market = Market.draw(rng)
    return market, rare_volume(market, rng)


def publications(block: Block) -> dict[str, Column]:
    """A block of quotes."""
    market, _ = known_market(block.seed)
    rng = block.draws("stock publications")
    codes = rng.integers(0, SYMBOLS, block.size)
    return {
        PUBLICATION: block.rows,
        "class": pa.repeat(CLASS, block.size),
        "symbol": chosen(pa.array(market.symbols), codes),
        **market.quotes(rng, codes),
        "date": pa.repeat(trading_days()[block.number % TRADING_DAYS], block.size),
    }


@dataclass(frozen=True)
class Subscriptions:
    """Blocks of subscriptions."""

    everything: float

    def __call__(self, block: Block) -> dict[str, Column]:
        market, rare = known_market(block.seed)
        rng = block.draws("stock subscriptions")
        n = block.size
        ends = np.cumsum(shares(self.everything))
        form = np.searchsorted(ends, rng.uniform(0, ends[-1], n), "right").clip(max=len(ends) - 1)
        codes = rng.integers(0, SYMBOLS, n)
        quotes = market.quotes(rng, codes)
        volumes = (rare * rng.lognormal(0, RARE_VOLUME_SPREAD, n)).astype(np.int64)
        names = pa.array([str(Predicate("symbol", Operator.EQ, s)) for s in market.symbols])
        groups = []
        for number, bound in enumerate([*BOUNDED_SHARES, None, "rare", "class"]):
            own = np.flatnonzero(form == number)
            parts: list[Part] = [chosen(names, codes[own])]
            if bound == "rare":
                parts = ["volume > ", volumes[own]]
            elif bound == "class":
                parts = [str(Predicate("class", Operator.EQ, CLASS))]
            elif bound is not None:
                operator = BOUND_OPERATORS[bound].value
                parts += [f" and {bound} {operator} ", quotes[bound][own]]
            groups.append((own, joined(*parts, rows=len(own))))
        return {SUBSCRIPTION: block.rows, "filter": interleaved(n, groups)}
