"""Routing in a hierarchy of clusters, whose top controllers are peers (003 sections IV.A and IV.B).

Brokers form clusters, clusters super-clusters, and those super-super-clusters; each unit has a controller,
which is one of its brokers. A broker talks to the controller of its unit, its *super*, and controllers to
theirs; the topmost are *peers*, each linked with every other. There are two *ways* for a broker in it:

    cluster   subscriptions   go up, from super to super, and from the top across to the peers, where they
                              end. What is covered by one that went up already does not go (`told`): 003's
                              "already subscribed"
              events          go up, whoever wants them, and from there, as from everywhere, down and across
                              to those who have subscribed
    tree      subscriptions   go up and across, and down to whoever goes this way
              events          go where somebody wants them

So in the cluster no broker knows more than what is wanted below it (and the topmost what is wanted below
their peers), and an event meets, on its way up, all the subscriptions that it is for. In the tree it is the
other way round. (`Flooding` is that tree without ranks.)

**One way to everybody.** Peers form a mesh, and nothing goes on from one peer to another. So from any broker
to any other there is one way: up, across at most once, and down. That is all that the rest of the broker
needs of a tree: markers, what is kept for those who are away, and who is behind which link go by `passes`,
as events do.

**From one way to the other**, while events pass. A broker may be told to change by itself, at any time: what
it may do follows from what it and its super have told each other, so that brokers of both ways live together,
and nobody has to wait until all have changed. One rule carries everything: a broker that is not *complete*
sends every event up.

    complete         the topmost, who hear of everything; and whoever its super, being complete, tells all
    Upward(n, yes)   to the super: tell me everything, and say when you have. The super begins to
    Upward(n, no)    to the super: I send everything up. The super withdraws what it has told
    Complete(n)      from the super, behind all that it knows, once it is complete itself
    Complete(n, no)  from the super: not any more. It comes before anything is withdrawn. Ask again

Numbers tell an answer to the last question from one to an earlier question. Who is not complete any more, for
it has lost its super, or goes the way of the cluster, tells those below first, and they theirs. So at any
moment an event that a broker does not send up is wanted by nobody above it: its table says so, and is
complete. A broker of the version before goes the way of the cluster, asks nothing and answers nothing, and
fits in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import msgspec
from msgspec import Struct

from roost.broker.hops import Hop, Link
from roost.broker.journal import Journal
from roost.broker.messages import Note
from roost.broker.names import Rank
from roost.broker.router import ROUTER, Flooding, Strategy, Tell
from roost.language import Event

WAYS = ("cluster", "tree")


class Upward(Struct, frozen=True, tag="upward"):
    """To the super: whether it is to tell everything."""

    number: int
    wants: bool


class Complete(Struct, frozen=True, tag="complete"):
    """To who has asked: whether it has been told everything."""

    number: int
    is_so: bool


def passes(source: Rank, target: Rank) -> bool:
    """What came from one neighbour goes on to another one, but not from peer to peer."""
    return source != "peer" or target != "peer"


def tells(source: Rank, target: Rank) -> bool:
    """Subscriptions go up and across; those that came across go nowhere. Down they go to those who ask."""
    return source == "sub" and target != "sub"


def hears(target: Rank) -> bool:
    """Those of clients go up, and across."""
    return target != "sub"


class Clustered(Flooding):
    """Subscriptions go up, events go up to meet them; unless it is told to go the way of the tree."""

    strategy: ClassVar[Strategy] = Strategy(
        advertises=False, passes=passes, tells=tells, hears=hears, ranks=True, way="cluster"
    )

    def __init__(
        self, links: Mapping[str, Link], tell: Tell, journal: Journal | None, **more: Any
    ) -> None:
        super().__init__(links, tell, journal, **more)
        self.way = self.strategy.way
        self._way_before = ""  # of the settings, when the store was last written
        self._super: Link | None = None
        self._number = 0  # of what it has last told its super
        self._is_told_all = False  # by its super
        self._was_complete = True  # as those below know

    @property
    def is_complete(self) -> bool:
        """Whether all that is wanted anywhere is in the table."""
        return self._is_told_all or self._above() is None

    # --- what a strategy decides ----------------------------------------------------------------------

    def passes(self, source: Hop, link: Link) -> bool:
        if not isinstance(source, Link):
            return True
        return source is not link and passes(source.rank, link.rank)

    def _is_told(self, source: Hop, link: Link) -> bool:
        if not super()._is_told(source, link):
            return False
        if link.asked_all:
            return True
        return tells(source.rank, link.rank) if isinstance(source, Link) else hears(link.rank)

    def route(self, event: Event, source: Hop) -> tuple[list[Link], list[Hop]]:
        links, local = super().route(event, source)
        if not self._is_told_all:
            above = self._above()
            if above is not None and above is not source and above not in links:
                links.append(above)
        return links, local

    def _above(self) -> Link | None:
        """The super; links come and go, and may change their rank."""
        known = self._super
        if known is None or known.rank != "super" or self._links.get(known.name) is not known:
            every = self._links.values()
            self._super = known = next((link for link in every if link.rank == "super"), None)
        return known

    # --- from one way to the other --------------------------------------------------------------------

    def objection_to_way(self, way: str) -> str:
        return "" if way in WAYS else f"{way!r} is no way; expected one of {', '.join(WAYS)}"

    def switch(self, way: str, cause: str) -> None:
        if way != self.way and not self.objection_to_way(way):
            self.way = way
            self._ask(cause)

    def figures(self) -> Mapping[str, Any]:
        return {"routing": self.way, "complete": self.is_complete}

    def _ask(self, cause: str) -> None:
        """Tell the super, if there is one, what is wanted of it; what it said before is void."""
        self._number += 1
        self._set_told_all(False, cause)
        above = self._above()
        if above is not None:
            self._note_to(above, Upward(self._number, self.way == "tree"), cause)

    def _set_told_all(self, is_so: bool, cause: str) -> None:
        """Whether the super tells everything; those below hear what follows from it."""
        self._is_told_all = is_so
        self._keep()
        before, self._was_complete = self._was_complete, self.is_complete
        if before != self._was_complete:
            for link in self._links.values():
                if link.asked_all:
                    self._note_to(link, Complete(link.asked_all, self._was_complete), cause)

    def noted(self, link: Link, body: bytes, cause: str) -> None:
        try:
            said = READ(body)
        except msgspec.DecodeError:  # of a later version, perhaps
            return
        if isinstance(said, Upward):
            self._asked(link, said, cause)
        elif link is self._above() and said.number == self._number and self.way == "tree":
            if said.is_so:
                self._set_told_all(True, cause)
            else:
                self._ask(cause)

    def _asked(self, link: Link, said: Upward, cause: str) -> None:
        if link.rank != "sub":
            return
        self._set_asked(link, said.number if said.wants else 0)
        self.reconcile(link, cause)
        if said.wants and self.is_complete:
            self._note_to(link, Complete(said.number, True), cause)

    def _set_asked(self, link: Link, number: int) -> None:
        link.asked_all = number
        if self._journal is not None:
            if number:
                self._journal.put("asked", link.name, value=number)
            else:
                self._journal.delete("asked", link.name)

    def _note_to(self, link: Link, what: Upward | Complete, cause: str) -> None:
        self._tell(link, Note(ROUTER, WRITE(what), cause))

    # --- hops that come and go ----------------------------------------------------------------------

    def introduce(self, link: Link, cause: str) -> None:
        super().introduce(link, cause)
        if link.rank == "super":
            if self.way == "tree":
                self._ask(cause)
            else:
                self._set_told_all(False, cause)  # it may have been at the top

    def forget(self, hop: Hop, cause: str) -> None:
        if isinstance(hop, Link):
            if hop.asked_all:
                self._set_asked(hop, 0)  # it will ask again, if it comes again
            if hop is self._super:
                self._set_told_all(False, cause)  # before anything is withdrawn
        super().forget(hop, cause)

    # --- coming back from a store -------------------------------------------------------------------

    def _keep(self) -> None:
        if self._journal is not None:
            record = (self.strategy.way, self.way, self._number, self._is_told_all)
            self._journal.put("way", value=record)

    def restore_way(
        self, record: tuple[str, str, int, bool] | None, asked: Mapping[str, int]
    ) -> None:
        if record is not None:
            self._way_before, self.way, self._number, self._is_told_all = record
        for name, number in asked.items():
            self._links[name].asked_all = number
        self._was_complete = self.is_complete

    def started(self, cause: str) -> None:
        """A way that an operator has chosen holds over restarts, unless the settings now say another."""
        if self._way_before not in ("", self.strategy.way):
            self.switch(self.strategy.way, cause)
        self._keep()


class Tree(Clustered):
    """Subscriptions go everywhere; unless it is told to go the way of the cluster."""

    strategy: ClassVar[Strategy] = Strategy(
        advertises=False, passes=passes, tells=tells, hears=hears, ranks=True, way="tree"
    )


WRITE: Callable[[Upward | Complete], bytes] = msgspec.msgpack.Encoder().encode
READ: Callable[[bytes], Upward | Complete] = msgspec.msgpack.Decoder(Upward | Complete).decode
