"""A tree in preorder, from what each broker says of its neighbours, and why that may be no tree.

In *preorder* a broker stands before all that is below it, and its subtree in one piece, from its own position
up to its end. Children stand in the order of their names, so that the layout depends only on the tree and its
root.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from roost.overlay.trees import names_text


class NotATreeError(ValueError):
    """What the brokers say of their neighbours does not fit together to a tree."""


class Preorder(NamedTuple):
    """Brokers by their positions; 0 is the root."""

    names: list[str]
    parents: list[int]  # positions; the root is its own
    ends: list[int]  # the position behind the subtree


def preorder(near: Mapping[str, Collection[str]], root: str) -> Preorder:
    """All brokers of `near`, seen from `root`: the neighbours that each says it has."""
    names, parents = _walked(near, root)
    if len(names) != len(near):
        reached = set(names)
        missing = [name for name in near if name not in reached]
        raise NotATreeError(f"no links lead from {root} to {names_text(missing)}")
    ends = list(range(1, len(names) + 1))
    for position in range(len(names) - 1, 0, -1):
        parent = parents[position]
        ends[parent] = max(ends[parent], ends[position])
    return Preorder(names, parents, ends)


def _walked(near: Mapping[str, Collection[str]], root: str) -> tuple[list[str], list[int]]:
    names: list[str] = []
    parents: list[int] = []
    seen = {root}
    waiting = [(root, 0)]
    while waiting:
        name, parent = waiting.pop()
        position = len(names)
        came_from = names[parent] if position else None
        names.append(name)
        parents.append(parent)
        for other in sorted(near[name], reverse=True):
            if name not in near[other]:
                raise NotATreeError(f"{name} has the neighbour {other}, which does not know of it")
            if other == came_from:
                continue
            if other in seen:
                raise NotATreeError(f"the link {name} - {other} closes a cycle")
            seen.add(other)
            waiting.append((other, position))
    return names, parents
