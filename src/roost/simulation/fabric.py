"""Who is linked with whom, as the workload says: the outside view, against which brokers are checked.

Brokers form an overlay, a forest; in a hierarchy the topmost are a mesh (`broker.hierarchy`). Machines that
are no brokers are linked with each other as they like, and are no part of it: what is worked out of the
overlay does not see them.
"""

from __future__ import annotations

from collections.abc import Iterator

from roost.broker.names import Rank


class Fabric:
    """A forest of brokers, and other machines; latencies, and which links are cut just now.

    A link may be *fresh*: it is there, and not everybody knows yet where it leads. It joins no parts until
    then.
    """

    def __init__(self) -> None:
        self._neighbours: dict[str, dict[str, float]] = {}  # with the latency, in seconds
        self._others: dict[str, None] = {}  # machines that are no brokers
        self._dials: dict[tuple[str, str], None] = {}  # (who dials, whom)
        self._peers: dict[frozenset[str], None] = {}
        self._cut: dict[frozenset[str], None] = {}
        self._fresh: dict[frozenset[str], None] = {}
        self._part: dict[str, str] = {}
        self._members: dict[str, list[str]] = {}

    def add_broker(self, name: str, *, in_overlay: bool = True) -> None:
        """A broker; not `in_overlay`: a machine that is none."""
        self._neighbours[name] = {}
        if not in_overlay:
            self._others[name] = None
        self._part[name] = name
        self._members[name] = [name]

    def remove_broker(self, name: str) -> None:
        del self._neighbours[name]
        self._others.pop(name, None)
        self._find_parts()

    def add_link(
        self, a: str, b: str, latency_s: float, *, fresh: bool = False, peers: bool = False
    ) -> None:
        """Neighbours from now on; the second dials."""
        self._neighbours[a][b] = self._neighbours[b][a] = latency_s
        self._dials[b, a] = None
        if peers:
            self._peers[frozenset((a, b))] = None
        if fresh:
            self._fresh[frozenset((a, b))] = None
            return
        large, small = self._part[a], self._part[b]
        if large == small:
            return  # in a circle, which is not of the overlay
        if len(self._members[large]) < len(self._members[small]):
            large, small = small, large
        for broker in self._members[small]:
            self._part[broker] = large
        self._members[large] += self._members.pop(small)

    def remove_link(self, a: str, b: str) -> None:
        del self._neighbours[a][b], self._neighbours[b][a]
        self._dials.pop((a, b), None)
        self._dials.pop((b, a), None)
        self._peers.pop(frozenset((a, b)), None)
        self._cut.pop(frozenset((a, b)), None)
        self._fresh.pop(frozenset((a, b)), None)
        self._find_parts()

    @property
    def has_fresh(self) -> bool:
        return bool(self._fresh)

    def known(self) -> None:
        """Everybody knows by now where all links lead."""
        self._fresh.clear()
        self._find_parts()

    def neighbours(self, name: str) -> list[str]:
        return list(self._neighbours[name])

    def dials(self, a: str, b: str) -> bool:
        return (a, b) in self._dials

    def rank(self, here: str, there: str) -> Rank:
        """What a neighbour is, where neighbours have ranks: the first of a link is the super."""
        if frozenset((here, there)) in self._peers:
            return "peer"
        return "super" if self.dials(here, there) else "sub"

    def latency_s(self, a: str, b: str) -> float:
        return self._neighbours[a].get(b, 0.0)

    def links(self) -> Iterator[tuple[str, str]]:
        """Every link once, as (who is called, who dials)."""
        return ((b, a) for a, b in self._dials)

    def brokers(self) -> list[str]:
        """Those of the overlay."""
        return [name for name in self._neighbours if name not in self._others]

    def cut(self, a: str, b: str) -> None:
        self._cut[frozenset((a, b))] = None

    def heal(self, a: str, b: str) -> None:
        self._cut.pop(frozenset((a, b)), None)

    def heal_all(self) -> None:
        self._cut.clear()

    def passable(self, a: str, b: str) -> bool:
        """Whether there are such brokers, and nothing between them is cut."""
        there = a in self._neighbours and b in self._neighbours
        return there and frozenset((a, b)) not in self._cut

    @property
    def parts(self) -> int:
        """In how many pieces all of it is, as far as everybody knows."""
        return len(self._members)

    def part(self, broker: str) -> str:
        """The piece that a broker, or another machine, belongs to."""
        return self._part.get(broker, "")

    def _find_parts(self) -> None:
        self._part = {}
        self._members = {}
        for root in self._neighbours:
            if root in self._part:
                continue
            self._part[root] = root
            members = self._members[root] = [root]
            for broker in members:  # which grows meanwhile
                for neighbour in self._neighbours[broker]:
                    fresh = self._fresh and frozenset((broker, neighbour)) in self._fresh
                    if neighbour not in self._part and not fresh:
                        self._part[neighbour] = root
                        members.append(neighbour)
