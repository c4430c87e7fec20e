"""What publications, deliveries and subscriptions take a broker, learned from its own samples.

Three ways to know what a subscription adds to the matching delay (`Rules.costs`):

**proportional**   d_m / n: twice the subscriptions, twice the delay (001 eq. 4.7). So it is in the simulator.
**sampled**        a slope between two readings that are S subscriptions or more apart (4.1.2). A matching
                   delay that follows no line is followed in pieces. So is the memory of the matching engine
                   (4.1.5), in all three.
**fitted**         the least squares, without negative ones, of

                       d_m * i = b + p * i + s * i * n + c * o

                   over samples, of which old ones count less. A live broker's delay is all the time of its
                   processor over its publications. It hardly grows with the subscriptions; it grows with the
                   messages that are sent, and a broker has something to do (b) even when nothing comes: no
                   more than when it did least. What the samples do not tell apart stays near the
                   proportional.

A delay is a mean over the time since the last sample, and the number of subscriptions is that at its end: a
sample in which many came or went fits neither. It is left out, or a broker that was relieved again and again
would seem to take long whatever it has.

A fit says whether it is *sure*: whether what each cost makes of the work, as it usually was, is known to a
quarter of it. That of a broker that was always idle is not: all that it does is shared by the few
publications that it has seen. Whoever asks it takes his own costs for it (`estimation.like`).
"""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from roost.balancing.cards import LoadReport
from roost.balancing.settings import BalancingConfig
from roost.broker.events import LoadIndices

Floats = NDArray[np.float64]

# An old sample counts half as much after so many.
HALF_LIFE = 500
DECAY = 0.5 ** (1 / HALF_LIFE)
# What the proportional model weighs against all samples, where they say next to nothing.
PRIOR = 1e-3
# A sample in which the subscriptions changed by more than this part, and by more than a few, is left out.
CHANGED, FEW = 0.1, 5
# What is known to this part of the work is known.
SURE = 0.25
BASE, PUBLICATION, SUBSCRIPTION, DELIVERY = TERMS = range(4)
COSTS = slice(PUBLICATION, None)


class WorkCosts(Struct, frozen=True, kw_only=True):
    """What matching takes."""

    subscription_s: float  # s: of each publication, for each subscription
    publication_s: float = 0.0  # p: of each publication
    delivery_s: float = 0.0  # c: of each message that is sent
    base: float = 0.0  # b: of a second, anyway
    is_sure: bool = True


class Reading(Struct, frozen=True):
    """A point that a slope begins or ends at."""

    subscriptions: int
    value: float


class Slope:
    """What one more subscription adds to something, taken anew every S subscriptions."""

    def __init__(self, every: int) -> None:
        self._every = every
        self._last: Reading | None = None
        self._slope: float | None = None

    def read(self, subscriptions: int, value: float) -> None:
        """A reading."""
        last = self._last
        if last is not None and abs(subscriptions - last.subscriptions) < self._every:
            return
        if last is not None:
            self._slope = (value - last.value) / (subscriptions - last.subscriptions)
        self._last = Reading(subscriptions, value)

    def at(self, subscriptions: int, value: float) -> float:
        """The slope, between level and in proportion; in proportion as long as there is none."""
        steepest = value / subscriptions if subscriptions else 0.0
        if self._slope is None:
            return steepest
        return min(max(0.0, self._slope), max(0.0, steepest))


class CostFit:
    """The fitted costs."""

    def __init__(self) -> None:
        self._products = np.zeros((len(TERMS), len(TERMS)))
        self._targets = np.zeros(len(TERMS))
        self._squares = 0.0
        self._samples = 0.0
        self._least = math.inf
        self._subscriptions = 0  # at the last sample

    def sampled(self, load: LoadIndices) -> None:
        """A sample; one without publications says nothing of what they take."""
        before, self._subscriptions = self._subscriptions, load.subscriptions
        changed = abs(load.subscriptions - before)
        if changed > max(FEW, CHANGED * load.subscriptions):
            return
        if not load.input_rate > 0 or not load.matching_delay_s > 0:
            return
        row, busy = _row(load), load.matching_delay_s * load.input_rate
        self._products = self._products * DECAY + np.outer(row, row)
        self._targets = self._targets * DECAY + row * busy
        self._squares = self._squares * DECAY + busy**2
        self._samples = self._samples * DECAY + 1.0
        self._least = min(self._least, busy)

    def costs(self, load: LoadIndices) -> WorkCosts:
        """The costs that explain the samples, near those in proportion where these leave it open."""
        row, busy = _row(load), load.matching_delay_s * load.input_rate
        prior = np.zeros(len(TERMS))
        prior[SUBSCRIPTION] = _proportional(load)
        # Each term is weighed in what it makes of the work, so that none counts for its unit.
        ridge = np.diag(PRIOR * np.maximum(np.diag(self._products), row**2) + 1e-18)
        products, targets = self._products + ridge, self._targets + ridge @ prior
        found = _non_negative(products, targets)
        if found[BASE] > self._least:
            found[BASE] = self._least
            rest = targets - self._least * products[:, BASE]
            found[COSTS] = _non_negative(products[COSTS, COSTS], rest[COSTS])
        is_sure = self._is_sure(found, products)
        # What they make of this sample is what it took.
        base, explained = min(float(found[BASE]), busy), float(found[COSTS] @ row[COSTS])
        found = found * ((busy - base) / explained) if explained else prior
        return WorkCosts(
            subscription_s=float(found[SUBSCRIPTION]),
            publication_s=float(found[PUBLICATION]),
            delivery_s=float(found[DELIVERY]),
            base=base,
            is_sure=is_sure,
        )

    def _is_sure(self, found: Floats, products: Floats) -> bool:
        """Whether the error of what each cost makes of the work, as it usually was, is small beside it."""
        if not self._samples:
            return False
        rest = self._squares - 2 * found @ self._targets + found @ self._products @ found
        variance = max(0.0, float(rest)) / self._samples
        errors = np.sqrt(variance * np.diag(np.linalg.inv(products)))
        usual = np.sqrt(np.diag(self._products) / self._samples)
        return bool((errors * usual <= SURE * np.sqrt(self._squares / self._samples))[COSTS].all())


