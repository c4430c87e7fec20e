"""What publications, deliveries and subscriptions take a broker, learned from its own samples.

Three ways to know what a subscription adds to the matching delay (`Rules.costs`):

**proportional**   d_m / n: twice the subscriptions, twice the delay (001 eq. 4.7). So it is in the simulator.
**sampled**        a slope between two readings that are S subscriptions or more apart (4.1.2). A matching
                   delay that follows no line is followed in pieces. So is the memory of the matching engine
                   (4.1.5), in all three.
**fitted**         the least squares, without negative ones, of

                       d_m * i = p * i + c * o + s * i * n + b

                   over samples, of which old ones count less. A live broker's delay is all the time of its
                   processor over its publications. It hardly grows with the subscriptions; it grows with the
                   messages that are sent, and a broker has something to do (b) even when nothing comes. What
                   the samples do not tell apart stays near the proportional: a slope that is too steep makes
                   a session that moves too little, and then there are samples that tell.
"""

from __future__ import annotations

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
# How many samples the proportional model is worth, where they say nothing.
PRIOR_SAMPLES = 0.1
TERMS = 4  # p, c, s, b
# All choices of terms that are not 0.
SUPPORTS = [list(each) for size in range(1, TERMS + 1) for each in combinations(range(TERMS), size)]


class WorkCosts(Struct, frozen=True):
    """What matching takes."""

    subscription_s: float  # s: of each publication, for each subscription
    delivery_s: float = 0.0  # c: of each message that is sent


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
        self._products = np.zeros((TERMS, TERMS))
        self._targets = np.zeros(TERMS)

    def sampled(self, load: LoadIndices) -> None:
        """A sample; one without publications says nothing of what they take."""
        if not load.input_rate > 0 or not load.matching_delay_s > 0:
            return
        row = _row(load)
        self._products = self._products * DECAY + np.outer(row, row)
        self._targets = self._targets * DECAY + row * (load.matching_delay_s * load.input_rate)

    def costs(self, load: LoadIndices) -> WorkCosts:
        """The costs that explain the samples, near those in proportion where these leave it open."""
        prior = np.zeros(TERMS)
        prior[2] = _proportional(load)
        # Each term is weighed in what it makes of the work now, so that none counts for its unit.
        scale = np.maximum(_row(load), 1e-9)
        ridge = np.diag(PRIOR_SAMPLES * scale**2)
        found = _non_negative(self._products + ridge, self._targets + ridge @ prior)
        # What they explain of this sample is no more than all of it.
        explained = float(found[1:3] @ _row(load)[1:3])
        share = min(1.0, load.matching_delay_s * load.input_rate / explained) if explained else 1.0
        return WorkCosts(subscription_s=float(found[2]) * share, delivery_s=float(found[1]) * share)


def _row(load: LoadIndices) -> Floats:
    i = load.input_rate
    return np.array([i, load.output_rate, i * load.subscriptions, 1.0])


def _proportional(load: LoadIndices) -> float:
    return load.matching_delay_s / load.subscriptions if load.subscriptions else 0.0


def _non_negative(products: Floats, targets: Floats) -> Floats:
    """The least squares of these normal equations, with no term below 0: of four, all supports are tried."""
    best, least = np.zeros(TERMS), 0.0
    for support in SUPPORTS:
        part = products[np.ix_(support, support)]
        found = np.linalg.lstsq(part, targets[support], rcond=None)[0]
        if (found < 0).any():
            continue
        cost = float(found @ part @ found - 2 * found @ targets[support])
        if cost < least:
            least = cost
            best = np.zeros(TERMS)
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
            return WorkCosts(self._delay.at(load.subscriptions, load.matching_delay_s))
        return WorkCosts(_proportional(load))

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
            delivery_s=costs.delivery_s,
        )

    def _matching_memory(self, load: LoadIndices, size: float) -> float:
        """What is not in the queues: the exact amount can't be asked for (4.1.5)."""
        return max(0.0, load.memory_bytes - (load.input_queue + load.output_queue) * size)
