"""The input offload (001 section 4.2.1, figures 4.1 to 4.4).

What comes in is reduced only by moving subscriptions that nothing else here covers, so these are the
candidates: the covering subscription set, as it is after each choice. It ends when there are no more, when
the offloading broker's input ratio is below the other's or within the balance percentage of it, or when no
card brings the two nearer.
"""

from __future__ import annotations

import numpy as np

from roost.balancing.indices import Action
from roost.balancing.offload.counting import input_counts
from roost.balancing.offload.run import BALANCED, EXHAUSTED, FULL, NO_GAIN, Run


def by_input(run: Run) -> str:
    """Choose, and say why it ended."""
    scales, covering = run.scales, run.covering
    while True:
        if run.is_balanced(Action.INPUT):
            return BALANCED
        i = np.flatnonzero(scales.candidates & covering.css)
        if not len(i):
            return EXHAUSTED
        counts, differences = input_counts(scales, i)
        card = run.pick(Action.INPUT, i, counts, differences)
        if card is None:
            return NO_GAIN if (counts >= 1).any() else FULL
        run.take(card)
