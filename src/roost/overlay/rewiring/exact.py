"""What a rewiring saves, exactly, by topic and by content: from messages by (source, set of destinations).

Take R = <N0, N1, N2> and a message at N0. Write [x] for 1 if it goes on to x, else 0, and [o] for 1 if it
goes on to any side but N1 and N2, L among them. Only three links matter: N0 - N1 before, N1 - N2 after, and
N0 - N2 both times; all others have the same brokers on either side as before.

    it comes from   messages before   messages after                       saved
    N1              1 + [N2]          1 (to N2) + [o] (N2 to N0)           [N2] - [o]
    N2              1 + [N1]          [N1] (to N1) + [o] (to N0)           1 - [o]
    any other       [N1] + [N2]       [N1 or N2] (to N2) + [N1] (to N1)    -[N1 and not N2]

In the third row [N1 or N2] is [N1] + [N2] - [N1][N2], which leaves -[N1] (1 - [N2]). A message that came and
goes nowhere (its subscriber has just left) counts for nothing: it would have come whichever way.

Summed over messages this falls into what belongs to the mover's link and what belongs to the pair. With

    to(x, y)     messages from x that go to y
    only(x, y)   those of them that go to y alone
    both(x, y)   messages from neither that go to x and to y
    m(x)         messages over the link to x, both ways

from N1: to(N1, N2) - (all from N1 - only(N1, N2)); from N2: only(N2, N1); from others: both(N1, N2) - (all
to N1 - to(N2, N1)). All from N1 and all to N1 are m(N1), so

    U(R) = together(N1, N2) - m(N1),
    together(x, y) = to(x, y) + to(y, x) + only(x, y) + only(y, x) + both(x, y)

and `together` is symmetric. So one table serves all pairs in both directions, and a broker moves if what it
shares with another neighbour, counted twice where nobody else wants it, is more than all that crosses its
link. The same way back has the opposite value, as it should.

**Delay.** What is delivered on one side of N0 and comes from another has its way through N0. With d(x, y)
the deliveries between x and y, either way, a delivery between N1 and N2 is one link shorter, and one between
N1 and any other side, L among them, one longer:

    D(R) = d(N1, N2) - rest,    rest = sum over sides o other than N2 of d(N1, o)      in links * deliveries

and with links of the lengths l01, l02 and l12

    D(R) = d(N1, N2) * (l01 + l02 - l12) - rest * (l12 + l02 - l01)

The gate of OCBR (`ocbr`) is about that, with messages instead of deliveries: gated, it descends in delay, and
gets less traffic by the way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roost.overlay.rewiring.counters import Kind
from roost.overlay.rewiring.theorem import Counts, Utilities, Weight


class Sums(NamedTuple):
    """What decisions use of the passages at a broker, by its neighbours' positions."""

    together: Counts  # of each pair
    link: Counts  # m: the messages over each link, both ways


def sums(neighbours: Sequence[str], kinds: Mapping[Kind, int]) -> Sums:
    """From the counters."""
    near = len(neighbours)
    position = {name: i for i, name in enumerate(neighbours)}
    kept = [(kind, count) for kind, count in kinds.items() if kind[1]]
    # The last column stands for all other sides together: whether it goes to any of them is all that matters.
    goes = np.zeros((len(kept), near + 1), np.int64)
    source = np.full(len(kept), near)
    weight = np.array([count for _, count in kept], np.int64)
    for row, ((origin, destinations), _) in enumerate(kept):
        source[row] = position.get(origin, near)
        for destination in sorted(destinations):
            goes[row, position.get(destination, near)] = 1
    return table_sums(goes, source, weight)


def table_sums(goes: Counts, source: Counts, weight: Counts) -> Sums:
    """From rows of messages alike: where they go, where they come from, and how many they are.

    The last column of `goes` is any other side than neighbours, and so is that position as a `source`.
    """
    near = goes.shape[1] - 1
    from_near = source < near
    begun, gone, times = source[from_near], goes[from_near], weight[from_near]
    alone = (gone.sum(1) == 1)[:, None]
    to = np.zeros((near, near), np.int64)
    np.add.at(to, begun, (gone * (1 + alone) * times[:, None])[:, :near])
    both = goes[:, :near].T @ (goes[:, :near] * weight[:, None])
    link = np.bincount(begun, times, near).astype(np.int64) + both.diagonal()
    together = to + to.T + both
    np.fill_diagonal(together, 0)
    return Sums(together, link)


def saved(found: Sums) -> Counts:
    """U(R) of all ordered pairs: row the mover, column the anchor. The diagonal means nothing and is 0."""
    values: Counts = found.together - found.link[:, None]
    np.fill_diagonal(values, 0)
    return values


# --- delay ------------------------------------------------------------------------------------------


def between(neighbours: Sequence[str], deliveries: Mapping[tuple[str, str], int]) -> Counts:
    """d(x, y): deliveries between sides, either way. The last row and column are all other sides."""
    near = len(neighbours)
    position = {name: i for i, name in enumerate(neighbours)}
    found = np.zeros((near + 1, near + 1), np.int64)
    for (source, destination), count in deliveries.items():
        found[position.get(source, near), position.get(destination, near)] += count
    found = found + found.T
    # What stays among the others is nobody's business; a neighbour gets nothing of its own back.
    np.fill_diagonal(found, 0)
    return found


def links_saved(found: Counts) -> Counts:
    """D(R) of all ordered pairs, in links times deliveries, from d."""
    near = len(found) - 1
    values: Counts = 2 * found[:near, :near] - found[:near].sum(1)[:, None]
    np.fill_diagonal(values, 0)
    return values


def time_saved(
    middle: str, neighbours: Sequence[str], found: NDArray[np.int64], length: Weight
) -> Utilities:
    """D(R) of all ordered pairs, in the unit of `length` (seconds, say), from d and the lengths of links."""
    near = len(neighbours)
    to = np.array([length(middle, name) for name in neighbours])
    across = np.array(
        [[length(a, b) if a != b else 0.0 for b in neighbours] for a in neighbours]
    ).reshape(near, near)
    pair = found[:near, :near]
    rest = found[:near].sum(1)[:, None] - pair
    values: Utilities = pair * (to[:, None] + to - across) - rest * (across + to - to[:, None])
    np.fill_diagonal(values, 0.0)
    return values
