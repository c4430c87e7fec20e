"""The federations of 003's experiments: one to five brokers in each of its two topologies.

    tree      a balanced binary tree, in which subscriptions go everywhere (section IV.B)
    cluster   the same brokers and links; who is above whom counts, subscriptions go up (section IV.A)
    ladder    003's own cluster of graph 4: each broker that is added is a level of its own, below the last,
              until there are four (broker, cluster, super-cluster, super-super-cluster); the next is a peer
              of the topmost

The paper compares a tree with a ladder, so that what it finds is in part that of the links. Tree and cluster
differ in their routing only.
"""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import Literal, NamedTuple, get_args

from roost.errors import UserError
from roost.overlay.topologies import balanced_tree
from roost.overlay.trees import Link

ShapeName = Literal["tree", "cluster", "ladder"]
SHAPES: tuple[ShapeName, ...] = get_args(ShapeName)
FANOUT = 2
# Broker, and the controllers of a cluster, a super-cluster and a super-super-cluster.
LEVELS = 4


class Shape(NamedTuple):
    """Brokers; of a link the first is above the second, of `peers` neither is."""

    brokers: tuple[str, ...]
    links: tuple[Link, ...]
    peers: tuple[Link, ...]
    routing: str


def shape_of(name: str, brokers: int) -> Shape:
    """So many brokers in that topology."""
    if name not in SHAPES:
        raise UserError(f"the topology {name!r}; expected {', '.join(SHAPES)}")
    if name == "ladder":
        return _ladder(brokers)
    tree = balanced_tree(brokers, FANOUT)
    return Shape(tree.brokers, tree.links, (), "flooding" if name == "tree" else "cluster")


def _ladder(brokers: int) -> Shape:
    names = [f"B{number}" for number in range(brokers)]
    units = [names[first : first + LEVELS] for first in range(0, brokers, LEVELS)]
    links = [Link(above, below) for unit in units for above, below in pairwise(unit)]
    peers = [Link(one, other) for one, other in combinations([unit[0] for unit in units], 2)]
    return Shape(tuple(names), tuple(links), tuple(peers), "cluster")
