"""Which attributes are worth a dimension (004 section VI: "identify these attributes and adjust").

A message is searched for in the smallest of its candidates' sets. So an attribute is worth a dimension if,
for messages as they come, the set along it is often smaller than those along the dimensions that there are.
Of a sample of subscriptions and of events the expected share of all subscriptions that has to be searched
follows: for each event and each attribute, the share that overlaps the event's segment; of these the least
over the chosen attributes; the mean over all events. `choose_dimensions` adds the attribute that lowers it
most, one by one, as long as it lowers it by more than `WORTH`. A change has to pay: the old dimensions stay,
unless the new ones search less by more than `gain`.

A service gets there in steps (`next_step`), one dimension at a time, and so that there is always one more
rather than one less: what is chosen comes first, then goes what is not. With the same sample no step undoes
another, as all lead to the one choice.

Extents are where the middle 98 % of the values lie that are asked for or published, so that a stray value
does not leave all others to one segment.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from roost.language import Event, Interest, filters_of
from roost.partition.dimensions import Dimension, footprint_of, point_of
from roost.partition.segments import even_row

Floats = NDArray[np.float64]
STRAY = 0.01
# An attribute is chosen if it lowers what is searched by this share, and goes if it does not.
WORTH = 0.02


class DimensionChoice(Struct, frozen=True):
    """The dimensions, best first, and why."""

    dimensions: tuple[Dimension, ...]
    searched: float  # the share of all subscriptions that a message is searched for in
    before: float | None  # the same with the dimensions that there were
    steps: tuple[
        tuple[str, float], ...
    ]  # each attribute, and what is searched with it and those before
    changed: bool


def choose_dimensions(
    subscriptions: Sequence[Interest],
    events: Sequence[Event],
    *,
    most: int,
    matchers: int,
    present: Sequence[Dimension] = (),
    gain: float = 0.1,
) -> DimensionChoice:
    """At most so many dimensions, for so many matchers."""
    known = {dimension.attribute: dimension for dimension in present}
    extents = {name: extent_of(name, subscriptions, events) for name in asked(subscriptions)}
    shares = {
        name: searched_shares(known.get(name, extent), subscriptions, events, matchers)
        for name, extent in extents.items()
    }
    chosen: list[str] = []
    steps: list[tuple[str, float]] = []
    least: Floats = np.ones(len(events))
    while len(chosen) < min(most, len(shares)):
        name = min(
            (n for n in shares if n not in chosen),
            key=lambda n: (float(np.minimum(least, shares[n]).mean()), n),
        )
        lower: Floats = np.minimum(least, shares[name])
        if chosen and float(lower.mean()) > float(least.mean()) * (1.0 - WORTH):
            break
        least = lower
        chosen.append(name)
        steps.append((name, float(least.mean())))
    searched = float(least.mean()) if len(events) else 1.0
    before = _searched_with(present, shares, len(events)) if present else None
    if before is not None and searched >= before * (1.0 - gain):
        return DimensionChoice(tuple(present), before, before, tuple(steps), changed=False)
    dimensions = tuple(known.get(name, extents[name]) for name in chosen)
    return DimensionChoice(dimensions, searched, before, tuple(steps), changed=True)


class DimensionStep(Struct, frozen=True):
    """What is to be done next, and why; nothing if there is no dimension."""

    what: Literal["come", "go"]
    dimension: Dimension
    searched: float  # with what is chosen, ...
    before: float  # ... and with what there is


def next_step(
    subscriptions: Sequence[Interest],
    events: Sequence[Event],
    *,
    most: int,
    matchers: int,
    present: Sequence[Dimension],
) -> DimensionStep | None:
    """Towards what `choose_dimensions` chooses."""
    choice = choose_dimensions(subscriptions, events, most=most, matchers=matchers, present=present)
    before = choice.before if choice.before is not None else 1.0
    there = [dimension.attribute for dimension in present]
    missing = [d for d in choice.dimensions if d.attribute not in there]
    if missing:
        return DimensionStep("come", missing[0], choice.searched, before)
    best = [name for name, _ in choice.steps]
    others = [d for d in present if d.attribute not in best]
    if not others or len(others) == len(present):
        return None
    without = {
        d.attribute: _searched([p for p in present if p is not d], subscriptions, events, matchers)
        for d in others
    }
    least = min(others, key=lambda d: (without[d.attribute], d.attribute))
    searched = without[least.attribute]
    if len(present) > most or searched * (1.0 - WORTH) <= before:
        return DimensionStep("go", least, searched, before)
    return None


def _searched(
    dimensions: Sequence[Dimension],
    subscriptions: Sequence[Interest],
    events: Sequence[Event],
    matchers: int,
) -> float:
    least: Floats = np.ones(len(events))
    for dimension in dimensions:
        least = np.minimum(least, searched_shares(dimension, subscriptions, events, matchers))
    return float(least.mean()) if len(events) else 1.0


def asked(subscriptions: Sequence[Interest]) -> list[str]:
    """Attributes that anybody asks for."""
    found = {name for s in subscriptions for f in filters_of(s) for name in f.sets}
    return sorted(found)


def _searched_with(
    present: Sequence[Dimension], shares: Mapping[str, Floats], events: int
) -> float:
    least: Floats = np.ones(events)
    for dimension in present:
        least = np.minimum(least, shares.get(dimension.attribute, np.ones(events)))
    return float(least.mean()) if events else 1.0


def searched_shares(
    dimension: Dimension, subscriptions: Sequence[Interest], events: Sequence[Event], matchers: int
) -> Floats:
    """Of each event, the share of all subscriptions in its segment along a dimension of equal segments."""
    starts = [segment.start for segment in even_row(dimension, [""] * matchers)]
    counts = np.zeros(matchers)
    for subscription in subscriptions:
        taken: set[int] = set()
        for (spans,) in footprint_of(subscription, [dimension]):
            for low, high in ((-math.inf, math.inf),) if spans is None else spans:
                taken.update(range(_place(starts, low), _place(starts, high) + 1))
        counts[sorted(taken)] += 1
    sizes = counts / max(1, len(subscriptions))
    points = [point_of(event, [dimension])[0] for event in events]
    # Without the attribute any segment will do: the smallest.
    found = [sizes.min() if p is None else sizes[_place(starts, p)] for p in points]
    return np.array(found, np.float64)


def _place(starts: Sequence[float], coordinate: float) -> int:
    return max(0, bisect_right(starts, coordinate) - 1)


def extent_of(
    attribute: str, subscriptions: Sequence[Interest], events: Sequence[Event]
) -> Dimension:
    """Where the values of an attribute are, as a dimension."""
    unit = Dimension(attribute)
    edges: list[float] = []
    for subscription in subscriptions:
        for one in footprint_of(subscription, [unit]):
            edges += [edge for span in one[0] or () for edge in span]
    edges += [p for e in events if (p := point_of(e, [unit])[0]) is not None]
    finite = np.array([edge for edge in edges if np.isfinite(edge)], np.float64)
    if not len(finite):
        return unit
    low, high = np.quantile(finite, [STRAY, 1.0 - STRAY]).tolist()
    return Dimension(attribute, low, high if high > low else low + 1.0)
