"""The traffic of a tree, exactly, without sending a message; and what it becomes when a link is moved.

A message crosses a link if somebody on the other side wants it. So a link carries, of each kind, what is
published on its one side if anybody wants it on the other, and the same the other way:

    sent(x -> y) = sum over kinds of published(side of x) * [wanted(side of y) > 0]

With the tree in preorder a side is a range, or what is outside of it, and all sides are two running sums:
for n brokers and k kinds it takes O(n k), in NumPy, however many messages there are.

A rewiring <middle, mover, anchor> changes few of these sides. What is behind the mover is the same, seen from
the anchor; behind the anchor, seen from the middle, it is now as well; and no other side changes. So moving a
link takes O(k), and only the counters of these three brokers are different afterwards. That makes hundreds of
rewirings of a large overlay cheap; the sums are of whole numbers, so that nothing drifts. Clients that want
something else are behind one side of each other broker: that takes O(n k), and no tree is built anew.

`Sides` is what a broker would count: the tables that `theorem`, `exact` and `ocbr` decide by, of one broker.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from roost.overlay.rewiring import kernels
from roost.overlay.rewiring.demand import Amounts, Demand
from roost.overlay.rewiring.exact import Sums
from roost.overlay.rewiring.theorem import Counts
from roost.overlay.trees import Link, Topology


class Savings(NamedTuple):
    """What a broker's rewirings save, as `exact` has it from sums and deliveries."""

    saved: Counts  # U(R) of all ordered pairs: row the mover, column the anchor
    shorter: Counts  # D(R)
    link: Counts  # the messages over each link, both ways
    relayed: int  # messages that pass, and that no client here publishes or gets


class Sides(NamedTuple):
    """What is published and wanted on each side of a broker; rows are its neighbours, in order, then L."""

    near: list[int]
    published: Amounts
    wanted: Amounts  # clients

    @property
    def passing(self) -> tuple[Amounts, Amounts]:
        """Messages by kind that come from each side, and that go to each."""
        return kernels.passing(self.published, self.wanted)

    def sums(self) -> Sums:
        """Of Roost's counters; see `exact`."""
        return Sums(*kernels.sums(self.published, self.wanted))

    def link_messages(self) -> Counts:
        """Over the link to each neighbour, both ways."""
        return kernels.link_messages(self.published, self.wanted)

    def savings(self) -> Savings:
        """What Roost's own decides by."""
        return Savings(*kernels.savings(self.published, self.wanted))

    def couples(self) -> Counts:
        """Of OCBR's counters; the last row and column are L."""
        wants = (self.wanted > 0).astype(float)
        return kernels.either_way(self.published, wants, len(wants))

    def between(self) -> Counts:
        """Deliveries between sides, either way; the last row and column are L."""
        return kernels.either_way(self.published, self.wanted, len(self.wanted))


