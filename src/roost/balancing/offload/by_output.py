"""The output offload (001 section 4.2.3, figures 4.8 to 4.10).

**Phase I** moves what the accepting broker's CSS covers, so that nothing new comes to it. Of these go first
those that take publications along (type I), then those that would if all their subscribers went (type II),
then the rest (type III). The lists are sorted by the reduced rate, yet figure 4.2 relies on an order by
difference: of each type, the card with the smallest difference is taken.

**Phase II** moves the others. What one of them brings along, the accepting broker covers from then on, and
so it covers what stood below it in the poset: Phase I goes on with those. Of cards with equal differences the
one with the highest gamma goes first (4.19): much output for little input. The guard of figure 4.8 keeps the
input from being unbalanced by it; see `counting.guarded`.

The figure's code compares the output ratios in that guard, its comment and the prose speak of the input
ratios: so does `guarded` (`Rules.guard` has both).
"""

from __future__ import annotations

import numpy as np

from roost.balancing.estimation import Floats
from roost.balancing.indices import Action
from roost.balancing.offload.counting import EQUAL, Counts, Mask
from roost.balancing.offload.run import BALANCED, EXHAUSTED, FULL, NO_GAIN, Run
from roost.balancing.offload.scales import Positions

TYPES = (1, 2, 3)


def by_output(run: Run) -> str:
    """Choose, and say why it ended."""
    if _phase_one(run, run.covered):
        return BALANCED
    while True:
        i = run.candidates(~run.covered)
        if not len(i):
            return EXHAUSTED
        run.considered += len(i)
        counts = run.steps.by_output(i)
        able = counts.subscribers >= 1
        k = run.pick(Action.OUTPUT, i, counts, able)
        if k is None:
            return NO_GAIN if able.any() else FULL
        k = _highest_gamma(run, i, counts, able, k)
        below = run.covering.below(int(i[k]))
        fresh = np.zeros(len(run.covered), np.bool_)
        fresh[below] = ~run.covered[below]
        run.take(i, k, counts)
        run.covered[below] = True
        if run.is_balanced(Action.OUTPUT) or _phase_one(run, fresh):
            return BALANCED


def _phase_one(run: Run, among: Mask) -> bool:
    """Take those of these that are covered; whether the two are balanced then."""
    while not run.is_balanced(Action.OUTPUT):
        i = run.candidates(among)
        run.considered += len(i)
        counts = run.steps.by_output(i)
        able = counts.subscribers >= 1
        types = types_of(run, i, counts)
        found = (run.pick(Action.OUTPUT, i, counts, able & (types == t)) for t in TYPES)
        k = next((k for k in found if k is not None), None)
        if k is None:
            return False
        run.take(i, k, counts)
    return True


def types_of(run: Run, i: Positions, counts: Counts) -> Floats:
    """1: it takes publications along; 2: it would, if all its subscribers went; 3: it never does."""
    is_whole = counts.subscribers == run.scales.clients[i]
    return np.where(run.scales.reducible[i] > 0, np.where(is_whole, 1.0, 2.0), 3.0)


def _highest_gamma(run: Run, i: Positions, counts: Counts, able: Mask, k: int) -> int:
    """Of those whose difference is the k-th's (4.19)."""
    same = np.abs(counts.differences - counts.differences[k]) <= EQUAL
    equal = np.flatnonzero(same & able)
    return int(equal[np.argmax(gamma(run, i, counts)[equal])])


def gamma(run: Run, i: Positions, counts: Counts) -> Floats:
    """(4.19): much output for little input; infinite where nothing new comes in."""
    scales = run.scales
    extra = scales.extra[i]
    found = scales.rates[i] * scales.bytes_per_s[i] * counts.subscribers / np.maximum(extra, 1e-300)
    return np.where(extra > 0, found, np.inf)
