"""The input offload (001 section 4.2.1, figures 4.1 to 4.4).

What comes in is reduced only by moving subscriptions that nothing else here covers, so these are the
candidates: the covering subscription set, as it is after each choice. It ends when there are no more, when
the offloading broker's input ratio is below the other's or within the balance percentage of it, or when no
card brings the two nearer.
"""

from __future__ import annotations

from roost.balancing.indices import Action
from roost.balancing.offload.run import BALANCED, EXHAUSTED, FULL, NO_GAIN, Run


def by_input(run: Run) -> str:
    """Choose, and say why it ended."""
    css = run.covering.css
    while not run.is_balanced(Action.INPUT):
        i = run.candidates(css)
        if not len(i):
            return EXHAUSTED
        run.considered += len(i)
        counts = run.steps.by_input(i)
        able = counts.subscribers >= 1
        k = run.pick(Action.INPUT, i, counts, able)
        if k is None:
            return NO_GAIN if able.any() else FULL
        run.take(i, k, counts)
    return BALANCED
