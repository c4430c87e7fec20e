"""Which of the rewirings that save nothing are worth it: what Roost's own does where the paper is stuck.

U(R) > 0 alone ends in a local optimum, and most of what it misses lies behind rewirings with U(R) = 0. A
broker that only relays costs a message each time. It becomes a leaf when its neighbours have moved away, one
by one; but to move one of them saves nothing as long as another one behind it wants the same. So

- **at equal traffic, the shorter ways win** (D(R) > 0). What is near the middle of the deliveries collects
  what is far from it, relays turn into leaves, and since the pair (traffic, delay) falls with every
  rewiring, it ends.

With no limit that makes a star, so there is one (`Limits.degree_max`). Then slots at a large broker are
scarce, and nothing passes through it any more: two small relays beside a full one can't give each other
anything.

- **A broker that is nearly full makes room**: of two neighbours that are relays themselves, and not nearly
  full, it moves the one with fewer neighbours to the one with more, if that costs no traffic. They are
  neighbours then, and the small one's leaves go over to the large one without needing a slot.
- **To a broker that is nearly full only leaves may move** for nothing, so that what it has given away does
  not come back.

*Nearly full* is within `SPARE` of the limit. A broker knows the degrees of its neighbours, which it has to
for the limit anyway.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from roost.overlay.rewiring.choosing import Values

# Slots that are left when a broker begins to make room.
SPARE = 2


def second_values(shorter: Values, degrees: Sequence[int], degree_max: int | None) -> Values:
    """What decides between rewirings of equal utility; above 0 it is worth it for itself.

    `shorter` is D(R) of all ordered pairs, `degrees` has how many neighbours each neighbour has.
    """
    if degree_max is None:
        return shorter
    nearly = degree_max - SPARE
    if len(degrees) < nearly and max(degrees, default=0) < nearly:
        return shorter
    mover, anchor = np.array(degrees)[:, None], np.array(degrees)[None, :]
    room = anchor < nearly
    if len(degrees) >= nearly:
        fits: Values = np.where((mover > 1) & (anchor >= mover) & room, anchor, -1)
        return fits
    found: Values = np.where(room | (mover == 1), shorter, np.minimum(shorter, 0))
    return found
