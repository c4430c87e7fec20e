"""What a service can bear, as a fluid: sizes of all sets, what each message takes where, and what saturates.

Of subscriptions as arrays of spans and messages as arrays of points. What matching takes is a function of the
size of the set that is searched: in proportion to it, a power of it, or as it was measured. `saturation`
says, of each way to forward, at how many messages a second the busiest matcher has no rest, in units in which
a subscription takes a second; ratios of these are what the experiments compare. With the paper's baselines:
P2P is one dimension, full replication every subscription on every matcher.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from roost.partition.fluid import divided, normalised_deviation, optimum
from roost.partition.segments import SegmentTable

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
# What matching takes, of the sizes of sets.
Cost: TypeAlias = Callable[[Floats], Floats]


class Saturation(Struct, frozen=True):
    """Messages a second at which the busiest matcher is busy all the time, by way of forwarding."""

    best: float  # the least that the best division is known to bear
    amount: float
    random: float
    p2p: tuple[float, ...]  # along each dimension alone
    replicated: float
    deviation_best: float  # of the loads, normalised
    deviation_p2p: float  # along the dimension that bears most
    largest_set: float  # over the average set, on the dimension on which that is largest


def set_sizes(table: SegmentTable, low: Floats, high: Floats) -> list[Ints]:
    """Of each dimension, how many subscriptions each segment has. A span is [low, high)."""
    sizes = []
    for dimension, row in enumerate(table.segments):
        starts = np.array([segment.start for segment in row])
        ends = np.append(starts[1:], np.inf)
        begins, stops = np.sort(low[:, dimension]), np.sort(high[:, dimension])
        # Those that begin before its end, without those that end before its start.
        before = np.searchsorted(begins, ends, side="left")
        over = np.searchsorted(stops, starts, side="right")
        sizes.append((before - over).astype(np.int64))
    return sizes


def proportional(sizes: Floats) -> Floats:
    """Each subscription of a set takes the same."""
    return sizes


def power(exponent: float) -> Cost:
    """The size of a set to this power."""
    return lambda sizes: sizes**exponent


def saturation(
    table: SegmentTable, low: Floats, high: Floats, points: Floats, cost: Cost = proportional
) -> Saturation:
    """Rows of `low` and `high` are subscriptions, rows of `points` messages; columns are dimensions."""
    names = table.matchers()
    number = {name: place for place, name in enumerate(names)}
    sizes = set_sizes(table, low, high)
    matchers = np.empty(points.shape, np.int64)
    works = np.empty(points.shape)
    for dimension, row in enumerate(table.segments):
        starts = np.array([segment.start for segment in row])
        places = np.searchsorted(starts, points[:, dimension], side="right") - 1
        owner = np.array([number[segment.owner] for segment in row])
        matchers[:, dimension] = owner[places]
        works[:, dimension] = cost(sizes[dimension].astype(np.float64))[places]
    count, messages = len(names), len(points)
    best = optimum(matchers, works, count)
    fewest = np.argmin(works, axis=1)
    every = np.zeros(count)
    alone = []
    for dimension in range(points.shape[1]):
        loads = divided(np.full(messages, dimension), matchers, works, count)
        alone.append(loads)
        every += loads / points.shape[1]
    replicated = float(cost(np.array([float(len(low))]))[0]) * messages / count
    lightest = min(alone, key=lambda loads: float(loads.max()))
    return Saturation(
        best=messages / best.work_at_most,
        amount=messages / float(divided(fewest, matchers, works, count).max()),
        random=messages / float(every.max()),
        p2p=tuple(messages / float(loads.max()) for loads in alone),
        replicated=messages / replicated,
        deviation_best=normalised_deviation(best.loads),
        deviation_p2p=normalised_deviation(lightest.tolist()),
        largest_set=max(float(row.max() / row.mean()) for row in sizes),
    )
