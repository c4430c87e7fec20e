"""Where the brokers of a tree stand in a picture: rank by rank, or on rings around the middle."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from roost.simulation.trees import Rooted

RANK_MIN, RANK_COMFORT = 64.0, 110.0
# Between a box and a link that passes it.
CLEARANCE = 5.0
# How far apart the outer rings may be, with the innermost at 1: a hub in the middle needs a wide first
# ring, which the others need not repeat. Even rings look better, so it has to make a difference.
TAPER, WORTH_IT = 0.5, 0.9
# Where on its link a tag stands: nearer to the child, where links have spread out.
TAG_AT = 0.62
# A bow between rings: how far out, of their distance, it goes sideways, and in how many steps it is drawn.
BOW, STEPS_MAX = 0.4, 24


class Point(NamedTuple):
    """A place; y grows downwards."""

    x: float
    y: float


class Polar(NamedTuple):
    """A place, seen from the middle."""

    angle: float
    radius: float

    def point(self) -> Point:
        """The same place on paper."""
        return Point(self.radius * math.cos(self.angle), self.radius * math.sin(self.angle))

    def toward(self, other: Polar, sideways: float, outwards: float) -> Polar:
        """On the way to another place, so far (1 is there) by angle and by radius."""
        return Polar(
            self.angle + (other.angle - self.angle) * sideways,
            self.radius + (other.radius - self.radius) * outwards,
        )


class Route(NamedTuple):
    """How the link between a broker and its parent runs."""

    bends: tuple[Point, ...]  # on the way from the parent; none if it is straight
    tag: Point  # where something may be written on it


class Layout(NamedTuple):
    """Where everything stands."""

    points: dict[str, Point]
    routes: dict[str, Route]  # by the lower or outer end of the link


# --- ranks ----------------------------------------------------------------------------------------


def layered(tree: Rooted, slot: float, width: float, height: float) -> Layout:
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
    points = {broker: Point(x[broker], y[tree.depth[broker]]) for broker in tree.order}
    tags = {child: _between(points[parent], points[child]) for child, parent in tree.parent.items()}
    return Layout(points, {child: Route((), tag) for child, tag in tags.items()})


def _between(parent: Point, child: Point) -> Point:
    return Point(parent.x + (child.x - parent.x) * TAG_AT, parent.y + (child.y - parent.y) * TAG_AT)


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


def radial(tree: Rooted, size: float, gap: float) -> Layout:
    """The root in the middle, its children on a ring around it, theirs on the next.

    Subtrees have sectors of their own, as wide as they need. Brokers of a ring are `size` apart or
    more, rings `gap` or more, and no two links cross.
    """
    radii, tapered = _rings(tree, size, gap, 1.0), _rings(tree, size, gap, TAPER)
    if tapered[-1] < radii[-1] * WORTH_IT:
        radii = tapered
    angles = _angles(tree, size, radii)
    polar = {broker: Polar(angles[broker], radii[tree.depth[broker]]) for broker in tree.order}
    routes = {}
    for broker, children in tree.children.items():
        routes.update(_routes(polar[broker], {child: polar[child] for child in children}))
    return Layout({broker: place.point() for broker, place in polar.items()}, routes)


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


def _routes(parent: Polar, children: dict[str, Polar]) -> dict[str, Route]:
    """The links to the children of one broker: all straight or all bent, lest they cross.

    They stay between the two rings, where no other link can be. Straight ones do, unless the parent had
    to look across its own ring; others leave and arrive at right angles to the rings.
    """
    straight = not parent.radius or all(
        parent.radius <= child.radius * math.cos(child.angle - parent.angle)
        for child in children.values()
    )
    return {
        name: Route((), _between(parent.point(), child.point()))
        if straight
        else _bent(parent, child)
        for name, child in children.items()
    }


def _bent(parent: Polar, child: Polar) -> Route:
    steps = min(STEPS_MAX, 3 + int(child.radius * abs(child.angle - parent.angle) / 12))
    bends = tuple(_bow(parent, child, step / steps).point() for step in range(1, steps))
    return Route(bends, _bow(parent, child, TAG_AT).point())


def _bow(parent: Polar, child: Polar, t: float) -> Polar:
    """A point of a Bézier curve, drawn in the plane of angles and radii."""
    sideways = t * t * (3 - 2 * t)
    outwards = 3 * t * (1 - t) * BOW + t * t * t
    return parent.toward(child, sideways, outwards)
