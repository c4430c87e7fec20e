"""What a user writes: a machine of their own, servers that are all linked with each other."""

from __future__ import annotations

from roost.broker.hops import Link, Session
from roost.broker.messages import Publication, Subscribe, Unsubscribe
from roost.broker.server import Costs
from roost.broker.station import Station


class Mesh(Station):
    """An event goes to all other servers, and at each to the clients that want it.

    Nobody is told who wants what: a subscription costs no message, and an event is matched everywhere.
    """

    name = "mesh"
    takes_subscriptions = True
    # In the simulator: matching by an index does not depend on how much there is in it.
    costs = Costs(
        publication_s_mhz=0.05, entry_s_mhz=0.0, messages_s_mhz={Subscribe: 0.2, Unsubscribe: 0.2}
    )

    def from_session(self, session: Session, publication: Publication) -> None:
        self._pass(session, publication, 0, list(self.links.values()))

    def from_link(self, link: Link, publication: Publication, hops: int) -> None:
        self._pass(link, publication, hops, [])

    def _pass(
        self, source: Link | Session, publication: Publication, hops: int, links: list[Link]
    ) -> None:
        if self.traffic.is_new(publication):
            matches = self.clientele.match(publication.event)
            self.route(source, publication, hops, links, matches)
