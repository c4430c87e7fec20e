"""How the subscriptions of an offload cover each other, and what the accepting broker covers.

The offloading broker's subscriptions stand in a poset (`matching.Poset`): equivalent ones are one node, and
nodes without a parent are the covering subscription set (CSS). A node leaves when the last of its subscribers
has been chosen, and what only it covered joins the CSS. A subscription of which only some subscribers were
chosen is not considered again, but still attracts its publications, and covers what it covered.

A client that asks for more than one subscription can say stands apart: as if it covered nothing and nothing
covered it. It is offered more often than need be, and its card says what it is worth.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from roost.balancing.cards import SubscriptionLoad
from roost.language import Subscription, parse_subscription
from roost.language.filter import FILTERS_MAX
from roost.matching import Poset

Mask = NDArray[np.bool_]


def interest_of(load: SubscriptionLoad) -> Subscription | None:
    """What a client of it asks for, as one subscription: any of its filters will do. None: too many."""
    if len(load.interests) == 1:
        return load.interests[0]
    filters = [each for interest in load.interests for each in interest.filters]
    return Subscription(filters) if len(filters) <= FILTERS_MAX else None


def covered_by(css: Iterable[str], loads: Sequence[SubscriptionLoad]) -> Mask:
    """Of which of these a covering subscription set covers all that is asked for, part by part."""
    poset = Poset()
    for i, text in enumerate(css):
        poset.insert(i, parse_subscription(text))
    if not poset:
        return np.zeros(len(loads), np.bool_)
    return np.array([all(map(poset.covering, load.interests)) for load in loads], np.bool_)


class SubscriptionPoset:
    """The poset of a broker's subscriptions, kept from one offload to the next.

    To put thousands of subscriptions in their places takes longer than to choose among them. From one
    offload to the next most of them are the same.
    """

    def __init__(self) -> None:
        self._poset = Poset()
        self._ids: dict[Subscription, int] = {}
        self._next = 0

    def covering(self, loads: Sequence[SubscriptionLoad]) -> Covering:
        """How these cover each other."""
        wanted = [interest_of(load) for load in loads]
        there = dict.fromkeys(wanted)
        for gone in [each for each in self._ids if each not in there]:
            self._poset.remove(self._ids.pop(gone))
        for interest in there:
            if interest is not None and interest not in self._ids:
                self._poset.insert(self._next, interest)
                self._ids[interest] = self._next
                self._next += 1
        return Covering(self._poset, [None if each is None else self._ids[each] for each in wanted])


class Covering:
    """Which subscriptions cover which, as some of them leave. A subscription is its position."""

    def __init__(self, poset: Poset, ids: Sequence[int | None]) -> None:
        # Those that stand apart are nodes with numbers of their own.
        self._node = [
            -1 - i if id_ is None else poset.representative(id_) for i, id_ in enumerate(ids)
        ]
        self._peers: dict[int, list[int]] = {}
        for i, node in enumerate(self._node):
            self._peers.setdefault(node, []).append(i)
        self._left = {node: len(peers) for node, peers in self._peers.items()}
        self._children = {
            node: dict.fromkeys(poset.children(node) if node >= 0 else ()) for node in self._peers
        }
        self._parents: dict[int, dict[int, None]] = {node: {} for node in self._peers}
        for node, children in self._children.items():
            for child in children:
                self._parents[child][node] = None
        self.css: Mask = np.array([not self._parents[node] for node in self._node], np.bool_)

    def remove(self, subscription: int) -> None:
        """All its subscribers are gone: what only it covered joins the CSS."""
        node = self._node[subscription]
        self._left[node] -= 1
        if self._left[node]:
            return
        above, below = self._parents[node], self._children[node]
        for parent in above:
            del self._children[parent][node]
            self._children[parent].update(below)
        for child in below:
            parents = self._parents[child]
            del parents[node]
            parents.update(above)
            if not parents:
                self.css[self._peers[child]] = True

    def below(self, subscription: int) -> list[int]:
        """What it covers: its equals, itself included, and all descendants, in order."""
        reached = {self._node[subscription]: None}
        waiting = list(reached)
        while waiting:
            for child in self._children[waiting.pop()]:
                if child not in reached:
                    reached[child] = None
                    waiting.append(child)
        return sorted(i for node in reached for i in self._peers[node])
