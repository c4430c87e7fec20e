"""The workloads of 000 section 5.1: subscribers that sink some, half or all of one publisher's traffic.

Low-rated subscribers ask for a wide day (`highLow%Diff > c`), medium-rated ones for a busy one that moved
(`volume > c and openClose%Diff > d`), high-rated ones for the symbol. The paper's constants (0.15; 1,000,000
and 0.025) are said to sink about 10 % and 50 %, but of real quotes they sink about 7 % and 1 % in the median
symbol. So the constants here are quantiles of what each publisher is going to publish.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle, islice
from math import ceil, floor, sqrt
from typing import Literal, NamedTuple, TypeVar

import numpy as np

from roost.errors import UserError
from roost.language import Filter, Operator, Predicate, Subscription
from roost.overlay.topologies import balanced_tree
from roost.simulation.bars import CLASS, Bars, Floats
from roost.simulation.generators.parts import (
    PUBLISHERS_FROM_S,
    SUBSCRIBERS_BY_S,
    SUBSCRIBERS_FROM_S,
    Capacity,
    Count,
    Machine,
    Positive,
    Rate,
    Seconds,
    draws,
    equal_overlay,
    finished,
    joining_times,
    market_of,
    pick,
    publishers_of,
    tree_gap_s,
)
from roost.simulation.market import quote_columns
from roost.simulation.statements import AddSubscriber, Statement

T = TypeVar("T")

LOW_SINKS, MEDIUM_SINKS = 0.10, 0.50
# The derived attributes of quotes have three digits.
STEP = 0.001

# How subscribers are rated: the decks are dealt to one publisher after the other, over and over. So the
# shares hold over all of them, and whoever has 50 subscribers has two or three high-rated ones.
LOW, MEDIUM, HIGH = "lmh"
DECKS = {"random": "llmlllmlllhlmlllmllm", "clustered": "llllllllllhlllllllll"}


class Placement(NamedTuple):
    """A subscriber to come: where, and what it asks for."""

    broker: str
    subscription: Subscription


def relocation(
    seed: int,
    *,
    distribution: Literal["random", "clustered"] = "random",
    spread: Positive = 10,
    brokers: Positive = 63,
    fanout: Positive = 2,
    cpu_mhz: Capacity = 3_000.0,
    memory_mb: Capacity = 128.0,
    bandwidth_mbps: Capacity = 10.0,
    publishers: Positive = 40,
    subscribers_per_publisher: Count = 50,
    rate_per_min: Rate = 60.0,
    until_s: Seconds = 1_085.0,
    bars: str = "",
) -> list[Statement]:
    """Publisher relocation (000 section 5.1): each publisher's subscribers on `spread` brokers of a tree.

    `random`: 70 % low-, 25 % medium- and 5 % high-rated, anywhere on these brokers. `clustered`: 95 % low-
    and 5 % high-rated, the high-rated ones all at the first of these brokers, the others on the rest of them.
    The brokers are drawn for each publisher anew. How many clients there are and how fast they publish stood
    in figure 4b, which is lost; the run ends 18 minutes after the last client joined, as in section 5.2.
    """
    if spread > brokers:
        raise UserError(f"spread={spread}: there are only {brokers} brokers to spread over")
    market = market_of(seed, publishers, bars)
    symbols = market.symbols[:publishers]
    topology = balanced_tree(brokers, fanout)
    published = max(ceil(rate_per_min * until_s / 60), 1)
    ratings = cycle(DECKS[distribution])
    rng = draws(seed, "relocation subscribers")
    clients: list[Placement] = []
    for symbol in symbols:
        drawn = rng.permutation(brokers)[:spread].tolist()
        places = allowed([topology.brokers[k] for k in drawn], distribution == "clustered")
        rated = rated_subscriptions(symbol, market.bars(symbol), published)
        clients += (
            Placement(pick(rng, places[rating]), rated[rating])
            for rating in islice(ratings, subscribers_per_publisher)
        )
    return finished(
        [
            *equal_overlay(topology, Machine(cpu_mhz, memory_mb, bandwidth_mbps)),
            *publishers_of(
                draws(seed, "relocation publishers"),
                symbols,
                [rate_per_min] * publishers,
                topology.brokers,
                PUBLISHERS_FROM_S,
                tree_gap_s(publishers),
            ),
            *_joining(rng, clients),
        ],
        until_s,
        seed,
        bars,
    )


def allowed(brokers: Sequence[T], clustered: bool) -> dict[str, Sequence[T]]:
    """Where subscribers of each rating may be, of a publisher that has these brokers."""
    if not clustered:
        return dict.fromkeys((LOW, MEDIUM, HIGH), brokers)
    # With all at one broker there are no others for the low-rated ones.
    return {LOW: brokers[1:] or brokers, HIGH: brokers[:1]}


def _joining(rng: np.random.Generator, clients: Sequence[Placement]) -> list[AddSubscriber]:
    """The clients as subscribers, in any order."""
    times = joining_times(rng, len(clients), SUBSCRIBERS_FROM_S, SUBSCRIBERS_BY_S)
    order = rng.permutation(len(clients)).tolist()
    return [
        AddSubscriber(at=at, subscriber=f"S{n}", **clients[k]._asdict())
        for n, (at, k) in enumerate(zip(times, order, strict=True), 1)
    ]


# --- constants ------------------------------------------------------------------------------------


def rated_subscriptions(symbol: str, bars: Bars, published: int) -> dict[str, Subscription]:
    """Subscriptions to a symbol that match about 10 %, about 50 % and all of its first quotes, by rating."""
    columns = quote_columns(bars)
    spreads, moves = (
        np.asarray(columns[f"{n}%Diff"])[:published] for n in ("highLow", "openClose")
    )
    every = [Predicate("class", Operator.EQ, CLASS), Predicate("symbol", Operator.EQ, symbol)]
    wide = bound_above(spreads, LOW_SINKS)
    busy, moved = medium_bounds(bars.volume[:published].astype(np.float64), moves)
    return {
        LOW: _subscription(*every, Predicate("highLow%Diff", Operator.GT, round(wide, 3))),
        MEDIUM: _subscription(
            *every,
            Predicate("volume", Operator.GT, floor(busy)),
            Predicate("openClose%Diff", Operator.GT, round(moved, 3)),
        ),
        HIGH: _subscription(*every),
    }


def medium_bounds(volumes: Floats, moves: Floats) -> tuple[float, float]:
    """The bounds of volume and move that half of the quotes pass.

    Many pairs would do. Among those that come as near to a half as any, to a percent, it is the one whose
    bounds do most nearly equal shares of the work.
    """

    def judged(move: float) -> tuple[float, float, float, float]:
        passing = volumes[moves > move]
        volume = bound_above(passing, MEDIUM_SINKS * len(moves) / len(passing))
        both = np.count_nonzero(passing > volume) / len(moves)
        even = abs(len(passing) / len(moves) - sqrt(MEDIUM_SINKS))
        return round(abs(both - MEDIUM_SINKS), 2), even, volume, move

    # Below the median at least a half moves by more, of which the volume takes what is too much.
    candidates = [move for move in _bounds(moves) if move < np.median(moves)]
    _, _, volume, move = min(map(judged, candidates))
    return volume, move


def _bounds(values: Floats) -> list[float]:
    """All bounds that make a difference, from one that all values are above."""
    distinct: list[float] = np.unique(values).tolist()
    return [distinct[0] - STEP, *distinct]


def bound_above(values: Floats, share: float) -> float:
    """The c for which the share of values above c is nearest to `share`."""
    candidates = _bounds(values)
    above = 1 - np.searchsorted(np.sort(values), candidates, "right") / len(values)
    return candidates[int(np.abs(above - share).argmin())]


def _subscription(*predicates: Predicate) -> Subscription:
    return Subscription([Filter(predicates)])
