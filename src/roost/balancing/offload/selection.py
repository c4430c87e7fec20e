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
from roost.balancing.offload.counting import EQUAL, Counts, Mask


def nearest(counts: Counts, reduced: Floats, able: Mask, now: float) -> int | None:
    """Figure 4.2: which card is nearest to balance; None if none is nearer than now."""
    distances = np.where(able, np.abs(counts.differences), np.inf)
    return _first(distances, reduced, counts.subscribers, abs(now) - EQUAL)


def relieving(counts: Counts, reduced: Floats, able: Mask) -> int | None:
    """Figure 4.3: the negative one nearest to balance, or else the lowest; None if there is no card."""
    differences = counts.differences
    negative = np.where(able & (differences < 0), -differences, np.inf)
    found = _first(negative, reduced, counts.subscribers, np.inf)
    if found is not None:
        return found
    return _first(np.where(able, differences, np.inf), reduced, counts.subscribers, np.inf)


def _first(distances: Floats, reduced: Floats, counts: Floats, below: float) -> int | None:
    least = distances.min(initial=np.inf)
    if not least < below:
        return None
    equal = np.flatnonzero(distances <= least + EQUAL)
    if len(equal) == 1:
        return int(equal[0])
    order = np.lexsort((equal, -counts[equal], -reduced[equal]))
    return int(equal[order[0]])
