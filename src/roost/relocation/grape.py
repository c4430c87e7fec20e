"""GRAPE's decision: to which broker a publisher should move (000 section 4.2).

For every candidate two predictions, from the statistics of one trace session:

- *delay*, the average from publishing to delivery over all deliveries of the session: half of the round
  trip between publisher and candidate, then queues, matching and links on the path to each subscriber's
  broker;
- *load*, the messages that all brokers together receive a second: each broker receives the publications
  that are delivered at it or behind it, the OR of their bit vectors.

`literal` has the paper's algorithms, which walk the tree once a candidate. Here all candidates come from
two passes. Seen from a root, only the link between a broker and its parent changes direction when the
publisher moves from the parent to the broker. With n deliveries inside of the broker's subtree and m
outside, and the publications I delivered inside and O outside,

    total delay at the broker = total delay at its parent - n * (delay down) + m * (delay up)
    messages at the broker    = messages at its parent - |I| + |O|

since the broker receives I from its parent now, and the parent O from the broker then. Both are sums along
the path from the root (see `tree`).

Whoever has answered is a candidate, with subscribers or without: the best place may be a broker that only
relays. The delays of brokers are taken as they were measured, although they change with the load.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

import numpy as np

from roost.optimising.bitvector import Ints, counts, words_of
from roost.optimising.goal import Goal
from roost.optimising.room import without_room
from roost.relocation.choosing import Choice, choose
from roost.relocation.statistics import Answer, Trace
from roost.relocation.tree import BadAnswersError, BrokerTree, Floats, check_delays, tree_of


def total_delays(tree: BrokerTree, deliveries: Ints) -> Floats:
    """With the publisher at each broker: the sum over all deliveries, from that broker to the client."""
    inside = tree.sums_inside(deliveries)
    outside = inside[0] - inside
    changes = outside * tree.up_s - inside * tree.down_s
    # At the root: each link takes its time for all that is delivered behind it.
    changes[0] = inside @ tree.down_s + deliveries @ tree.clients_s
    return tree.sums_on_path(changes)


def messages(tree: BrokerTree, inside: Ints, outside: Ints) -> Ints:
    """With the publisher at each broker: what all brokers receive in a session.

    `inside` is how many publications are delivered in the subtree of a broker, `outside` elsewhere.
    """
    changes = outside - inside
    changes[0] = inside.sum()
    return np.rint(tree.sums_on_path(changes.astype(np.float64))).astype(np.int64)


def choose_broker(
    answers: Sequence[Answer],
    present: str,
    trace: Trace,
    goal: Goal,
    pings_s: Mapping[str, float] | None = None,
    utilisation_max: float = inf,
    barred: Mapping[str, str] | None = None,
) -> Choice:
    """Where the publisher that is at `present` should be.

    `pings_s` are round trips between the publisher and brokers. None: it has not been asked, and they are
    taken for equal. A broker that it has no time for is no candidate: it may not be able to reach it. Nor is
    one that would be busier than `utilisation_max`, or that is `barred`, with its reason.
    """
    tree = tree_of(answers, present)
    by_name = {answer.broker: answer for answer in answers}
    ordered = [by_name[name] for name in tree.names]
    try:
        words = words_of([answer.bits for answer in ordered], trace.publications)
    except ValueError as bad:
        raise BadAnswersError(str(bad)) from None
    deliveries = np.array([answer.deliveries for answer in ordered], np.int64)
    if deliveries.min() < 0:
        raise BadAnswersError("a negative number of deliveries")
    delivered = int(deliveries.sum())
    delays: Floats = total_delays(tree, deliveries) / max(delivered, 1)
    inside, outside = counts(tree.inside(words)), counts(tree.outside(words))
    # With the publisher there, a broker receives all of it, and sends out what is delivered elsewhere.
    more_in, more_out = (trace.publications - inside).astype(float), outside.astype(float)
    full = without_room(ordered, more_in * trace.per_s, more_out * trace.per_s, utilisation_max)
    reaching, unreachable = reaching_s(tree.names, present, pings_s)
    return choose(
        goal,
        tree.names,
        0,
        delays + reaching,
        messages(tree, inside, outside).astype(np.float64) * trace.per_s,
        deliveries_per_s=delivered * trace.per_s,
        excluded=full | unreachable | barred_places(tree.names, barred),
    )


def barred_places(names: Sequence[str], barred: Mapping[str, str] | None) -> dict[int, str]:
    """The positions of brokers that somebody has ruled out; the first is where the client is."""
    return {i: barred[name] for i, name in enumerate(names) if i and barred and name in barred}


def reaching_s(
    names: Sequence[str], present: str, pings_s: Mapping[str, float] | None
) -> tuple[Floats, dict[int, str]]:
    """The times between a client and brokers, one way, and the brokers that it has none for."""
    if pings_s is None:
        return np.zeros(len(names)), {}
    if present not in pings_s:
        raise BadAnswersError(f"no round trip to {present}, where the client is")
    excluded = {
        position: "the client has no round trip to it"
        for position, name in enumerate(names)
        if name not in pings_s
    }
    times = np.array([pings_s.get(name, 0.0) / 2 for name in names], np.float64)
    check_delays(names, times)
    return times, excluded
