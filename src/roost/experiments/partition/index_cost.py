"""What a search of our index takes, by the size of the set: measured, for the fluid of 004's figure 6.

The paper's cost grows faster than the set, as its ratios say; an index's grows more slowly. Sets of a few
sizes are made of the paper's subscriptions and searched for its messages, by the processor time of this
process; between two sizes the cost is a power of the size.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np

from roost.experiments.partition.setup import MESSAGES, dimensions_of, points, ranges
from roost.matching import Index
from roost.partition.batch import Batch, Numbers
from roost.partition.capacity import Cost, Floats

# The largest set is all subscriptions, each other one a fraction of the next.
SIZES = 5
FRACTION = 3
# Each is searched until that took so much processor time, a batch at a time.
BUDGET_S = 0.3
BULK = 100


class Measured(NamedTuple):
    """Seconds a message, for sets of these sizes."""

    sizes: Floats
    seconds: Floats

    @property
    def cost(self) -> Cost:
        """Between the sizes a power, and beyond them the nearest."""
        sizes, seconds = np.log(self.sizes), np.log(self.seconds)
        return lambda some: np.exp(np.interp(np.log(np.maximum(some, 1.0)), sizes, seconds))

    @property
    def exponent(self) -> float:
        """Of the power that fits best."""
        return float(np.polyfit(np.log(self.sizes), np.log(self.seconds), 1)[0])


def measured_cost(seed: int, subscriptions: int) -> Measured:
    """Of sets up to that many subscriptions."""
    low, high = ranges(seed, subscriptions)
    batches = _batches(seed)
    sizes = [max(1, subscriptions // FRACTION**n) for n in reversed(range(SIZES))]
    seconds = [_search_s(low[:size], high[:size], batches) for size in sizes]
    return Measured(np.array(sizes, np.float64), np.array(seconds))


def _batches(seed: int) -> list[Batch]:
    found = points(seed, MESSAGES)
    names = [dimension.attribute for dimension in dimensions_of(found.shape[1])]
    batches = []
    for first in range(0, MESSAGES, BULK):
        part = found[first : first + BULK]
        columns: dict[str, Numbers] = {
            name: np.ascontiguousarray(part[:, place]) for place, name in enumerate(names)
        }
        batches.append(Batch(len(part), columns, {}, ()))
    return batches


def _search_s(low: Floats, high: Floats, batches: list[Batch]) -> float:
    index = Index()
    columns = []
    for place, dimension in enumerate(dimensions_of(low.shape[1])):
        name = dimension.attribute
        columns += [(name, ">=", low[:, place]), (name, "<", high[:, place])]
    index.add_columns(np.arange(len(low)), columns)
    for batch in batches:
        batch.match(index)  # what is compiled, or made, on first use
    count, began = 0, time.process_time()
    while time.process_time() - began < BUDGET_S:
        for batch in batches:
            batch.match(index)
            count += batch.count
    return (time.process_time() - began) / count
