"""What happens when neighbours come, go, or begin anew: to tables, markers, and who is behind whom."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from roost.broker.absence import Absence
from roost.broker.draining import Draining
from roost.broker.hops import Link
from roost.broker.identity import Identity
from roost.broker.membership import Membership
from roost.broker.messages import Advertise, Frame, Message, Unadvertise
from roost.broker.modules import Modules
from roost.broker.rewiring.rewirings import Rewirings
from roost.broker.router import Flooding
from roost.broker.work import Work
from roost.language import Advertisement, Filter

EVERYTHING = Advertisement([Filter()])


class Federation:
    """A broker among its neighbours: see `links.Neighbourhood`."""

    def __init__(
        self,
        identity: Identity,
        work: Work,
        tell: Callable[[Link, Message, int], None],
        *,
        router: Flooding,
        draining: Draining,
        absence: Absence,
        membership: Membership,
        modules: Modules,
        rewirings: Callable[[], Rewirings],
    ) -> None:
        self._identity = identity
        self._work = work
        self._tell = tell
        self._router = router
        self._draining = draining
        self._absence = absence
        self._membership = membership
        self._modules = modules
        self._rewirings = rewirings

    def objection_to(self, link: Link) -> str:
        return self._membership.objection_to(link)

    def start(self, links: Mapping[str, Link]) -> None:
        """All that the store knows of are away, as far as anybody can tell."""
        for link in links.values():
            self._absence.away(link, self._work.now)
            if link.unmet:
                self._absence.refuse(link)

    def added(self, link: Link, *, joins: bool) -> None:
        self._absence.away(link, self._work.now)
        if joins:
            # What is on its way from the other side must not go back there, past what waits for a third link;
            # and who was on which side, nobody here may know.
            link.unmet = True
            link.keep()
            self._absence.refuse(link)
        self._router.introduce(link, f"link {self._identity.name} - {link.name}")
        self._modules.neighbours_changed(self._work.now)

    def removed(self, link: Link, cause: str) -> None:
        self._router.forget(link, cause)
        self._router.untell(link)
        self._draining.gone(link)  # which may be the end of a session that was told of
        self._router.untell(link)
        self._absence.gone(link)
        self._membership.gone(link)
        self._rewirings().removed(link, cause)
        self._modules.neighbours_changed(self._work.now)

    def greeted(self, link: Link) -> None:
        if not link.away:  # we had not noticed that it was
            self._absence.away(link, self._work.now)
        self._absence.greeted(link)
        self._membership.greeted(link)
        self._rewirings().greeted(link)

    def turned_away(self, link: Link) -> None:
        self._rewirings().turned_away(link)

    def lost(self, link: Link) -> None:
        self._absence.away(link, self._work.now)

    def refused(self, link: Link) -> None:
        self._absence.refuse(link)
        self._membership.gone(link)

    def clear(self, link: Link, cause: str) -> None:
        self._router.forget(link, cause)
        self._router.untell(link)
        self._draining.forgotten(link)

    def begin(self, link: Link, cause: str, *, undelivered: bool, again: list[Frame]) -> None:
        self._router.introduce(link, cause)
        if undelivered:
            # What has not arrived for certain may be what only the lost memory knew. If it is there after
            # all, its number will tell. It may be of advertisements that are withdrawn by now.
            id_ = f"{self._identity.life}/{link.name}/{link.number}"
            number = link.number + 1
            self._tell(link, Advertise(id_, EVERYTHING, cause, number), 0)
            for frame in again:
                self._tell(link, frame.message, frame.hops)
            self._tell(link, Unadvertise(id_, cause, number), 0)
        self._draining.again(link)
        self._rewirings().begun_anew(link)
