"""The match offload (001 section 4.2.2, figures 4.5 to 4.7).

Matching gets faster with fewer subscriptions, whichever they are; so those go whose traffic is the least, and
input and output stay about as they are. The *extra traffic* of a subscription is what one of its subscribers
gets, and what of this would be new to the accepting broker. Not overloaded, it ends when the two matching
delays are balanced. An overloaded broker goes on until its processor, memory and input are below the lower
threshold, however fast its matching has become; as printed, figure 4.6 moves one subscriber of each
subscription even then (`Rules.match_stop`).

The same choice can balance the input ratio (`Action.INPUT`): what comes in takes less time to be matched with
fewer subscriptions, and whoever gets little takes no output along.

As extra traffic changes only when the accepting broker gets publications that are new to it, the cards are
put in order at most once a sample, and then taken one after the other.
"""

from __future__ import annotations

import numpy as np

from roost.balancing.indices import Action
from roost.balancing.offload.counting import EQUAL, Counts
from roost.balancing.offload.run import BALANCED, EXHAUSTED, FULL, NO_GAIN, RELIEVED, Run
from roost.balancing.offload.scales import Positions

TOGETHER_MAX = 1_024


def by_match(run: Run, action: Action = Action.MATCH) -> str:
    """Choose, and say why it ended. The index that is balanced is that of the action."""
    while True:
        ended = _in_order(run, _least_traffic_first(run), action)
        if ended:
            return ended


def _least_traffic_first(run: Run) -> Positions:
    scales = run.scales
    i = np.flatnonzero(scales.candidates)
    run.considered += len(i)
    extra = scales.extra[i]
    return i[np.lexsort((i, extra, scales.rates[i] + extra))]


def _in_order(run: Run, order: Positions, action: Action) -> str:
    """Take one after the other, until it is enough, or until the order is another ("").

    Where one that can go follows another they are looked at one by one, and where none can, many at once.
    """
    why, at, together = EXHAUSTED, 0, 1
    while at < len(order):
        ended = _ended(run, action)
        if ended:
            return ended
        i = order[at : at + together]
        counts = _counts(run, i, action)
        able = counts.subscribers >= 1
        nearer = np.abs(counts.differences) < abs(run.scales.difference(action)) - EQUAL
        found = np.flatnonzero(able & nearer if not run.is_overloaded else able)
        if not len(found):
            why = NO_GAIN if able[-1] else FULL
            at, together = at + len(i), min(2 * together, TOGETHER_MAX)
            continue
        k = int(found[0])
        come = run.scales.extra[i[k]] > 0
        run.take(i, k, counts)
        if come:
            return ""
        at, together = at + k + 1, 1
    return _ended(run, action) or why


def _counts(run: Run, i: Positions, action: Action) -> Counts:
    if run.is_overloaded:
        return run.steps.by_relief(i)
    return run.steps.by_input(i) if action is Action.INPUT else run.steps.by_match(i)


def _ended(run: Run, action: Action) -> str:
    if not run.is_overloaded:
        return BALANCED if run.is_balanced(action) else ""
    if run.config.rules.match_stop == "never":
        return ""
    now, low = run.scales.own.indices(), run.config.overload_low
    return RELIEVED if max(now.cpu_ratio, now.memory_ratio, now.input_ratio) < low else ""
