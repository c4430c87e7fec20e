"""What the generators have in common: their draws, their market, brokers, and the order of statements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, NamedTuple

import numpy as np
from msgspec import Meta

from roost.errors import UserError
from roost.overlay.topologies import Topology
from roost.simulation.market import BarMarket, Market, SyntheticMarket
from roost.simulation.statements import (
    AddBroker,
    AddLink,
    AddPublisher,
    End,
    Set,
    Statement,
    UseBars,
)

# Types of parameters, so that what a user sets is checked where it is converted.
Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Share = Annotated[float, Meta(ge=0, le=1)]
Seconds = Annotated[float, Meta(gt=0)]
Capacity = Annotated[float, Meta(gt=0)]
Rate = Annotated[float, Meta(ge=0)]

# All brokers are there by then (001 section 5.2.1).
BROKERS_BY_S = 0.5
# On a tree clients join soon after: publishers first, then subscribers.
PUBLISHERS_FROM_S = 1.0
SUBSCRIBERS_FROM_S, SUBSCRIBERS_BY_S = 2.0, 5.0


def draws(seed: int, purpose: str) -> np.random.Generator:
    """Draws of their own for each purpose, so that more of one thing leaves the others as they are."""
    return np.random.Generator(np.random.PCG64([seed, int.from_bytes(purpose.encode(), "big")]))


def market_of(seed: int, publishers: int, bars: str) -> Market:
    """The market whose quotes the publishers will publish: a symbol for each of them."""
    market: Market = BarMarket(bars) if bars else SyntheticMarket(seed, publishers)
    if len(market.symbols) < publishers:
        raise UserError(
            f"{bars}: bars of {len(market.symbols)} symbols, but each of the {publishers} publishers"
            " needs one of its own"
        )
    return market


def in_ms(seconds: float) -> float:
    """A time as statements have it."""
    return round(seconds, 3)


def joining_times(rng: np.random.Generator, n: int, start: float, end: float) -> list[float]:
    """n times, uniformly at random, in order."""
    times: list[float] = np.sort(rng.uniform(start, end, n)).round(3).tolist()
    return times


def pick(rng: np.random.Generator, items: Sequence[str]) -> str:
    """One of them, all equally likely."""
    return items[int(rng.integers(len(items)))]


class Machine(NamedTuple):
    """What a broker runs on."""

    cpu_mhz: float
    memory_mb: float
    bandwidth_mbps: float


def overlay(topology: Topology, machines: Iterable[Machine]) -> list[Statement]:
    """The brokers of a topology one after the other, and each link as soon as both its ends are there."""
    step = BROKERS_BY_S / len(topology.brokers)
    times = {broker: in_ms(step * i) for i, broker in enumerate(topology.brokers)}
    brokers = [
        AddBroker(at=at, broker=broker, **machine._asdict())
        for (broker, at), machine in zip(times.items(), machines, strict=True)
    ]
    links = [
        AddLink(
            at=max(times[link.a], times[link.b]), a=link.a, b=link.b, latency_ms=link.latency_ms
        )
        for link in topology.links
    ]
    return [*brokers, *links]


def equal_overlay(topology: Topology, machine: Machine) -> list[Statement]:
    """The same, on equal machines."""
    return overlay(topology, [machine] * len(topology.brokers))


def publishers_of(
    rng: np.random.Generator,
    symbols: Sequence[str],
    rates_per_min: Iterable[float],
    brokers: Sequence[str],
    start_s: float,
    gap_s: float,
) -> list[AddPublisher]:
    """A publisher a symbol, one after the other, each at one of the brokers."""
    return [
        AddPublisher(
            at=in_ms(start_s + gap_s * i),
            publisher=f"P{i + 1}",
            symbol=symbol,
            rate_per_min=round(rate, 3),
            broker=pick(rng, brokers),
        )
        for i, (symbol, rate) in enumerate(zip(symbols, rates_per_min, strict=True))
    ]


def tree_gap_s(publishers: int) -> float:
    """What is between publishers that join a tree before the subscribers."""
    return (SUBSCRIBERS_FROM_S - PUBLISHERS_FROM_S) / publishers


def finished(
    statements: Iterable[Statement], until_s: float, seed: int, bars: str
) -> list[Statement]:
    """The statements in the order of time, without those that the run does not live to see.

    The market comes first: that of the seed, or of the file of bars.
    """
    end = in_ms(until_s)
    market: list[Statement] = [Set(at=0.0, key="market_seed", value=str(seed))]
    if bars:
        market.append(UseBars(at=0.0, path=bars))
    ordered = sorted(statements, key=lambda statement: statement.at)
    return [*market, *(s for s in ordered if s.at <= end), End(at=end)]
