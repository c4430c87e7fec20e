"""GRAPE for subscribers: where a group of subscribers should be, given its publishers (000 section 6).

The paper leaves this to the future. A group is one subscriber, or several at one broker with the same
filter, who move together. The estimates are those of `grape`, with the publishers where they are and the
group at each candidate:

- *delay*, the average over what the group is delivered, from its publishers' brokers to the candidate and
  on to the client, and half of the round trip between client and candidate;
- *load*, the messages that all brokers receive a second from these publishers. A broker on the path from a
  publisher to the candidate receives what it would without the group, and of what the group wants the rest:
  w AND NOT i, where w are the bits of the group and i those of all others at and behind that broker, as
  seen from the publisher.

A subscriber draws traffic to its broker, so a broker is a candidate only if its input and output
utilisation stay below a limit with the group there. To stay is always possible. Brokers that would only
relay are not held to the limit: what each of them receives more depends on the candidate, and to follow
that for all would cost O(N^2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from roost.optimising.bitvector import counts, words_of
from roost.optimising.goal import Goal
from roost.optimising.room import UTILISATION_MAX, without_room
from roost.relocation.choosing import Choice, choose
from roost.relocation.grape import barred_places, reaching_s
from roost.relocation.statistics import Answer, Trace
from roost.relocation.tree import BadAnswersError, BrokerTree, Floats, tree_of


class Source(Struct, frozen=True):
    """A publisher that the group hears of, as a trace session of it has shown."""

    broker: str  # where it publishes
    trace: Trace
    # Which publications were delivered at each broker to others than the group; none where it is missing.
    others: Mapping[str, bytes]
    wanted: bytes  # which publications were delivered to the group
    deliveries: int  # to the members of the group, one a member and publication


class _Effect(Struct, frozen=True):
    """What a source means for each candidate, a second."""

    delay_s: Floats  # summed over the deliveries
    load: Floats
    input: Floats  # more messages than now, at the candidate
    output: Floats


def choose_broker_for_group(
    answers: Sequence[Answer],
    present: str,
    sources: Sequence[Source],
    goal: Goal,
    pings_s: Mapping[str, float] | None = None,
    utilisation_max: float = UTILISATION_MAX,
    barred: Mapping[str, str] | None = None,
) -> Choice:
    """Where the group that is at `present` should be.

    There is one answer a broker, and they form one tree; what they say of deliveries is not used, as that
    differs by publisher. `pings_s` are average round trips between the group and brokers, as for
    `grape.choose_broker`, and so are those that are `barred`.
    """
    tree = tree_of(answers, present)
    positions = {name: position for position, name in enumerate(tree.names)}
    sums = np.zeros((4, len(tree)))
    for source in sources:
        seen = tree_of(answers, source.broker)
        effect = _effect(seen, source, present)
        order = [positions[name] for name in seen.names]
        sums[:, order] += (effect.delay_s, effect.load, effect.input, effect.output)
    delays, loads, inputs, outputs = sums
    deliveries_per_s = sum(source.deliveries * source.trace.per_s for source in sources)
    if deliveries_per_s:
        delays /= deliveries_per_s
    reaching, unreachable = reaching_s(tree.names, present, pings_s)
    by_name = {answer.broker: answer for answer in answers}
    full = without_room([by_name[name] for name in tree.names], inputs, outputs, utilisation_max)
    return choose(
        goal,
        tree.names,
        0,
        delays + reaching,
        loads,
        deliveries_per_s=deliveries_per_s,
        excluded=full | unreachable | barred_places(tree.names, barred),
    )


def _effect(tree: BrokerTree, source: Source, present: str) -> _Effect:
    """As seen from the source's broker, in the order of that tree."""
    bits = source.trace.publications
    try:
        words = words_of([source.others.get(name, b"") for name in tree.names], bits)
        (wanted,) = words_of([source.wanted], bits)
    except ValueError as bad:
        raise BadAnswersError(str(bad)) from None
    inside = tree.inside(words)
    more = counts(wanted & ~inside).astype(np.float64)
    paths = tree.sums_on_path(tree.down_s) + tree.clients_s
    here = tree.names.index(present)
    (on_way,) = np.nonzero(tree.end[: here + 1] > here)  # from the source to the group
    arriving = more.copy()
    arriving[on_way] = 0.0  # they receive it already
    leaving = np.full(len(tree), float(source.deliveries))
    # They pass it on now, and would not have to any more.
    leaving[on_way[:-1]] -= more[on_way[1:]]
    per_s = source.trace.per_s
    return _Effect(
        delay_s=paths * source.deliveries * per_s,
        load=(tree.sums_on_path(more) + counts(inside).sum()) * per_s,
        input=arriving * per_s,
        output=leaving * per_s,
    )
