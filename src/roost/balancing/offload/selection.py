"""Which report card is chosen: figures 4.2 and 4.3, as choices among arrays.

Cards are sorted by the difference that they lead to, from negative (the offloading broker would be the less
loaded one) to positive. Figure 4.2, for a broker that is not overloaded, takes the one nearest to 0, and
nothing if that is no nearer than now. Figure 4.3, for an overloaded one, takes the last of the negative ones,
or the first if there is none: it prefers to be rid of more. Of equal ones, the one that takes more
publications along goes first, then the one with more subscribers, then the first.

The thesis goes on with a card that changes nothing; here it has to be nearer, as to move for nothing is a
fault.
"""

from __future__ import annotations

import numpy as np

from roost.balancing.estimation import Floats

# What differs by less is equal: rounding must not decide.
EQUAL = 1e-12


def nearest(differences: Floats, reduced: Floats, counts: Floats, now: float) -> int | None:
    """Figure 4.2: the position of the card nearest to balance; None if none is nearer than now."""
    distances = np.abs(differences)
    if not len(distances) or not distances.min() < abs(now) - EQUAL:
        return None
    return _first(distances, reduced, counts)


def relieving(differences: Floats, reduced: Floats, counts: Floats) -> int | None:
    """Figure 4.3: the negative one nearest to balance, or else the lowest; None if there is no card."""
    if not len(differences):
        return None
    negative = differences < 0
    if negative.any():
        return _first(np.where(negative, -differences, np.inf), reduced, counts)
    return _first(differences, reduced, counts)


def _first(distances: Floats, reduced: Floats, counts: Floats) -> int:
    equal = np.flatnonzero(distances <= distances.min() + EQUAL)
    if len(equal) == 1:
        return int(equal[0])
    order = np.lexsort((equal, -counts[equal], -reduced[equal]))
    return int(equal[order[0]])
