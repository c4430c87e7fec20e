"""What a rewiring may not do, however much it saves.

Links that an operator has *pinned* stay. *Forbidden* pairs are never linked: two brokers that do not reach
each other, or must not. A broker has at most `degree_max` neighbours: left alone, overlays drift to a star,
whose middle matches every event. Where brokers have roles (001's PEER), the links of edge-brokers are left
alone: clients and heads count on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from roost.errors import UserError
from roost.overlay.rewiring.counters import Rewiring
from roost.overlay.trees import Topology, roles

# Two brokers, in the order of their names.
Pair = tuple[str, str]


def pair(a: str, b: str) -> Pair:
    """Whichever comes first."""
    return (a, b) if a < b else (b, a)


class Limits(Struct, frozen=True):
    """What holds for all rewirings."""

    degree_max: int | None = None
    pinned: frozenset[Pair] = frozenset()
    forbidden: frozenset[Pair] = frozenset()
    edges: frozenset[str] = frozenset()  # edge-brokers, whose links stay

    def __post_init__(self) -> None:
        # A mover keeps as many neighbours as it has, so 1 would be a limit only for anchors: two brokers.
        if self.degree_max is not None and self.degree_max < 2:
            raise UserError(f"degree_max {self.degree_max}; expected 2 or more")
        for name in ("pinned", "forbidden"):
            for a, b in sorted(getattr(self, name)):
                if not a < b:
                    raise UserError(f"{name} has {a} - {b}; expected two brokers in order")

    def stays(self, middle: str, neighbour: str) -> str:
        """Why the link of two brokers is not to be moved; "" if it may be."""
        if pair(middle, neighbour) in self.pinned:
            return f"the link {middle} - {neighbour} is pinned"
        for broker in (middle, neighbour):
            if broker in self.edges:
                return f"{broker} is an edge-broker, whose link stays"
        return ""

    def objection(self, rewiring: Rewiring, degrees: Mapping[str, int]) -> str:
        """What speaks against a rewiring; "" for nothing. An anchor whose degree is not known has room."""
        middle, mover, anchor = rewiring
        if stays := self.stays(middle, mover):
            return stays
        if pair(mover, anchor) in self.forbidden:
            return f"{mover} and {anchor} may not be linked"
        if anchor in self.edges:
            return f"{anchor} is an edge-broker, which has one link"
        degree = degrees.get(anchor)
        if self.degree_max is not None and degree is not None and degree >= self.degree_max:
            return f"{anchor} has {degree} neighbours, and may have {self.degree_max}"
        return ""


def pairs(links: Iterable[tuple[str, str]]) -> frozenset[Pair]:
    """Links as limits have them."""
    return frozenset(pair(a, b) for a, b in links)


def edge_brokers(topology: Topology) -> frozenset[str]:
    """Those with the role of an edge-broker (001 section 3.2)."""
    return frozenset(broker for broker, role in roles(topology).items() if role == "edge")
