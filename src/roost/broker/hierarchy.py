"""Routing in a hierarchy of clusters, whose top controllers are peers (003 section IV.A).

Brokers form clusters, clusters super-clusters, and those super-super-clusters; each unit has a controller,
which is one of its brokers. A broker talks to the controller of its unit, its *super*, and controllers to
theirs; the topmost are *peers*, each linked with every other.

    subscriptions   go up, from super to super, and from the top across to the peers, where they end. What is
                    covered by one that went up already does not go (`told`): 003's "already subscribed"
    events          go up, whoever wants them, and from there, as from everywhere, down and across to those
                    who have subscribed

So no broker knows more than what is wanted below it (and the topmost what is wanted below their peers), and
an event meets, on its way up, all the subscriptions that it is for. In the tree (003 section IV.B, which is
`Flooding`) it is the other way round: subscriptions go everywhere, events where somebody wants them.

**One way.** Peers form a mesh, and nothing goes on from one peer to another. So from any broker to any other
there is one way: up, across at most once, and down. That is all that the rest of the broker needs of a tree:
markers, what is kept for those who are away, and who is behind which link go by `passes`, as events do.
"""

from __future__ import annotations

from typing import ClassVar

from roost.broker.hops import Hop, Link
from roost.broker.names import Rank
from roost.broker.router import Flooding, Strategy
from roost.language import Event


def passes(source: Rank, target: Rank) -> bool:
    """What came from one neighbour goes on to another one, but not from peer to peer."""
    return source != "peer" or target != "peer"


def tells(source: Rank, target: Rank) -> bool:
    """Subscriptions go up and across, never down; those that came across go nowhere."""
    return source == "sub" and target != "sub"


def hears(target: Rank) -> bool:
    """Those of clients go up, and across."""
    return target != "sub"


class Clustered(Flooding):
    """Subscriptions go up, events go up to meet them."""

    strategy: ClassVar[Strategy] = Strategy(
        advertises=False, passes=passes, tells=tells, hears=hears, ranks=True
    )

    _super: Link | None = None

    def passes(self, source: Hop, link: Link) -> bool:
        if not isinstance(source, Link):
            return True
        return source is not link and passes(source.rank, link.rank)

    def _is_told(self, source: Hop, link: Link) -> bool:
        if not super()._is_told(source, link):
            return False
        return tells(source.rank, link.rank) if isinstance(source, Link) else hears(link.rank)

    def route(self, event: Event, source: Hop) -> tuple[list[Link], list[Hop]]:
        links, local = super().route(event, source)
        above = self._above()
        if above is not None and above is not source and above not in links:
            links.append(above)
        return links, local

    def _above(self) -> Link | None:
        """The super; links come and go."""
        known = self._super
        if known is None or self._links.get(known.name) is not known:
            every = self._links.values()
            self._super = known = next((link for link in every if link.rank == "super"), None)
        return known
