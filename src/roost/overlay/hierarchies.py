"""Hierarchies of brokers, whose topmost are peers: 003's cluster topology (section IV.A).

A broker has a *super*, the controller of its unit, or is at the top and a peer of all others there. 003 has
up to four ranks: brokers, and controllers of clusters, super-clusters and super-super-clusters; a controller
is a broker like any other.
"""

from __future__ import annotations

import re
from itertools import combinations
from random import Random
from typing import NamedTuple

from roost.errors import UserError
from roost.overlay.trees import BROKERS_MAX, Link


class Hierarchy(NamedTuple):
    """Brokers; of a link `a` is the super of `b`; of `peers` neither is."""

    brokers: tuple[str, ...]
    links: tuple[Link, ...]
    peers: tuple[Link, ...]


def clusters(tops: int, *fanouts: int) -> Hierarchy:
    """So many at the top; each has so many below it, each of those so many, and so on.

    They are called B0, B1, ..., rank by rank.
    """
    if tops < 1 or any(fanout < 1 for fanout in fanouts):
        below = ", ".join(map(str, fanouts))
        raise UserError(f"{tops} at the top, with {below} below; expected 1 or more of each")
    supers: list[int | None] = [None] * tops
    rank = range(tops)
    for fanout in fanouts:
        first = len(supers)
        supers += [broker for broker in rank for _ in range(fanout)]
        rank = range(first, len(supers))
        if len(supers) > BROKERS_MAX:
            raise UserError(f"more than {BROKERS_MAX:,} brokers; expected fewer")
    return _hierarchy(supers)


FORM = "cluster:2x3x4 (2 at the top, 3 below each, 4 below each of those)"
_is_form = re.compile(r"cluster:[0-9]{1,6}(x[0-9]{1,6})*", re.ASCII).fullmatch


def parse_hierarchy(text: str) -> Hierarchy:
    """What a short text asks for: `cluster:2x3x4` has 2 at the top, 3 below each, 4 below each of those."""
    if not _is_form(text):
        raise UserError(f"{text!r} does not read as {FORM}")
    return clusters(*map(int, text.removeprefix("cluster:").split("x")))


def random_hierarchy(n: int, seed: int, *, ranks_max: int = 4) -> Hierarchy:
    """A few at the top, the others below one that has a rank to spare, drawn at random."""
    random = Random(seed)
    tops = random.randint(1, min(4, n))
    supers: list[int | None] = [None] * tops
    rank = [1] * tops
    for _ in range(tops, n):
        broker = random.choice([i for i, its in enumerate(rank) if its < ranks_max])
        supers.append(broker)
        rank.append(rank[broker] + 1)
    return _hierarchy(supers)


def _hierarchy(supers: list[int | None]) -> Hierarchy:
    names = tuple(f"B{i}" for i in range(len(supers)))
    tops = [names[i] for i, broker in enumerate(supers) if broker is None]
    return Hierarchy(
        names,
        tuple(Link(names[s], names[i]) for i, s in enumerate(supers) if s is not None),
        tuple(Link(a, b) for a, b in combinations(tops, 2)),
    )
