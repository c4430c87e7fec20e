"""Where a broker that joins is linked: to whom, of those that are there. Pure; 003 leaves it to the future
("improving the formation of broker network by taking the locality of the broker into consideration").

All that the newcomer's clients publish and want passes its one link, so the nearest is best. Two things
stand against it:

    fan-out   what a broker sends on it sends to each neighbour. One that has as many as it may is passed over
    depth     where several are as near as can be told, the overlay had better stay shallow: the one from
              which the farthest broker is the fewest hops away, and then the one with the fewest neighbours

A time is told apart from another only if it is longer by more than `TIE` and by more than `NOISE_S`: on one
machine, or one switch, all are equally near, and the rest decides.

Where links follow the traffic (002), it meets at large brokers, and the others become their leaves. There a
newcomer that knows nobody but its contact is *referred* to the largest broker beside it that has room: a leaf
would have to relay for it until the link has moved. And the neighbours of one that leaves go to its *heir*,
which has to have room for all of them: one with twice as many as it may have takes nobody more until it has
got rid of these, one by one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import NamedTuple, TypeVar

from roost.errors import UserError

FANOUT_MAX = 8
TIE = 0.05
NOISE_S = 0.000_5

# What a broker is called, by name or by number.
Name = TypeVar("Name", int, str)


class Candidate(NamedTuple):
    """A broker that is there."""

    broker: str
    distance_s: float  # there and back, as the newcomer has measured it; inf: it does not answer
    neighbours: int
    hops: int  # to the broker that is farthest from it


class Placement(NamedTuple):
    """Whom the newcomer is linked to, and why; why not to the others, by their names."""

    broker: str
    why: str
    passed_over: Mapping[str, str]


def place(candidates: Sequence[Candidate], fanout_max: int = FANOUT_MAX) -> Placement:
    """The neighbour of a newcomer; UserError if nobody has room and answers."""
    if fanout_max < 1:
        raise UserError(f"brokers with up to {fanout_max} neighbours; expected 1 or more")
    passed_over = {c.broker: why for c in candidates if (why := _unfit(c, fanout_max))}
    fit = [c for c in candidates if c.broker not in passed_over]
    if not fit:
        reasons = "; ".join(f"{broker} {why}" for broker, why in passed_over.items())
        raise UserError(f"no broker can take one more: {reasons or 'there is none'}")
    nearest_s = min(c.distance_s for c in fit)
    near = [c for c in fit if _is_as_near(c.distance_s, nearest_s)]
    best = min(near, key=lambda c: (c.hops, c.neighbours, c.broker))
    for other in fit:
        if other not in near:
            passed_over[other.broker] = f"is farther away ({_ms(other.distance_s)})"
        elif other is not best:
            passed_over[other.broker] = (
                f"is as near, {other.hops} hops from the farthest, with {other.neighbours} neighbours"
            )
    why = f"{_ms(best.distance_s)} away, {best.hops} hops from the farthest"
    return Placement(best.broker, f"{why}, {best.neighbours} neighbours", passed_over)


def referred(neighbours: Mapping[Name, int], fanout_max: float = inf) -> Name:
    """Whom a newcomer is linked to, of its contact and that one's neighbours, which have so many neighbours.

    The contact has room, at least.
    """
    return _largest(neighbours, fanout_max - 1)


def heir_of(neighbours: Mapping[Name, int], fanout_max: float = inf) -> Name:
    """To whom the others go, of the neighbours of one that leaves, which have so many neighbours with it.

    If none has room for all, to the smallest.
    """
    smallest = min(neighbours.values())
    return _largest(neighbours, max(fanout_max - (len(neighbours) - 2), smallest))


def _largest(neighbours: Mapping[Name, int], most: float) -> Name:
    fit = [name for name, count in neighbours.items() if count <= most]
    return min(fit, key=lambda name: (-neighbours[name], name))


def _unfit(candidate: Candidate, fanout_max: int) -> str:
    """Why it can't be; "" if it can."""
    if candidate.distance_s == inf:
        return "does not answer"
    if candidate.neighbours >= fanout_max:
        return f"has {candidate.neighbours} neighbours already, of {fanout_max}"
    return ""


def _is_as_near(distance_s: float, nearest_s: float) -> bool:
    return distance_s <= max(nearest_s * (1 + TIE), nearest_s + NOISE_S)


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms"


def hops_to_farthest(links: Iterable[tuple[str, str]], brokers: Iterable[str]) -> dict[str, int]:
    """Of each broker, how many links it is to the one that is farthest from it; of any graph."""
    near: dict[str, set[str]] = {broker: set() for broker in brokers}
    for a, b in links:
        near.setdefault(a, set()).add(b)
        near.setdefault(b, set()).add(a)
    return {broker: _farthest(near, broker) for broker in near}


def _farthest(near: Mapping[str, Iterable[str]], start: str) -> int:
    hops = {start: 0}
    waiting = deque([start])
    while waiting:
        broker = waiting.popleft()
        for other in near[broker]:
            if other not in hops:
                hops[other] = hops[broker] + 1
                waiting.append(other)
    return max(hops.values())
