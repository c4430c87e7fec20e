"""The best that any forwarding could do: messages as a fluid that is divided among candidates.

Given for each message of a sample the candidates and what matching there takes, how is the sample divided
so that the busiest matcher has the least work? That is a linear programme (fractional scheduling on
unrelated machines). With a price for each matcher, prices summing to 1, every message goes where price
times work is least, and the sum of those leasts is a lower bound of the least work; the prices of the best
bound are those of the best division. `optimum` prices matchers by how busy they are, moves a part of the
division to where that says (Frank and Wolfe's way, on a smooth maximum), and stops when bound and division
are close: so the answer comes with its proof.

A sample of n messages of which the busiest matcher has `work_s` saturates at n / work_s messages a second.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ROUNDS_MAX = 20_000
# Shares that are tried for how much of the division is changed in a round.
SHARES = np.geomspace(1e-4, 1.0, 40)


class Optimum(Struct, frozen=True):
    """The least work of the busiest matcher lies between the two."""

    work_at_least: float
    work_at_most: float
    loads: tuple[float, ...]  # of the division that has the second
    rounds: int

    @property
    def gap(self) -> float:
        return self.work_at_most / self.work_at_least - 1.0 if self.work_at_least else 0.0


def optimum(matchers: Ints, works: Floats, count: int, *, gap: float = 0.01) -> Optimum:
    """Rows are messages, columns their candidates: the number of the matcher, and the work there.

    A candidate that there is not has infinite work. `gap`: how far apart the two bounds may be.
    """
    rows = np.arange(len(works))
    finite = np.where(np.isfinite(works), works, 0.0).sum(axis=1)
    if not len(works) or not float(finite.sum()):
        return Optimum(0.0, 0.0, (0.0,) * count, 0)
    loads = _best_response(np.full(count, 1.0 / count), matchers, works, rows)[1]
    lower, upper, best = 0.0, float(loads.max()), loads
    rounds = 0
    while rounds < ROUNDS_MAX and upper > lower * (1.0 + gap):
        rounds += 1
        # Sharp enough that the smooth maximum differs from the true one by a part of the gap.
        sharpness = 4.0 * np.log(count + 1.0) / (gap * upper)
        prices = np.exp(sharpness * (loads - loads.max()))
        prices /= prices.sum()
        bound, response = _best_response(prices, matchers, works, rows)
        lower = max(lower, bound)
        tried = loads + SHARES[:, None] * (response - loads)
        top = tried.max(axis=1)
        smooth = top + np.log(np.exp(sharpness * (tried - top[:, None])).sum(axis=1)) / sharpness
        loads = tried[int(np.argmin(smooth))]
        if float(loads.max()) < upper:
            upper, best = float(loads.max()), loads
    return Optimum(lower, upper, tuple(best.tolist()), rounds)


def _best_response(
    prices: Floats, matchers: Ints, works: Floats, rows: Ints
) -> tuple[float, Floats]:
    """Every message where price times work is least: the sum of those, and the loads."""
    weighted = prices[matchers] * works
    choice = np.argmin(weighted, axis=1)
    loads = divided(choice, matchers, works, len(prices))
    return float(weighted[rows, choice].sum()), loads


def divided(choice: Ints, matchers: Ints, works: Floats, count: int) -> Floats:
    """The work of each matcher if each message goes to the candidate of that column."""
    rows = np.arange(len(works))
    return np.bincount(matchers[rows, choice], weights=works[rows, choice], minlength=count).astype(
        np.float64
    )


def normalised_deviation(loads: Sequence[float]) -> float:
    """Standard deviation over average (004 section IV.D)."""
    values = np.asarray(loads, np.float64)
    mean = float(values.mean()) if len(values) else 0.0
    return float(values.std()) / mean if mean else 0.0
