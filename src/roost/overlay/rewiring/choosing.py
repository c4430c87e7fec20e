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
from typing import TYPE_CHECKING, NamedTuple

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


class Offers(NamedTuple):
    """What a broker could rewire, by the positions of its neighbours: row the mover, column the anchor."""

    values: Values  # the greatest is the best
    second: Values | None = None  # decides between equals
    barred: NDArray[np.bool_] | None = None  # pairs that are no candidates
    why: str = ""
    noise: Values | None = None  # that is added to the values, to choose by


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
    offers: Offers, allowed: NDArray[np.bool_], random: Random | None
) -> tuple[int, int] | None:
    """The positions of mover and anchor with the greatest value; None if nothing is allowed."""
    if offers.barred is not None:
        allowed = allowed & ~offers.barred
    if not allowed.any():
        return None
    ranked = ranks_of(offers)
    ties = allowed & (ranked == ranked[allowed].max())
    if offers.second is not None:
        ties &= offers.second == offers.second[ties].max()
    places = np.flatnonzero(ties)
    place = places[0] if random is None else random.choice(places)
    mover, anchor = divmod(int(place), len(offers.values))
    return mover, anchor


def choose_rewiring(
    middle: str,
    neighbours: Sequence[str],
    offers: Offers,
    threshold: float,
    objection: Callable[[Rewiring], str] = lambda _: "",
    *,
    random: Random | None = None,
) -> RewiringChoice:
    """The choice among all ordered pairs of `neighbours`, which stand in the order of their names.

    It is applied if its value is above the threshold; at the threshold if its `second` value is above 0.
    """
    n = len(neighbours)
    objections: dict[int, str] = {}
    for place in range(n * n):
        mover, anchor = divmod(place, n)
        if mover == anchor:
            continue
        why = objection(Rewiring(middle, neighbours[mover], neighbours[anchor]))
        if not why and offers.barred is not None and offers.barred[mover, anchor]:
            why = offers.why
        if why:
            objections[place] = why
    allowed = ~np.eye(n, dtype=bool)
    allowed.flat[list(objections)] = False
    found = best_pair(offers, allowed, random)
    chosen, utility, second = None, 0.0, 0.0
    if found is not None:
        utility, second = values_at(offers, found)
        if is_above(utility + noise_at(offers, found), second, threshold):
            chosen = Rewiring(middle, neighbours[found[0]], neighbours[found[1]])
    best = None if found is None else found[0] * n + found[1]
    evidence = _evidence(neighbours, offers, threshold, best, objections)
    return RewiringChoice(chosen, utility, second, threshold, int(allowed.sum()), evidence)


def values_at(offers: Offers, place: tuple[int, int]) -> tuple[float, float]:
    """The value of a pair, and its second one."""
    second = 0.0 if offers.second is None else float(offers.second[place])
    return float(offers.values[place]), second


def ranks_of(offers: Offers) -> Values:
    """What pairs are chosen by: their values, and chance if there is any."""
    return offers.values if offers.noise is None else offers.values + offers.noise


def noise_at(offers: Offers, place: tuple[int, int]) -> float:
    """What chance adds to the value of a pair."""
    return 0.0 if offers.noise is None else float(offers.noise[place])


def is_above(utility: float, second: float, threshold: float) -> bool:
    """Whether a value is good enough; on the edge, the second one decides."""
    return utility > threshold or (utility == threshold and second > 0)


def _evidence(
    neighbours: Sequence[str],
    offers: Offers,
    threshold: float,
    best: int | None,
    objections: Mapping[int, str],
) -> tuple[Option, ...]:
    n = len(neighbours)
    second = np.zeros((n, n)) if offers.second is None else offers.second
    order = np.lexsort((-second.ravel(), -offers.values.ravel())).tolist()
    ranked = [place for place in order if place % n != place // n][:EVIDENCE_MAX]
    shown = dict.fromkeys(([] if best is None else [best]) + ranked)

    def outcome(place: int, utility: float, more: float) -> str:
        if place in objections:
            return objections[place]
        noise = noise_at(offers, divmod(place, n))
        if not is_above(utility + noise, more, threshold):
            chance = f" and {noise:+.3g} by chance" if noise else ""
            return f"saves {utility:g}{chance}, not more than {threshold:g}"
        return "chosen" if place == best else "not the best"

    found = []
    for place in shown:
        mover, anchor = divmod(place, n)
        utility, more = values_at(offers, (mover, anchor))
        said = outcome(place, utility, more)
        found.append(Option(neighbours[mover], neighbours[anchor], utility, more, said))
    return tuple(found)
