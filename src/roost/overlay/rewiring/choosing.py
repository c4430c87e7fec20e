"""The best rewiring of a broker, if one is good enough, with the evidence.

002 takes the pair of neighbours that maximises U(R), and applies it if U(R) > T (section 4.1). With T = 0
that never makes traffic worse (by topic); below 0 it is noise, so that the overlay gets out of local optima
(5.1).

Open in the paper, and decided:

- **Ties**: of equal values the one with the greater `second` value (Roost's own has delay there); then the
  first by the names of mover and anchor, or one drawn by `random`, if there is one. With T below 0 it
  matters: at a plateau the first by name would move the same link to and fro.
- **A best pair that is locked**, or that limits forbid, is no candidate: the next best is taken, if it is
  above T itself. The other rule, to wait, loses the training of a whole phase, since counters are reset
  after it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from roost.overlay.rewiring.counters import Rewiring

if TYPE_CHECKING:
    from random import Random

# Values of pairs of neighbours: row the mover, column the anchor.
Values = NDArray[np.int64] | NDArray[np.float64]
# Candidates shown for their rank.
EVIDENCE_MAX = 8


class Option(Struct, frozen=True):
    """A rewiring that was looked at, and what became of it, in words."""

    mover: str
    anchor: str
    utility: float
    second: float
    outcome: str


class RewiringChoice(Struct, frozen=True):
    """What to rewire, or that nothing is good enough, and the evidence."""

    rewiring: Rewiring | None
    utility: float  # of the best, whether it is chosen or not; 0 if there is none
    second: float
    threshold: float
    candidates: int  # that nothing spoke against
    evidence: tuple[Option, ...]  # the best first


def best_pair(
    values: Values, allowed: NDArray[np.bool_], second: Values | None, random: Random | None
) -> tuple[int, int] | None:
    """The positions of mover and anchor with the greatest value; None if nothing is allowed."""
    if not allowed.any():
        return None
    ties = allowed & (values == values[allowed].max())
    if second is not None:
        ties &= second == second[ties].max()
    places = np.flatnonzero(ties)
    place = places[0] if random is None else random.choice(places)
    mover, anchor = divmod(int(place), values.shape[1])
    return mover, anchor


def choose_rewiring(
    middle: str,
    neighbours: Sequence[str],
    values: Values,
    threshold: float,
    objection: Callable[[Rewiring], str] = lambda _: "",
    *,
    second: Values | None = None,
    random: Random | None = None,
) -> RewiringChoice:
    """The choice among all ordered pairs of `neighbours`, which stand in the order of their names.

    It is applied if its value is above the threshold; at the threshold if its `second` value is above 0.
    """
    n = len(neighbours)
    objections: dict[int, str] = {}
    for place in range(n * n):
        mover, anchor = divmod(place, n)
        if mover != anchor:
            why = objection(Rewiring(middle, neighbours[mover], neighbours[anchor]))
            if why:
                objections[place] = why
    allowed = ~np.eye(n, dtype=bool)
    allowed.flat[list(objections)] = False
    found = best_pair(values, allowed, second, random)
    extra = np.zeros((n, n)) if second is None else second
    chosen = None
    utility, more = 0.0, 0.0
    if found is not None:
        utility, more = float(values[found]), float(extra[found])
        if is_above(utility, more, threshold):
            chosen = Rewiring(middle, neighbours[found[0]], neighbours[found[1]])
    best = None if found is None else found[0] * n + found[1]
    evidence = _evidence(neighbours, values, extra, threshold, best, objections)
    return RewiringChoice(chosen, utility, more, threshold, int(allowed.sum()), evidence)


def is_above(utility: float, second: float, threshold: float) -> bool:
    """Whether a value is good enough; on the edge, the second one decides."""
    return utility > threshold or (utility == threshold and second > 0)


def _evidence(
    neighbours: Sequence[str],
    values: Values,
    second: Values,
    threshold: float,
    best: int | None,
    objections: Mapping[int, str],
) -> tuple[Option, ...]:
    n = len(neighbours)
    order = np.lexsort((np.arange(n * n), -second.ravel(), -values.ravel())).tolist()
    ranked = [place for place in order if place % n != place // n][:EVIDENCE_MAX]
    shown = dict.fromkeys(([] if best is None else [best]) + ranked)

    def outcome(place: int, utility: float, more: float) -> str:
        if place in objections:
            return objections[place]
        if not is_above(utility, more, threshold):
            return f"saves {utility:g}, not more than {threshold:g}"
        return "chosen" if place == best else "not the best"

    found = []
    for place in shown:
        utility, more = float(values.flat[place]), float(second.flat[place])
        said = outcome(place, utility, more)
        found.append(Option(neighbours[place // n], neighbours[place % n], utility, more, said))
    return tuple(found)
