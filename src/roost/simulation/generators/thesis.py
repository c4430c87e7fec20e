"""The workloads of 001: clients of section 5.1, on the brokers of section 5.2.1 or on a tree.

Subscribers with zero traffic match nothing that is published (section 5.2.1; how, the thesis does not say).
Here their template is drawn as for all others, and then its symbol is one that nobody publishes; a template
with a bound on the volume only gets one that no quote reaches. The template that asks for every quote cannot
be silenced: it is drawn again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain, islice
from typing import NamedTuple

import numpy as np

from roost.language import Filter, Operator, Predicate, Subscription
from roost.overlay.topologies import balanced_tree, star
from roost.simulation.bars import CLASS
from roost.simulation.generators.parts import (
    PUBLISHERS_FROM_S,
    SUBSCRIBERS_BY_S,
    SUBSCRIBERS_FROM_S,
    Capacity,
    Count,
    Machine,
    Positive,
    Seconds,
    Share,
    draws,
    equal_overlay,
    finished,
    in_ms,
    joining_times,
    market_of,
    overlay,
    pick,
    publishers_of,
    tree_gap_s,
)
from roost.simulation.market import Market, tickers
from roost.simulation.statements import (
    AddPublisher,
    AddSubscriber,
    ChangeRate,
    Statement,
)

RATE_PER_MIN_MAX = 60.0


class Template(NamedTuple):
    """A row of 001 table 5.1: how often it is drawn, and what it asks for besides the class."""

    share: float
    symbol: bool
    bound: tuple[str, Operator] | None = None


TEMPLATES = (
    Template(0.20, True, ("high", Operator.GT)),
    Template(0.20, True, ("low", Operator.LT)),
    Template(0.20, True, ("volume", Operator.GT)),
    Template(0.34, True),
    Template(0.05, False, ("volume", Operator.GT)),
    Template(0.01, False),
)
SILENT_TEMPLATES = tuple(t for t in TEMPLATES if t.symbol or t.bound)

# 001 table 5.3: B0, in the middle of the star, to B4.
LOCAL_MACHINES = (
    Machine(2000.0, 32.0, 10.0),
    Machine(100.0, 16.0, 0.5),
    Machine(200.0, 16.0, 1.0),
    Machine(400.0, 32.0, 2.0),
    Machine(1000.0, 32.0, 5.0),
)
EQUAL_EDGE = Machine(500.0, 64.0, 3.0)
LOCAL_PUBLISHERS_FROM_S, LOCAL_PUBLISHERS_GAP_S = 5.0, 0.1
LOCAL_SUBSCRIBERS_FROM_S, LOCAL_SUBSCRIBERS_BY_S = 10.0, 1010.0


def thesis_publishers(
    rng: np.random.Generator,
    symbols: Sequence[str],
    brokers: Sequence[str],
    start_s: float,
    gap_s: float,
) -> list[AddPublisher]:
    """A publisher a symbol, at one of the brokers, at a rate between 0 and 60 quotes a minute."""
    rates = rng.uniform(0, RATE_PER_MIN_MAX, len(symbols)).tolist()
    return publishers_of(rng, symbols, rates, brokers, start_s, gap_s)


def tree_publishers(
    seed: int, symbols: Sequence[str], brokers: Sequence[str]
) -> list[AddPublisher]:
    """Such publishers on a tree; their rates depend on the seed only, not on the brokers."""
    rng = draws(seed, "tree publishers")
    return thesis_publishers(rng, symbols, brokers, PUBLISHERS_FROM_S, tree_gap_s(len(symbols)))


def unpublished(symbols: Iterable[str], published: Sequence[str]) -> list[str]:
    """As many symbols that nobody publishes, if possible of these."""
    taken = frozenset(published)
    others = (s for s in chain(symbols, tickers()) if s not in taken)
    return list(islice(others, len(published)))


class ThesisSubscriptions:
    """Subscriptions from the templates of 001 table 5.1, for a market of which some symbols are published."""

    def __init__(self, market: Market, published: Sequence[str]) -> None:
        self._market = market
        self._published = published
        self._silent = unpublished(market.symbols, published)
        self._volume_max: int = max(max(market.quotes(s).column("volume")) for s in published)

    def draw(self, rng: np.random.Generator) -> Subscription:
        """A subscription that attracts traffic: its bound is what some quote of the symbol says."""
        template = _drawn(rng, TEMPLATES)
        symbol = pick(rng, self._published)
        return _subscription(template, symbol, self._bound(rng, template, symbol))

    def draw_silent(self, rng: np.random.Generator) -> Subscription:
        """A subscription that no quote of a published symbol matches."""
        template = _drawn(rng, SILENT_TEMPLATES)
        bound = self._bound(rng, template, pick(rng, self._published))
        if not template.symbol:
            bound = int(self._volume_max * rng.uniform(1, 2))
        return _subscription(template, pick(rng, self._silent), bound)

    def _bound(self, rng: np.random.Generator, template: Template, symbol: str) -> int | float:
        if template.bound is None:
            return 0
        said: list[int | float] = self._market.quotes(symbol).column(template.bound[0])
        return said[int(rng.integers(len(said)))]


def _drawn(rng: np.random.Generator, templates: Sequence[Template]) -> Template:
    ends = list(accumulate(template.share for template in templates))
    return templates[bisect_right(ends, rng.uniform(0, ends[-1]))]


def _subscription(template: Template, symbol: str, bound: int | float) -> Subscription:
    predicates = [Predicate("class", Operator.EQ, CLASS)]
    if template.symbol:
        predicates.append(Predicate("symbol", Operator.EQ, symbol))
    if template.bound:
        predicates.append(Predicate(*template.bound, bound))
    return Subscription([Filter(predicates)])


def thesis_subscribers(
    rng: np.random.Generator,
    subscriptions: ThesisSubscriptions,
    times: Sequence[float],
    brokers: Sequence[str],
    zero_traffic: float,
) -> list[AddSubscriber]:
    """A subscriber a time, at one of the brokers; just this share of them without traffic."""
    n = len(times)
    silent = np.zeros(n, np.bool_)
    silent[rng.permutation(n)[: round(zero_traffic * n)]] = True
    return [
        AddSubscriber(
            at=at,
            subscriber=f"S{i + 1}",
            broker=pick(rng, brokers),
            subscription=subscriptions.draw_silent(rng) if quiet else subscriptions.draw(rng),
        )
        for i, (at, quiet) in enumerate(zip(times, silent.tolist(), strict=True))
    ]


def local(
    seed: int,
    *,
    publishers: Positive = 40,
    subscribers: Count = 2_000,
    joined_s: Seconds = LOCAL_SUBSCRIBERS_BY_S,
    edges: Count = 0,
    zero_traffic: Share = 0.25,
    changed: Share = 0.5,
    change_at_s: Seconds = 3_000.0,
    until_s: Seconds = 5_000.0,
    bars: str = "",
) -> list[Statement]:
    """Local load balancing (001 section 5.2.1): a star of five brokers, all subscribers at the weakest.

    The share `changed` of the publishers doubles its rate at `change_at_s`. Subscribers come from 10 s on,
    until `joined_s`. With `edges` there are so many edge-brokers, all equal (section 5.3.1.3).
    """
    machines = (LOCAL_MACHINES[0], *(EQUAL_EDGE,) * edges) if edges else LOCAL_MACHINES
    market = market_of(seed, publishers, bars)
    symbols = market.symbols[:publishers]
    rng = draws(seed, "local publishers")
    quoting = thesis_publishers(
        rng, symbols, ["B0"], LOCAL_PUBLISHERS_FROM_S, LOCAL_PUBLISHERS_GAP_S
    )
    joining = draws(seed, "local subscribers")
    times = joining_times(joining, subscribers, LOCAL_SUBSCRIBERS_FROM_S, joined_s)
    subscriptions = ThesisSubscriptions(market, symbols)
    return finished(
        [
            *overlay(star(len(machines)), machines),
            *quoting,
            *thesis_subscribers(joining, subscriptions, times, ["B1"], zero_traffic),
            *doubled(rng, quoting, changed, change_at_s),
        ],
        until_s,
        seed,
        bars,
    )


def doubled(
    rng: np.random.Generator, publishers: Sequence[AddPublisher], share: float, at: float
) -> list[ChangeRate]:
    """This share of the publishers, drawn at random, has twice its rate from then on."""
    chosen = rng.permutation(len(publishers))[: round(share * len(publishers))]
    return [
        ChangeRate(
            at=in_ms(at),
            publisher=publishers[i].publisher,
            rate_per_min=round(2 * publishers[i].rate_per_min, 3),
        )
        for i in sorted(chosen.tolist())
    ]


def tree(
    seed: int,
    *,
    brokers: Positive = 63,
    fanout: Positive = 2,
    cpu_mhz: Capacity = 3_000.0,
    memory_mb: Capacity = 128.0,
    bandwidth_mbps: Capacity = 10.0,
    publishers: Positive = 40,
    subscribers: Count = 2_000,
    zero_traffic: Share = 0.0,
    until_s: Seconds = 600.0,
    bars: str = "",
) -> list[Statement]:
    """The thesis' clients (001 section 5.1) at random on a balanced tree of equal brokers.

    The brokers are as capable as the cluster heads of 001 section 5.2.2. All clients are there after 5 s.
    """
    market = market_of(seed, publishers, bars)
    symbols = market.symbols[:publishers]
    topology = balanced_tree(brokers, fanout)
    quoting = tree_publishers(seed, symbols, topology.brokers)
    joining = draws(seed, "tree subscribers")
    times = joining_times(joining, subscribers, SUBSCRIBERS_FROM_S, SUBSCRIBERS_BY_S)
    subscriptions = ThesisSubscriptions(market, symbols)
    return finished(
        [
            *equal_overlay(topology, Machine(cpu_mhz, memory_mb, bandwidth_mbps)),
            *quoting,
            *thesis_subscribers(joining, subscriptions, times, topology.brokers, zero_traffic),
        ],
        until_s,
        seed,
        bars,
    )
