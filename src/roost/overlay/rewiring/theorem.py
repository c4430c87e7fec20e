"""002's theorem 1 and its utility U(R): how many messages a rewiring saves, from the counters of its middle.

Of R = <N0, N1, N2>, N0 the middle, N1 the mover, N2 the anchor: with `input` and `output` the sums over all
other sides, L among them, the counters of a subscription s will be

    N2 <- N1     m[N0<-N1]                                                          (1)
    N2 -> N1     m[N0->N1]                                                          (2)
    N0 <- N2     m[N0<-N1] + m[N0<-N2]   if output > 0, else 0                      (3)
    N0 -> N2     input                   if m[N0->N1] > 0 or m[N0->N2] > 0, else 0  (4)
    input, output                        as they are                                (5, 6)

No other link has another set of brokers on either side, so nothing else changes. With (7) and (8)

    U(R) = sum over s of m[N0<-N2] + m[N0->N2] - m^[N0<-N2] - m^[N0->N2]            (9)

as pre - post has it; printed, (9) has the opposite sign. The proof of (3) says of output = 0 that neither N1
nor N2 are subscribed; what it means is that nobody but them is: neither L nor another neighbour received any
of s.

By topic a message matches one subscription, and U(R) is the number of messages saved, exactly. By content it
counts for each that it matches, and (3) and (4) take for granted that whoever wants one message of s wants
all: the value is an indicator (section 5), and may have the wrong sign.

**Weights** (section 5.2): a message over the link x - y costs w(x, y): one over its capacity, its latency, or
its price. All that crosses N0 - N1 will cross N1 - N2, and what is saved is saved on N0 - N2:

    U_w(R) = (w(N0, N1) - w(N1, N2)) * (messages over N0 - N1) + w(N0, N2) * U(R)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roost.overlay.rewiring.counters import BySubscription, Rewiring

Counts = NDArray[np.int64]
Utilities = NDArray[np.float64]
# What a message over the link between two brokers costs.
Weight = Callable[[str, str], float]


class Predicted(NamedTuple):
    """The counters of a subscription after a rewiring, relations (1) to (6)."""

    mover_to_anchor: int
    anchor_to_mover: int
    anchor_to_middle: int
    middle_to_anchor: int
    input: int
    output: int


def predicted(
    incoming: BySubscription, outgoing: BySubscription, rewiring: Rewiring
) -> dict[str, Predicted]:
    """Theorem 1, subscription by subscription, from the counters of the middle."""
    _, mover, anchor = rewiring
    found = {}
    for subscription in subscriptions_of(incoming, outgoing):
        come, gone = (
            {side: counts.get(subscription, 0) for side, counts in counters.items()}
            for counters in (incoming, outgoing)
        )
        from_mover, from_anchor = come.get(mover, 0), come.get(anchor, 0)
        to_mover, to_anchor = gone.get(mover, 0), gone.get(anchor, 0)
        others_in = sum(come.values()) - from_mover - from_anchor
        others_out = sum(gone.values()) - to_mover - to_anchor
        found[subscription] = Predicted(
            from_mover,
            to_mover,
            from_mover + from_anchor if others_out else 0,
            others_in if to_mover or to_anchor else 0,
            others_in,
            others_out,
        )
    return found


def utility(incoming: BySubscription, outgoing: BySubscription, rewiring: Rewiring) -> int:
    """U(R), as (9) should have it."""
    saved = 0
    for subscription, after in predicted(incoming, outgoing, rewiring).items():
        for counters in (incoming, outgoing):
            saved += counters.get(rewiring.anchor, {}).get(subscription, 0)
        saved -= after.anchor_to_middle + after.middle_to_anchor
    return saved


def utilities(
    neighbours: Sequence[str], incoming: BySubscription, outgoing: BySubscription
) -> Counts:
    """U(R) of all ordered pairs: row the mover, column the anchor, as `neighbours` has them."""
    names = {s: i for i, s in enumerate(subscriptions_of(incoming, outgoing))}
    others = sorted((incoming.keys() | outgoing.keys()) - set(neighbours))
    come, gone = (
        _table([*neighbours, *others], names, counters) for counters in (incoming, outgoing)
    )
    return table_utilities(come, gone, len(neighbours))


def link_messages(
    neighbours: Sequence[str], incoming: BySubscription, outgoing: BySubscription
) -> Counts:
    """What passed over the link to each neighbour, both ways, as the counters count it."""
    counts = [
        sum(counters.get(name, {}).values())
        for name in neighbours
        for counters in (incoming, outgoing)
    ]
    found: Counts = np.array(counts, np.int64).reshape(-1, 2).sum(1)
    return found


def weighted(
    middle: str,
    neighbours: Sequence[str],
    values: NDArray[np.int64],
    messages: Counts,
    weight: Weight,
) -> Utilities:
    """U_w(R) of all ordered pairs, from U(R) and the messages over each link (section 5.2)."""
    to = np.array([weight(middle, name) for name in neighbours])
    between = np.array(
        [[weight(a, b) if a != b else 0.0 for b in neighbours] for a in neighbours]
    ).reshape(values.shape)
    found: Utilities = (to[:, None] - between) * messages[:, None] + to[None, :] * values
    return found


def subscriptions_of(incoming: BySubscription, outgoing: BySubscription) -> list[str]:
    """All that were counted, in order."""
    counted = [*incoming.values(), *outgoing.values()]
    return sorted({subscription for counters in counted for subscription in counters})


def _table(sides: Sequence[str], names: Mapping[str, int], counters: BySubscription) -> Counts:
    found = np.zeros((len(sides), len(names)), np.int64)
    for row, side in enumerate(sides):
        for subscription, count in counters.get(side, {}).items():
            found[row, names[subscription]] = count
    return found


def table_utilities(come: Counts, gone: Counts, neighbours: int) -> Counts:
    """U(R) from tables of sides by subscriptions; sides beyond the first `neighbours` are others (L).

    Equal to `utility` for each pair. A pair of a neighbour with itself means nothing; its value is 0.
    """
    all_in, all_out = come.sum(0), gone.sum(0)
    near_in, near_out = come[:neighbours], gone[:neighbours]
    before = (near_in + near_out).sum(1)
    found = np.empty((neighbours, neighbours), np.int64)
    for mover in range(neighbours):
        both_in, both_out = near_in + near_in[mover], near_out + near_out[mover]
        heard = np.where(all_out - both_out > 0, both_in, 0)
        told = np.where(both_out > 0, all_in - both_in, 0)
        found[mover] = before - heard.sum(1) - told.sum(1)
    np.fill_diagonal(found, 0)
    return found
