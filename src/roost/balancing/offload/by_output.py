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

from roost.balancing.cards import ReportCard
from roost.balancing.estimation import Floats
from roost.balancing.indices import Action
from roost.balancing.offload.counting import output_counts
from roost.balancing.offload.run import BALANCED, EXHAUSTED, FULL, NO_GAIN, Run
from roost.balancing.offload.scales import Positions
from roost.balancing.offload.selection import EQUAL


def by_output(run: Run) -> str:
    """Choose, and say why it ended."""
    everything = np.ones(len(run.covered), np.bool_)
    if _phase_one(run, everything):
        return BALANCED
    while True:
        i = np.flatnonzero(run.scales.candidates & ~run.covered)
        if not len(i):
            return EXHAUSTED
        counts, differences = output_counts(run.scales, i, is_overloaded=run.is_overloaded)
        card = _phase_two_card(run, i, counts, differences)
        if card is None:
            return NO_GAIN if (counts >= 1).any() else FULL
        below = run.covering.below(card.subscription)
        fresh = np.zeros(len(everything), np.bool_)
        fresh[below] = ~run.covered[below]
        run.take(card)
        run.covered[below] = True
        if run.is_balanced(Action.OUTPUT) or _phase_one(run, fresh):
            return BALANCED


def _phase_one(run: Run, among: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> bool:
    """Take covered ones; whether the two are balanced then."""
    scales = run.scales
    while not run.is_balanced(Action.OUTPUT):
        i = np.flatnonzero(scales.candidates & run.covered & among)
        counts, differences = output_counts(scales, i, is_overloaded=run.is_overloaded)
        reducible = scales.reducible[i]
        whole = scales.lasts(i, counts)
        types = np.where(reducible > 0, np.where(whole, 1, 2), 3)
        for type_ in (1, 2, 3):
            of_type = types == type_
            card = run.pick(Action.OUTPUT, i[of_type], counts[of_type], differences[of_type])
            if card is not None:
                break
        else:
            return False
        run.take(card)
    return True


def _phase_two_card(
    run: Run, i: Positions, counts: Floats, differences: Floats
) -> ReportCard | None:
    """By figure 4.2 or 4.3, and of equal ones the highest gamma."""
    card = run.pick(Action.OUTPUT, i, counts, differences)
    if card is None:
        return None
    equal = np.flatnonzero((np.abs(differences - card.difference) <= EQUAL) & (counts >= 1))
    if len(equal) == 1:
        return card
    best = equal[int(np.argmax(gamma(run, i[equal], counts[equal])))]
    return run.card(int(i[best]), int(counts[best]), float(differences[best]))


def gamma(run: Run, i: Positions, counts: Floats) -> Floats:
    """(4.19); infinite where nothing new comes in."""
    scales = run.scales
    with np.errstate(divide="ignore", invalid="ignore"):
        found = scales.rates[i] * scales.bytes_per_s[i] * counts / scales.extra[i]
    return np.where(scales.extra[i] > 0, found, np.inf)
