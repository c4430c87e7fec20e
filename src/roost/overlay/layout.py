"""Where the brokers of a tree stand in a picture: rank by rank, or on rings around the middle."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from roost.overlay.trees import Rooted

RANK_MIN, RANK_COMFORT = 64.0, 110.0
# Between a box and a link that passes it.
CLEARANCE = 5.0
# How far apart the outer rings may be, with the innermost at 1: a hub in the middle needs a wide first
# ring, which the others need not repeat. Even rings look better, so it has to make a difference.
TAPER, WORTH_IT = 0.5, 0.9


class Point(NamedTuple):
    """A place; y grows downwards."""

    x: float
    y: float


# --- ranks ----------------------------------------------------------------------------------------


def layered(tree: Rooted, slot: float, width: float, height: float) -> dict[str, Point]:
    """The root on top: every leaf has a slot of its own, and parents stand above their children.

    No link passes over the box, of this width and height, of another broker.
    """
    children = {broker: _leaves_inside(tree, broker) for broker in tree.order}
    x = _columns(tree.root, children, slot)
    ranks = [0.0] * (max(tree.depth.values()) + 1)
    for broker, below in children.items():
        if below:
            rank = tree.depth[broker] + 1
            places = [x[child] - x[broker] for child in below]
            ranks[rank] = max(ranks[rank], _rank_height(places, width, height))
    y = list(accumulate(ranks))
    return {broker: Point(x[broker], y[tree.depth[broker]]) for broker in tree.order}


def _leaves_inside(tree: Rooted, broker: str) -> list[str]:
    """The children, leaves between the subtrees, so that the steepest links are the shortest."""
    children = tree.children[broker]
    subtrees = [child for child in children if tree.children[child]]
    leaves = [child for child in children if not tree.children[child]]
    half = len(subtrees) // 2
    return subtrees[:half] + leaves + subtrees[half:]


def _columns(root: str, children: dict[str, list[str]], slot: float) -> dict[str, float]:
    order, waiting = [], [root]
    while waiting:
        order.append(waiting.pop())
        waiting += children[order[-1]]
    x: dict[str, float] = {}
    leaves = 0
    # The order goes from the right; backwards, it has children before parents and goes from the left.
    for broker in reversed(order):
        below = children[broker]
        if below:
            x[broker] = (x[below[0]] + x[below[-1]]) / 2
        else:
            x[broker] = slot * leaves
            leaves += 1
    return x


def _rank_height(places: Sequence[float], width: float, height: float) -> float:
    """The height at which no link to one of these places, right or left of 0, meets a box of another."""
    needed = max(RANK_MIN, min(RANK_COMFORT, (places[-1] - places[0]) / 4))
    for left, right in pairwise(places):
        outer = right if left >= 0 else -left if right <= 0 else 0.0
        # The link's height above the inner box's outer edge is to the rank's as these two are.
        apart = right - left - width / 2
        needed = max(needed, (height / 2 + CLEARANCE) * outer / apart)
    return needed


# --- rings ----------------------------------------------------------------------------------------


def radial(tree: Rooted, size: float, gap: float) -> dict[str, Point]:
    """The root in the middle, its children on a ring around it, theirs on the next.

    Subtrees have sectors of their own, as wide as they need, so that their links do not cross. Brokers of
    a ring are `size` apart or more along it, and rings `gap` or more.
    """
    radii, tapered = _rings(tree, size, gap, 1.0), _rings(tree, size, gap, TAPER)
    if tapered[-1] < radii[-1] * WORTH_IT:
        radii = tapered
    return {
        broker: Point(
            radii[tree.depth[broker]] * math.cos(angle), radii[tree.depth[broker]] * math.sin(angle)
        )
        for broker, angle in _angles(tree, size, radii).items()
    }


def _rings(tree: Rooted, size: float, gap: float, taper: float) -> list[float]:
    """The radii of the smallest rings of this shape on which the tree has room."""
    depth_max = max(tree.depth.values())
    shape = [0.0, *(1 + taper * ring for ring in range(depth_max))]
    # All angles shrink as the whole grows.
    scale = max(gap / taper, _angles_needed(tree, size, shape)[tree.root] / math.tau)
    return [radius * scale for radius in shape]


def _angles(tree: Rooted, size: float, radii: Sequence[float]) -> dict[str, float]:
    """The direction of each broker: the middle of the sector of its subtree."""
    need = _angles_needed(tree, size, radii)
    angles = {}
    # Of two subtrees, one goes to the left and one to the right.
    sectors = {tree.root: (-1.5 * math.pi, 0.5 * math.pi)}
    for broker in tree.order:
        start, end = sectors[broker]
        angles[broker] = (start + end) / 2
        children = tree.children[broker]
        together = sum(need[child] for child in children)
        width = end - start
        for child in children:
            end = start + width * need[child] / together
            sectors[child] = (start, end)
            start = end
    return angles


def _angles_needed(tree: Rooted, size: float, radii: Sequence[float]) -> dict[str, float]:
    """The angle that each subtree needs on rings of these radii."""
    need: dict[str, float] = {}
    for broker in reversed(tree.order):
        own = size / radii[tree.depth[broker]] if broker != tree.root else 0.0
        need[broker] = max(own, sum(need[child] for child in tree.children[broker]))
    return need