def _row(load: LoadIndices) -> Floats:
    i = load.input_rate
    return np.array([1.0, i, i * load.subscriptions, load.output_rate])


def _proportional(load: LoadIndices) -> float:
    return load.matching_delay_s / load.subscriptions if load.subscriptions else 0.0


def _non_negative(products: Floats, targets: Floats) -> Floats:
    """The least squares of these normal equations, with no term below 0: of so few, all choices are tried."""
    n = len(targets)
    best, least = np.zeros(n), 0.0
    for size in range(1, n + 1):
        for support in map(list, combinations(range(n), size)):
            part = products[np.ix_(support, support)]
            found = np.linalg.solve(part, targets[support])
            cost = float(found @ part @ found - 2 * found @ targets[support])
            if cost < least and not (found < 0).any():
                least = cost
                best = np.zeros(n)
                best[support] = found
    return best


class OwnLoad:
    """What a broker remembers of its own samples, to report how it fares."""

    def __init__(self, config: BalancingConfig) -> None:
        self._model = config.rules.costs
        self._delay = Slope(config.slope_subscriptions)
        self._memory = Slope(config.slope_subscriptions)
        self._fit = CostFit()
        self._output_total = 0.0
        self._message_bytes = 0.0

    def sampled(self, load: LoadIndices) -> None:
        """A sample of the load indices."""
        if load.output_utilisation > 0:
            self._output_total = load.output_bytes_per_s / load.output_utilisation
        if load.output_rate > 0:
            self._message_bytes = load.output_bytes_per_s / load.output_rate
        self._delay.read(load.subscriptions, load.matching_delay_s)
        self._memory.read(load.subscriptions, self._matching_memory(load, self._message_bytes))
        self._fit.sampled(load)

    def costs(self, load: LoadIndices) -> WorkCosts:
        """What matching takes, as the rules have it."""
        if self._model == "fitted":
            return self._fit.costs(load)
        if self._model == "sampled":
            slope_s = self._delay.at(load.subscriptions, load.matching_delay_s)
            rest_s = max(0.0, load.matching_delay_s - slope_s * load.subscriptions)
            return WorkCosts(subscription_s=slope_s, publication_s=rest_s)
        return WorkCosts(subscription_s=_proportional(load), is_sure=load.matching_delay_s > 0)

    def report(
        self, load: LoadIndices, css: tuple[str, ...] = (), message_bytes: float = 0.0
    ) -> LoadReport:
        """How this broker fares; `message_bytes` of a publication, if PRESS has seen some."""
        costs = self.costs(load)
        size = message_bytes or self._message_bytes
        memory = self._matching_memory(load, size)
        return LoadReport(
            css=css,
            cpu_ratio=load.cpu_utilisation,
            input_bytes_per_s=load.input_rate * size,
            input_queue_bytes=load.input_queue * size,
            input_rate=load.input_rate,
            matching_slope_s=costs.subscription_s,
            memory_total_bytes=load.memory_total_bytes,
            output_total_bytes_per_s=self._output_total,
            subscriptions=load.subscriptions,
            output_bytes_per_s=load.output_bytes_per_s,
            output_queue_bytes=load.output_queue * size,
            matching_delay_s=load.matching_delay_s,
            input_ratio=load.input_utilisation,
            matching_memory_bytes=memory,
            memory_slope_bytes=self._memory.at(load.subscriptions, memory),
            output_rate=load.output_rate,
            publication_s=costs.publication_s,
            delivery_s=costs.delivery_s,
            base=costs.base,
            is_sure=costs.is_sure,
        )

    def _matching_memory(self, load: LoadIndices, size: float) -> float:
        """What is not in the queues: the exact amount can't be asked for (4.1.5)."""
        return max(0.0, load.memory_bytes - (load.input_queue + load.output_queue) * size)
