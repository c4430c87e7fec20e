"""What brokers compute of all pairs of their neighbours, compiled.

Most brokers of a tree have two or three neighbours: to call NumPy takes longer than what it is called for. A
few have hundreds, and NumPy goes over their pairs again and again, with a table for each step. So these are
loops here, which go over the pairs once:

    link_messages     what crosses the link to each neighbour
    sums, savings     what a rewiring saves, of messages and of links (`exact`), from what is behind each side
    passing           what comes from each side and goes to it
    utilities         002's U(R) from that (`theorem`)
    best_places       the best of what is allowed (`choosing`)

Tables are those of `flows.Sides`: rows are sides, the last one is L, columns are kinds. They hold whole
numbers (on its way `sums` has halves), so that it does not matter in which order they are added: results are
equal to those of the modules named above, to the digit.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from roost.matching.kernels.jit import kernel
from roost.overlay.rewiring.choosing import Values
from roost.overlay.rewiring.demand import Amounts
from roost.overlay.rewiring.theorem import Counts

Flags = NDArray[np.bool_]


@kernel
def either_way(one: Amounts, other: Amounts, sides: int) -> Counts:
    """one(x) * other(y) + one(y) * other(x), summed over kinds, of all pairs of the first sides."""
    kinds = one.shape[1]
    # Kinds by sides: the innermost loop goes over what is next to each other.
    ones, others = np.empty((kinds, sides)), np.empty((kinds, sides))
    for side in range(sides):
        for kind in range(kinds):
            ones[kind, side], others[kind, side] = one[side, kind], other[side, kind]
    found = np.zeros((sides, sides), np.int64)
    row = np.empty(sides)
    for x in range(sides):
        row[:] = 0
        for kind in range(kinds):
            mine, wish = one[x, kind], other[x, kind]
            if mine != 0 or wish != 0:
                for y in range(sides):
                    row[y] += mine * others[kind, y] + wish * ones[kind, y]
        for y in range(sides):
            if y != x:
                found[x, y] = np.int64(row[y])
    return found


@kernel
def _totals(published: Amounts, wanted: Amounts) -> tuple[Amounts, Amounts]:
    """Of each kind all that is published, and the sides that want it."""
    sides, kinds = published.shape
    everything, wanting = np.zeros(kinds), np.zeros(kinds)
    for side in range(sides):
        for kind in range(kinds):
            everything[kind] += published[side, kind]
            wanting[kind] += wanted[side, kind] > 0
    return everything, wanting


@kernel
def link_messages(published: Amounts, wanted: Amounts) -> Counts:
    """Messages over the link to each neighbour, both ways."""
    sides, kinds = published.shape
    everything, wanting = _totals(published, wanted)
    found = np.zeros(sides - 1, np.int64)
    for x in range(sides - 1):
        crossing = 0.0
        for kind in range(kinds):
            here, behind = published[x, kind], 1.0 if wanted[x, kind] > 0 else 0.0
            crossing += (everything[kind] - here) * behind
            if wanting[kind] > behind:
                crossing += here
        found[x] = np.int64(crossing)
    return found


@kernel
def sums(published: Amounts, wanted: Amounts) -> tuple[Counts, Counts]:
    """`together` of all pairs of neighbours, and the messages over the link to each.

    All of `together` is a sum over kinds of something of one side times [it goes to the other]: `to` and
    `only` as they are, `both` as half of what is published but behind the one, from either.
    """
    sides, kinds = published.shape
    everything, wanting = _totals(published, wanted)
    share, wants = np.empty((sides, kinds)), np.empty((sides, kinds))
    for x in range(sides - 1):
        for kind in range(kinds):
            here, behind = published[x, kind], 1.0 if wanted[x, kind] > 0 else 0.0
            others = wanting[kind] - behind  # sides that it goes to, if it comes from this one
            wants[x, kind] = behind
            share[x, kind] = behind * (everything[kind] / 2 - here)
            share[x, kind] += 2 * here if others == 1 else here
    return either_way(share, wants, sides - 1), link_messages(published, wanted)


@kernel
def savings(published: Amounts, wanted: Amounts) -> tuple[Counts, Counts, Counts, int]:
    """U(R) and D(R) of all ordered pairs, the messages over each link, and those that are only relayed."""
    kinds, near = published.shape[1], len(published) - 1
    everything, wanting = _totals(published, wanted)
    clients = np.zeros(kinds)
    for side in range(near + 1):
        clients += wanted[side]
    saved, link = sums(published, wanted)
    shorter = either_way(published, wanted, near)
    relayed = 0.0
    for x in range(near):
        through = 0.0  # deliveries between this side and all others, L among them
        for kind in range(kinds):
            here, there = published[x, kind], wanted[x, kind]
            through += here * (clients[kind] - there) + there * (everything[kind] - here)
            if wanted[near, kind] == 0 and wanting[kind] > (there > 0):
                relayed += here
        for y in range(near):
            if y != x:
                saved[x, y] -= link[x]
                shorter[x, y] = 2 * shorter[x, y] - np.int64(through)
    return saved, shorter, link, int(relayed)


@kernel
def passing(published: Amounts, wanted: Amounts) -> tuple[Amounts, Amounts]:
    """Messages by kind that come from each side, and that go to each."""
    sides, kinds = published.shape
    everything, wanting = _totals(published, wanted)
    come, gone = np.zeros((sides, kinds)), np.zeros((sides, kinds))
    for side in range(sides):
        here = (
            side == sides - 1
        )  # what clients here publish passes, if only they want it, and comes back
        for kind in range(kinds):
            wants = wanted[side, kind] > 0
            if wanting[kind] > (wants and not here):
                come[side, kind] = published[side, kind]
            if wants:
                gone[side, kind] = everything[kind] - (0.0 if here else published[side, kind])
    return come, gone


@kernel
def utilities(come: Counts, gone: Counts) -> Counts:
    """002's U(R) of all ordered pairs, from tables of sides by subscriptions.

    After the rewiring, what crosses the link of middle and anchor is the same whichever of two moves.
    """
    near, subscriptions = len(come) - 1, come.shape[1]
    all_in, all_out = np.zeros(subscriptions, np.int64), np.zeros(subscriptions, np.int64)
    before = np.zeros(near, np.int64)
    for side in range(near + 1):
        all_in += come[side]
        all_out += gone[side]
        if side < near:
            before[side] = come[side].sum() + gone[side].sum()
    found = np.zeros((near, near), np.int64)
    for x in range(near):
        for y in range(x):
            after = 0
            for s in range(subscriptions):
                both_in, both_out = come[x, s] + come[y, s], gone[x, s] + gone[y, s]
                after += both_in if all_out[s] > both_out else 0
                after += all_in[s] - both_in if both_out > 0 else 0
            found[x, y], found[y, x] = before[y] - after, before[x] - after
    return found


@kernel
def best_places(
    values: Values,
    second: Values,
    barred: Flags,
    may_move: Flags,
    may_anchor: Flags,
) -> Counts:
    """Where the best pairs are, row by row; of equal values those with the greatest second one.

    `second` and `barred` may be empty.
    """
    near = len(values)
    found = np.empty(near * near, np.int64)
    count = 0
    best, best_second = values[0, 0], 0
    for mover in range(near):
        if not may_move[mover]:
            continue
        for anchor in range(near):
            value = values[mover, anchor]
            if count and value < best:
                continue
            if anchor == mover or not may_anchor[anchor]:
                continue
            if barred.size and barred[mover, anchor]:
                continue
            more = second[mover, anchor] if second.size else 0
            if count and value == best and more < best_second:
                continue
            if value > best or more > best_second:
                count = 0
            best, best_second = value, more
            found[count] = mover * near + anchor
            count += 1
    return found[:count]
