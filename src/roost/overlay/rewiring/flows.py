"""The traffic of a tree, exactly, without sending a message; and what it becomes when a link is moved.

A message crosses a link if somebody on the other side wants it. So a link carries, of each kind, what is
published on its one side if anybody wants it on the other, and the same the other way:

    sent(x -> y) = sum over kinds of published(side of x) * [wanted(side of y) > 0]

With the tree in preorder a side is a range, or what is outside of it, and all sides are two running sums:
for n brokers and k kinds it takes O(n k), in NumPy, however many messages there are.

A rewiring <middle, mover, anchor> changes few of these sides. What is behind the mover is the same, seen from
the anchor; behind the anchor, seen from the middle, it is now as well; and no other side changes. So moving a
link takes O(k), and only the counters of these three brokers are different afterwards. That makes hundreds of
rewirings of a large overlay cheap; the sums are of whole numbers, so that nothing drifts.

`Sides` is what a broker would count: the tables that `theorem`, `exact` and `ocbr` decide by, of one broker.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from roost.overlay.rewiring.demand import Amounts, Demand
from roost.overlay.rewiring.exact import Sums
from roost.overlay.rewiring.theorem import Counts
from roost.overlay.trees import Link, Topology


class Sides(NamedTuple):
    """What is published and wanted on each side of a broker; rows are its neighbours, in order, then L."""

    near: list[int]
    published: Amounts
    wanted: Amounts  # clients

    @property
    def passing(self) -> tuple[Amounts, Amounts]:
        """Messages by kind that come from each side, and that go to each."""
        wants = (self.wanted > 0).astype(float)
        elsewhere = wants.sum(0) > wants
        elsewhere[-1] = wants.any(0)  # what clients here publish passes, if only they want it
        come = self.published * elsewhere
        everything = self.published.sum(0)
        gone = (everything - self.published) * wants
        gone[-1] = everything * wants[-1]
        return come, gone

    def sums(self) -> Sums:
        """Of Roost's counters; see `exact`."""
        published, wants = self.published, (self.wanted > 0).astype(float)
        others = wants.sum(0) - wants  # sides that it goes to, if it comes from this one
        n = len(self.near)
        near, behind = published[:n], wants[:n]
        # All of `together` is a sum over kinds of something of one side times [it goes to the other]: `to`
        # and `only` as they are, `both` as half of what is published but behind the one, from either.
        share = near * (1 + (others[:n] == 1)) + behind * (published.sum(0) / 2 - near)
        one = share @ behind.T
        together = one + one.T
        link = (near * (others[:n] > 0)).sum(1) + ((published.sum(0) - near) * behind).sum(1)
        np.fill_diagonal(together, 0)
        return Sums(together.astype(np.int64), link.astype(np.int64))

    def relayed(self) -> int:
        """Messages that pass, and that no client here publishes or gets."""
        come, _ = self.passing
        return int((come[:-1].sum(0) * (self.wanted[-1] == 0)).sum())

    def couples(self) -> Counts:
        """Of OCBR's counters; the last row and column are L."""
        return _either_way(self.published, (self.wanted > 0).astype(float))

    def between(self) -> Counts:
        """Deliveries between sides, either way; the last row and column are L."""
        return _either_way(self.published, self.wanted)


def _either_way(published: Amounts, wanted: Amounts) -> Counts:
    one_way = published @ wanted.T
    found = (one_way + one_way.T).astype(np.int64)
    np.fill_diagonal(found, 0)
    return found


class Flows:
    """A tree with its traffic. Brokers are positions in the demand."""

    def __init__(self, links: Iterable[tuple[int, int]], demand: Demand) -> None:
        self.brokers = demand.brokers
        # Broker -> neighbour -> the row of what is behind that neighbour.
        self.near: list[dict[int, int]] = [{} for _ in demand.brokers]
        for number, (a, b) in enumerate(links):
            self.near[a][b], self.near[b][a] = 2 * number, 2 * number + 1
        self.feed(demand)

    def feed(self, demand: Demand) -> None:
        """The tree as it is, with another demand of the same brokers."""
        self.demand = demand
        n, kinds = demand.published.shape
        self._published = np.empty((2 * n - 2, kinds))
        self._wanted = np.empty((2 * n - 2, kinds))
        order, parent, end = self._preorder()
        for amounts, behind in (
            (demand.published, self._published),
            (demand.wanted, self._wanted),
        ):
            running = np.zeros((n + 1, kinds))
            np.cumsum(amounts[order], axis=0, out=running[1:])
            below = running[end[1:]] - running[1:n]
            down = [self.near[parent[i]][order[i]] for i in range(1, n)]
            up = [self.near[order[i]][parent[i]] for i in range(1, n)]
            behind[down] = below
            behind[up] = running[n] - below

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
        end = np.arange(1, len(order) + 1)
        for i in range(len(order) - 1, 0, -1):
            end[places[i]] = max(end[places[i]], end[i])
        return order, parents, end

    # --- what there is ------------------------------------------------------------------------------

    def sides(self, broker: int) -> Sides:
        """What it would count."""
        near = sorted(self.near[broker])
        rows = [self.near[broker][other] for other in near]
        demand = self.demand
        return Sides(
            near,
            np.vstack([self._published[rows], demand.published[broker]]),
            np.vstack([self._wanted[rows], demand.wanted[broker]]),
        )

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
        return int((self._published * (self._wanted > 0)[_other_way(len(self._wanted))]).sum())

    def hops(self) -> int:
        """Links on the ways of all deliveries: with their number, the mean delay in links."""
        return int((self._published * self._wanted[_other_way(len(self._wanted))]).sum())

    def degrees(self) -> list[int]:
        """How many neighbours each broker has."""
        return [len(near) for near in self.near]

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


def _other_way(rows: int) -> Counts:
    """The row of the same link in the other direction."""
    return np.arange(rows) ^ 1


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
