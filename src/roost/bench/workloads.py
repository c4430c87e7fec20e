"""The two workloads of the match benchmark, from a seed.

`bluedove` is the set-up of 004 section IV-B: four ranges of numbers, skewed. `stock` is what the
other papers run on: subscriptions to quotes, most of them for one symbol. Each comes as columns
(for bulk loading and batches) and as filters and events, which say the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from roost.bench.sizes import BATCH
from roost.language import Event, Filter, Operator, Predicate
from roost.matching import Ids
from roost.pipeline.workload.bluedove import (
    CENTRE_MEANS,
    DIMENSION_LENGTH,
    cropped_normal,
    ranges_around,
)
from roost.pipeline.workload.stock import (
    BOUND_OPERATORS,
    BOUNDED_SHARES,
    CLASS_SHARE,
    CLASS_SHARE_IF_LARGE,
    RARE_VOLUME_SPREAD,
    SYMBOLS,
    TRADING_DAYS,
    Market,
    rare_volume,
    shares,
    trading_days,
)

Column = NDArray[Any] | list[str]


class Template(NamedTuple):
    """Subscriptions that differ only in their constants: (attribute, operator, constants) each."""

    ids: Ids
    predicates: list[tuple[str, Operator, Column]]


@dataclass(frozen=True)
class Workload:
    """Subscriptions 0..n-1 and events, all of which have the same attributes."""

    name: str
    templates: list[Template]
    columns: dict[str, Column]

    @property
    def subscription_count(self) -> int:
        """How many subscriptions there are."""
        return sum(len(template.ids) for template in self.templates)

    @property
    def event_count(self) -> int:
        """How many events there are."""
        return len(next(iter(self.columns.values())))

    def filters(self) -> list[Filter]:
        """The subscriptions; their ids are their positions."""
        found = [Filter()] * self.subscription_count
        for ids, predicates in self.templates:
            lists = [(name, operator, plain(column)) for name, operator, column in predicates]
            for row, id_ in enumerate(ids.tolist()):
                found[id_] = Filter(
                    [Predicate(name, op, values[row]) for name, op, values in lists]
                )
        return found

    def batches(self, size: int = BATCH) -> Iterator[dict[str, Column]]:
        """The events as columns, `size` at a time."""
        for start in range(0, self.event_count, size):
            yield {name: column[start : start + size] for name, column in self.columns.items()}

    def events(self) -> list[Event]:
        """The events, one by one."""
        names = list(self.columns)
        rows = zip(*map(plain, self.columns.values()), strict=True)
        return [Event.trusted(dict(zip(names, row, strict=True))) for row in rows]


def plain(column: Column) -> list[Any]:
    """A column as values of the language."""
    return column if isinstance(column, list) else column.tolist()


# --- bluedove -------------------------------------------------------------------------------------


def bluedove(rng: np.random.Generator, subscriptions: int, events: int) -> Workload:
    """Four ranges a subscription around skewed centres, and events anywhere."""
    centre_rng, event_rng = rng.spawn(2)
    predicates: list[tuple[str, Operator, Column]] = []
    for dimension, mean in enumerate(CENTRE_MEANS):
        low, high = ranges_around(cropped_normal(centre_rng, mean, subscriptions))
        predicates += [
            (f"d{dimension}", Operator.GE, low),
            (f"d{dimension}", Operator.LT, high),
        ]
    columns: dict[str, Column] = {
        f"d{dimension}": event_rng.uniform(0, DIMENSION_LENGTH, events)
        for dimension in range(len(CENTRE_MEANS))
    }
    return Workload("bluedove", [Template(np.arange(subscriptions), predicates)], columns)


# --- stock ----------------------------------------------------------------------------------------

# From this size on there are fewer subscriptions that match every quote.
LARGE = 100_000


def stock(rng: np.random.Generator, subscriptions: int, events: int) -> Workload:
    """Subscriptions to quotes, four of five for one symbol and a bound or none."""
    market_rng, subscription_rng, event_rng = rng.spawn(3)
    market = Market.draw(market_rng)
    codes = event_rng.integers(0, SYMBOLS, events)
    quotes = market.quotes(event_rng, codes)
    columns: dict[str, Column] = {
        "class": ["STOCK"] * events,
        "symbol": market.names(codes),
        **quotes,
        "date": _dates(event_rng, events),
    }
    # Last, so that the quotes do not depend on how many subscriptions there are.
    rare = rare_volume(market, market_rng)
    return Workload(
        "stock", _stock_templates(market, rare, subscription_rng, subscriptions), columns
    )


def _stock_templates(
    market: Market, rare: float, rng: np.random.Generator, n: int
) -> list[Template]:
    class_share = CLASS_SHARE_IF_LARGE if n >= LARGE else CLASS_SHARE
    ids = _split(rng, n, shares(class_share))
    templates = []
    for name, own in zip(BOUNDED_SHARES, ids, strict=False):
        codes = rng.integers(0, SYMBOLS, len(own))
        # A bound is what another quote of the symbol says: any share of its quotes passes.
        bound = market.quotes(rng, codes)[name]
        predicates: list[tuple[str, Operator, Column]] = [
            ("symbol", Operator.EQ, market.names(codes)),
            (name, BOUND_OPERATORS[name], bound),
        ]
        templates.append(Template(own, predicates))
    by_symbol, by_rare_volume, by_class = ids[len(BOUNDED_SHARES) :]
    symbols = market.names(rng.integers(0, SYMBOLS, len(by_symbol)))
    volumes = rare * rng.lognormal(0, RARE_VOLUME_SPREAD, len(by_rare_volume))
    templates += [
        Template(by_symbol, [("symbol", Operator.EQ, symbols)]),
        Template(by_rare_volume, [("volume", Operator.GT, volumes.astype(np.int64))]),
        Template(by_class, [("class", Operator.EQ, ["STOCK"] * len(by_class))]),
    ]
    return [template for template in templates if len(template.ids)]


def _split(rng: np.random.Generator, n: int, shares: list[float]) -> list[Ids]:
    """The ids 0..n-1 at random into parts of these shares."""
    ends = np.rint(np.cumsum(shares) * n).astype(np.int64)
    return [np.sort(part) for part in np.split(rng.permutation(n), ends[:-1])]


def _dates(rng: np.random.Generator, n: int) -> list[str]:
    days = trading_days()
    return [days[day] for day in np.sort(rng.integers(0, TRADING_DAYS, n)).tolist()]


WORKLOADS: Mapping[str, Callable[[np.random.Generator, int, int], Workload]] = {
    "bluedove": bluedove,
    "stock": stock,
}


def workload_of(name: str, seed: int, subscriptions: int, events: int) -> Workload:
    """The workload of that name; the same for the same seed."""
    return WORKLOADS[name](np.random.default_rng(seed), subscriptions, events)
