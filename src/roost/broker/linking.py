"""Links to neighbours: made, greeted, resumed or begun anew, and removed.

added      -> dial, if that is on us
opened     -> greet
greeted    -> both remember each other: send again what had not arrived
           -> one does not: both forget what they knew of each other, and tell all anew
closed     -> what is for the neighbour waits; dial again, later each time
removed    -> nothing of it is left
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from roost.broker import events as ev
from roost.broker.commands import CancelTimer, Close, OpenLink, Send, SetTimer
from roost.broker.errors import RemoteProtocolError
from roost.broker.hops import Link
from roost.broker.messages import PROTOCOL_VERSION, LinkHello, Publication
from roost.broker.permissions import NOBODY

if TYPE_CHECKING:
    from roost.broker.core import Broker

# Waiting is doubled so often at most: enough for any bound.
DOUBLED_MAX = 30


class Linking:
    """The links of a broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def added(self, event: ev.LinkAdded) -> None:
        if event.broker in self._broker.links:
            return
        link = self.new(event.broker, event.dial)
        self.keep(link)
        self._broker.routing.introduce(link, f"link {self._broker.config.broker} - {link.name}")
        self._broker.modules.neighbours_changed(self._broker.now)
        if link.dials:
            self._broker.command(OpenLink(link.name))

    def new(self, name: str, dials: bool) -> Link:
        config = self._broker.config
        link = Link(
            name, dials, config.covering, config.advertisement_covering, self._broker.journal
        )
        self._broker.links[name] = link
        return link

    def keeps(self, link: Link) -> bool:
        """Whether what changes is kept for a neighbour that is away.

        If that is more than the bound, it is not: when the neighbour is back, both start from nothing, and it
        is told what there is then.
        """
        waiting = link.channel.control.sent - link.channel.control.acked
        # Not between the greetings: what we have said there that we know has to stay true.
        if link.connection is None and waiting >= self._broker.config.link_outbox_max:
            if link.peer_incarnation:
                link.peer_incarnation = ""
                self.keep(link)
            return False
        return True

    def keep(self, link: Link) -> None:
        if self._broker.journal is not None:
            self._broker.journal.put("link", link.name, value=(link.dials, link.peer_incarnation))

    def removed(self, event: ev.LinkRemoved) -> None:
        link = self._broker.links.get(event.broker)
        if link is None:
            return
        if link.connection is not None:
            self._broker.command(Close(link.connection, "no longer neighbours"))
            del self._broker.peers[link.connection]
            link.connection = None
            link.greeted = False
            self._broker.flow.end(link)
            self._broker.unacked.pop(link, None)
        self._broker.command(CancelTimer(f"dial:{link.name}"))
        del self._broker.links[link.name]  # first, so that nobody tells it anything
        self._clear(link, event.cause)
        self._broker.set_pauses()
        if self._broker.journal is not None:
            self._broker.journal.delete("link", link.name)
        self._broker.modules.neighbours_changed(self._broker.now)

    def _clear(self, link: Link, cause: str) -> None:
        """Forget all that came over a link and all that was to go over it."""
        self._broker.routing.forget(link, cause)
        told = self._told(link)
        self._broker.draining.gone(link)  # which may be the end of a session that was told of
        link.channel.forget()
        if self._broker.journal is not None:
            for kind, id_ in told | self._told(link):
                self._broker.journal.delete("told", link.name, kind, id_)

    def _told(self, link: Link) -> dict[tuple[str, str], None]:
        """Kinds and ids of what a neighbour has been told, and is still there."""
        routing = self._broker.routing
        found: dict[tuple[str, str], None] = {}
        for told, table, kind in (
            (link.subscriptions_told, routing.subscriptions, "sub"),
            (link.advertisements_told, routing.advertisements, "adv"),
        ):
            ids = {entry.handle: entry.id for entry in table.values()}
            found |= {(kind, ids[handle]): None for handle in told if handle in ids}
        return found

    def opened(self, event: ev.LinkOpened) -> None:
        link = self._broker.links.get(event.broker)
        if link is None:
            self._broker.command(Close(event.connection, "no longer neighbours"))
            return
        self._broker.own(link, event.connection)
        self._broker.command(Send(event.connection, self._hello(link)))

    def refused(self, event: ev.LinkRefused) -> None:
        link = self._broker.links.get(event.broker)
        if link is not None and link.connection is None:
            self.dial_later(link)

    def dial_later(self, link: Link) -> None:
        if link.dials and link.name in self._broker.links:
            delay = min(
                self._broker.config.redial_min_s * 2**link.attempts,
                self._broker.config.redial_max_s,
            )
            link.attempts = min(link.attempts + 1, DOUBLED_MAX)
            self._broker.command(SetTimer(f"dial:{link.name}", delay))

    def _hello(self, link: Link) -> LinkHello:
        return LinkHello(
            version=PROTOCOL_VERSION,
            broker=self._broker.config.broker,
            incarnation=self._broker.incarnation,
            known_incarnation=link.peer_incarnation,
            control_received=link.channel.control.received,
            data_received=link.channel.data.received,
        )

    def greet(self, connection: int, hello: LinkHello) -> None:
        if hello.version != PROTOCOL_VERSION:
            raise RemoteProtocolError(
                f"protocol version {hello.version}; {self._broker.config.broker} speaks {PROTOCOL_VERSION}"
            )
        link = self._broker.links.get(hello.broker)
        if link is None:
            raise RemoteProtocolError(
                f"{hello.broker} is no neighbour of {self._broker.config.broker}"
            )
        answer = self._hello(link)  # what we know before we hear
        if link.connection != connection:  # the neighbour dialled
            if self._broker.config.secured:
                permission = self._broker.permissions.get(connection)
                objection = NOBODY if permission is None else permission.objection_to_link()
                if objection:
                    raise RemoteProtocolError(objection)
            self._broker.own(link, connection)
            self._broker.command(Send(connection, answer))
        link.attempts = 0
        resumed = (
            link.peer_incarnation == hello.incarnation
            and hello.known_incarnation == self._broker.incarnation
        )
        if not resumed:
            self._begin(link, hello.incarnation)
            hello = LinkHello(hello.version, hello.broker, hello.incarnation, "", 0, 0)
        link.greeted = True
        link.channel.resume(hello.control_received, hello.data_received)
        self._broker.flow.begin(link)
        self._broker.room_again(link)
        self._broker.set_pauses()

    def _begin(self, link: Link, incarnation: str) -> None:
        """One of the two has lost its memory: both start from nothing."""
        cause = f"link {self._broker.config.broker} - {link.name} begins"
        undelivered = [f for f in link.channel.data.outbox if type(f.message) is Publication]
        self._clear(link, cause)
        config = self._broker.config
        link.begin(config.covering, config.advertisement_covering, self._broker.journal)
        link.peer_incarnation = incarnation
        self.keep(link)
        self._broker.routing.introduce(link, cause)
        # What has not arrived for certain may be what only the lost memory knew. If it is there
        # after all, its number will tell.
        for frame in undelivered:
            self._broker.tell(link, frame.message, frame.hops)