class Flows:
    """A tree with its traffic. Brokers are positions in the demand."""

    def __init__(self, links: Iterable[tuple[int, int]], demand: Demand) -> None:
        self.brokers = demand.brokers
        # Broker -> neighbour -> the row of what is behind that neighbour. The two of a link differ in the
        # last bit. After all of these, a row for each broker itself.
        self.near: list[dict[int, int]] = [{} for _ in demand.brokers]
        for number, (a, b) in enumerate(links):
            self.near[a][b], self.near[b][a] = 2 * number, 2 * number + 1
        self.demand = demand
        order, parent, end = self._preorder()
        rows = [self.near[parent[i]][order[i]] for i in range(1, len(order))]
        down = np.array(rows, np.int64)
        self._published, self._wanted = (
            _behind(amounts, order, end, down) for amounts in (demand.published, demand.wanted)
        )

    def _preorder(self) -> tuple[list[int], list[int], Counts]:
        """Brokers so that a subtree is in one piece, the parent of each, and where its subtree ends."""
        order: list[int] = []
        parents: list[int] = []
        places: list[int] = []
        waiting = [(0, 0, 0)]
        while waiting:
            broker, parent, at = waiting.pop()
            here = len(order)
            order.append(broker)
            parents.append(parent)
            places.append(at)
            waiting += [(other, broker, here) for other in self.near[broker] if other != parent]
        end = list(range(1, len(order) + 1))
        for i in range(len(order) - 1, 0, -1):
            end[places[i]] = max(end[places[i]], end[i])
        return order, parents, np.array(end)

    # --- what there is ------------------------------------------------------------------------------

    def sides(self, broker: int) -> Sides:
        """What it would count."""
        behind = self.near[broker]
        near = sorted(behind)
        rows = np.array([*(behind[other] for other in near), broker - len(self.brokers)])
        return Sides(near, self._published.take(rows, 0), self._wanted.take(rows, 0))

    def links(self) -> Iterator[tuple[int, int]]:
        """Each once, the lower position first."""
        for broker, near in enumerate(self.near):
            yield from ((broker, other) for other in sorted(near) if other > broker)

    def counters(self) -> dict[tuple[str, str], int]:
        """Messages from broker to broker, those that are 0 as well."""
        found = {}
        for a, b in self.links():
            for x, y in ((a, b), (b, a)):
                found[self.brokers[x], self.brokers[y]] = self._sent(x, y)
        return found

    def _sent(self, x: int, y: int) -> int:
        from_x, behind_y = self.near[y][x], self.near[x][y]
        return int((self._published[from_x] * (self._wanted[behind_y] > 0)).sum())

    def traffic(self) -> int:
        """Messages over all links: 002's measure."""
        published, wanted = self._over_links()
        return int((published * (wanted > 0)).sum())

    def hops(self) -> int:
        """Links on the ways of all deliveries: with their number, the mean delay in links."""
        published, wanted = self._over_links()
        return int((published * wanted).sum())

    def _over_links(self) -> tuple[Amounts, Amounts]:
        """What is published on the one side of each link, and wanted on the other."""
        links, kinds = len(self.brokers) - 1, self._wanted.shape[1]
        published, wanted = (
            amounts[: 2 * links].reshape(links, 2, kinds)
            for amounts in (self._published, self._wanted)
        )
        return published, wanted[:, ::-1]

    def degrees(self) -> list[int]:
        """How many neighbours each broker has."""
        return [len(near) for near in self.near]

    def way(self, start: int, end: int) -> list[int]:
        """The brokers from one to another, both included."""
        towards = self._towards(end)
        way = [start]
        while way[-1] != end:
            way.append(towards[way[-1]])
        return way

    def _towards(self, end: int) -> dict[int, int]:
        """The neighbour of each broker, nearest first, that is on the way to this one (of it: itself)."""
        found = {end: end}
        reached = [end]
        for broker in reached:
            for other in self.near[broker]:
                if other not in found:
                    found[other] = broker
                    reached.append(other)
        return found

    def topology(self) -> Topology:
        """The tree as others have it."""
        names = self.brokers
        return Topology(names, tuple(Link(names[a], names[b]) for a, b in self.links()))

    # --- what changes -------------------------------------------------------------------------------

    def rewire(self, middle: int, mover: int, anchor: int) -> None:
        """Move a link."""
        behind_mover = self.near[middle].pop(mover)
        behind_middle = self.near[mover].pop(middle)
        for amounts in (self._published, self._wanted):
            amounts[self.near[middle][anchor]] += amounts[behind_mover]
            amounts[self.near[anchor][middle]] -= amounts[behind_mover]
        # What is behind a link, seen from the mover, is everything but the mover's side, as before.
        self.near[anchor][mover] = behind_mover
        self.near[mover][anchor] = behind_middle

    def want(self, broker: int, wanted: Amounts) -> None:
        """The clients of a broker want something else. Each other broker has that behind one neighbour."""
        more = wanted - self.demand.wanted[broker]
        rows = [
            self.near[other][near] for other, near in self._towards(broker).items() if other != near
        ]
        self._wanted[[*rows, broker - len(self.brokers)]] += more
        all_wanted = self.demand.wanted.copy()
        all_wanted[broker] = wanted
        self.demand = self.demand._replace(wanted=all_wanted)


def _behind(amounts: Amounts, order: list[int], end: Counts, down: Counts) -> Amounts:
    """Rows of what is behind each link, seen from either end; then those of the brokers themselves.

    `down` has the rows of what is below each broker of a preorder but the first. The row of the same link
    seen from the other end differs in the last bit.
    """
    n, kinds = amounts.shape
    running = np.zeros((n + 1, kinds))
    np.cumsum(amounts[order], axis=0, out=running[1:])
    below = running[end[1:]] - running[1:n]
    found = np.empty((len(down) * 2 + n, kinds))
    found[down], found[down ^ 1], found[len(down) * 2 :] = below, running[n] - below, amounts
    return found


def flows_of(topology: Topology, demand: Demand) -> Flows:
    """Of a topology, whose brokers are those of the demand, in whichever order."""
    position = {name: i for i, name in enumerate(demand.brokers)}
    return Flows([(position[link.a], position[link.b]) for link in topology.links], demand)


def table_of(sides: Sides, subscriptions: Amounts | None) -> tuple[Counts, Counts]:
    """The paper's counters, in and out: sides by subscriptions, which are columns of kinds that they match.

    None: by topic, each kind is a subscription.
    """
    come, gone = sides.passing
    if subscriptions is not None:
        come, gone = come @ subscriptions, gone @ subscriptions
    return come.astype(np.int64), gone.astype(np.int64)
