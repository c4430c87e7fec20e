"""The brokers of a decision as a tree, laid out so that sums over all of it are a few NumPy operations.

Brokers stand in *preorder* from a root (`roost.overlay.preorder`): a subtree in one piece, from its root's
position up to `end`. Then

- what is outside of a subtree is what stands before it and what stands behind it, so that ORs over the
  outsides of all subtrees are two running ORs;
- ORs over all subtrees are ORs over ranges, which come from ORs over ranges of 1, 2, 4, ... brokers;
- sums along the paths from the root to all brokers are one running sum, in which each broker's part is added
  at its position and taken back at its end.

None of this depends on how deep the tree is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roost.optimising.bitvector import Ints, Words
from roost.overlay.preorder import NotATreeError, preorder
from roost.relocation.statistics import Answer

Floats = NDArray[np.float64]
# A broker that takes longer than a day is not measured but broken.
DELAY_MAX_S = 1e5


class BadAnswersError(ValueError):
    """The answers do not describe a tree around the publisher's broker, so that nothing follows from them."""


@dataclass(frozen=True, eq=False)
class BrokerTree:
    """Brokers and the delays between them; position 0 is the root."""

    names: tuple[str, ...]
    end: Ints  # the position behind the subtree
    down_s: Floats  # from the parent to here; 0 for the root
    up_s: Floats  # from here to the parent; 0 for the root
    clients_s: Floats  # from here to clients here

    def __len__(self) -> int:
        return len(self.names)

    def inside(self, words: Words) -> Words:
        """Of each broker, the OR over its subtree."""
        sizes = self.end - np.arange(len(self))
        inside = words.copy()  # which is all that a leaf has
        ranges, width = words, 1  # ranges[i] is the OR over [i, i + width)
        while 2 * width <= len(self):
            ranges = ranges[:-width] | ranges[width:]
            width *= 2
            (these,) = np.nonzero((sizes >= width) & (sizes < 2 * width))
            inside[these] = ranges[these] | ranges[self.end[these] - width]
        return inside

    def outside(self, words: Words) -> Words:
        """Of each broker, the OR over all that is not in its subtree."""
        before = np.zeros((len(self) + 1, words.shape[1]), np.uint64)
        behind = before.copy()
        np.bitwise_or.accumulate(words, axis=0, out=before[1:])
        behind[:-1] = np.bitwise_or.accumulate(words[::-1], axis=0)[::-1]
        outside: Words = before[:-1] | behind[self.end]
        return outside

    def sums_inside(self, values: Ints) -> Ints:
        """Of each broker, the sum over its subtree."""
        before = np.zeros(len(self) + 1, np.int64)
        np.cumsum(values, out=before[1:])
        sums: Ints = before[self.end] - before[:-1]
        return sums

    def sums_on_path(self, values: Floats) -> Floats:
        """Of each broker, the sum over the path from the root to it, both included."""
        taken_back = np.bincount(self.end, weights=values, minlength=len(self) + 1)[:-1]
        sums: Floats = np.cumsum(values - taken_back)
        return sums


def tree_of(answers: Sequence[Answer], root: str) -> BrokerTree:
    """The tree that the answers form, seen from `root`.

    A neighbour that has not answered received nothing, and is left out. Whatever else does not fit (an answer
    that is missing in the middle, a link that only one end knows of, a cycle) means that the overlay changed
    while it was asked.
    """
    known = {answer.broker: answer for answer in answers}
    if len(known) != len(answers):
        raise BadAnswersError("a broker has answered twice")
    if root not in known:
        raise BadAnswersError(f"there is no answer of {root}")
    near = {
        answer.broker: {
            neighbour.broker: answer.to_s(neighbour)
            for neighbour in answer.neighbours
            if neighbour.broker in known
        }
        for answer in answers
    }
    try:
        names, parents, ends = preorder(near, root)
    except NotATreeError as fault:
        raise BadAnswersError(str(fault)) from None
    # Of the root this asks for the way to itself.
    links = [(name, names[parent]) for name, parent in zip(names, parents, strict=True)]
    tree = BrokerTree(
        names=tuple(names),
        end=np.array(ends, np.int64),
        down_s=np.array([near[parent].get(name, 0.0) for name, parent in links], np.float64),
        up_s=np.array([near[name].get(parent, 0.0) for name, parent in links], np.float64),
        clients_s=np.array([known[name].to_clients_s for name in names], np.float64),
    )
    for delays in (tree.down_s, tree.up_s, tree.clients_s):
        check_delays(tree.names, delays)
    return tree


def path_between(answers: Sequence[Answer], start: str, end: str) -> tuple[str, ...]:
    """The brokers from one to another, both included."""
    tree = tree_of(answers, start)
    place = tree.names.index(end)
    return tuple(tree.names[i] for i in np.nonzero(tree.end[: place + 1] > place)[0])


def check_delays(names: Sequence[str], delays_s: Floats) -> None:
    """Refuses what cannot have been measured."""
    wrong = ~((delays_s >= 0.0) & (delays_s <= DELAY_MAX_S))  # which NaN is, too
    if wrong.any():
        worst = int(wrong.argmax())
        raise BadAnswersError(f"a delay of {delays_s[worst]:g} s at {names[worst]}")
