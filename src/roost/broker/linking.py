"""Links to neighbours: made, greeted, resumed or begun anew, and removed.

    added      -> dial, if that is on us
    opened     -> greet
    greeted    -> both remember each other: send again what had not arrived
               -> one does not: both forget what they have told each other, and tell all anew
    closed     -> what is for the neighbour waits; dial again, later each time
    removed    -> nothing of it is left

**Whether both remember.** A broker that has lost its store has another *incarnation*. One whose store is
older than what it has said and heard since, because a backup was put back, has the same; but then its
*life*, which is new at each start, began with lower numbers than its neighbour knows of. Either side may
see that, and whoever is dialled decides: if it does not know the other's incarnation (any more), both begin
anew. Only events stay in the outboxes, under their numbers, and go out again from the last one that the
other had acknowledged.

**Versions.** A neighbour of the version before refuses our greeting: the next one is in its words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

from msgspec.structs import replace

from roost.broker import events as ev
from roost.broker.channel import Marks
from roost.broker.commands import CancelTimer, Close, OpenLink, Report, Send, SetTimer
from roost.broker.errors import RemoteProtocolError
from roost.broker.hops import Link
from roost.broker.membership import CIRCLE
from roost.broker.messages import (
    ASKS_BACK,
    PROTOCOL_VERSION_MIN,
    Advertise,
    AttachRefused,
    Frame,
    LinkHello,
    Note,
    Publication,
    Unadvertise,
)
from roost.broker.permissions import NOBODY
from roost.language import Advertisement, Filter

if TYPE_CHECKING:
    from roost.broker.core import Broker

# Waiting is doubled so often at most: enough for any bound.
DOUBLED_MAX = 30
EVERYTHING = Advertisement([Filter()])
# Lives of a neighbour that are remembered, to know one that is not over.
PAST_LIVES_MAX = 16
# Said in place of what has lost its meaning: a note for a module that there is not.
VOID = Note("", b"", "the link has begun anew", behind=True)


class Linking:
    """The links of a broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def added(self, event: ev.LinkAdded) -> None:
        if event.broker in self._broker.links:
            return
        link = self.new(event.broker, event.dial)
        self.keep(link)
        self._broker.absence.away(link, self._broker.now)
        self._broker.routing.introduce(link, f"link {self._broker.config.broker} - {link.name}")
        self._broker.modules.neighbours_changed(self._broker.now)
        if link.dials:
            self._broker.command(OpenLink(link.name))

    def new(self, name: str, dials: bool) -> Link:
        config = self._broker.config
        link = Link(
            name, dials, config.covering, config.advertisement_covering, self._broker.journal
        )
        if self._broker.journal is not None:
            link.channel.data.memory_max = config.link_outbox_max
        link.speaks = link.version = config.version
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
            record = (link.dials, link.peer_incarnation, link.peer_life, link.number_base)
            self._broker.journal.put("link", link.name, value=record)

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
        link.channel.forget()
        self._broker.unblock(link)
        self._broker.absence.gone(link)
        self._broker.membership.gone(link)
        if self._broker.journal is not None:
            self._broker.journal.delete("link", link.name)
        self._broker.modules.neighbours_changed(self._broker.now)

    def _clear(self, link: Link, cause: str) -> None:
        """Forget what was told over a link, both ways."""
        self._broker.routing.forget(link, cause)
        told = self._told(link)
        self._broker.draining.gone(link)  # which may be the end of a session that was told of
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

    def turned_away(self, link: Link, reason: str) -> None:
        """The neighbour that we have dialled does not want to talk to us, or not in these words."""
        if not link.greeted:
            unknown = "protocol version" in reason or LinkHello.__name__ in reason
            link.speaks = PROTOCOL_VERSION_MIN if unknown else self._broker.config.version
            if not unknown:
                self._broker.command(Report("warning", "link refused", link.name, reason))

    def closed(self, link: Link, reason: str) -> None:
        """The connection is gone."""
        if link.greeted:
            link.greeted = False
            link.speaks = self._broker.config.version
            self._broker.command(Report("info", "link down", link.name, reason))
            self._broker.absence.away(link, self._broker.now)
        if CIRCLE in reason:  # whichever end has found that
            self._refuse(link)
        self.dial_later(link)

    def _refuse(self, link: Link) -> None:
        self._broker.absence.refuse(link)
        self._broker.membership.gone(link)

    def close(self, link: Link, reason: str) -> None:
        """It must not be: links form a tree. (It may be tried again: links come and go.)"""
        self._broker.command(Report("error", "link refused", link.name, reason))
        if link.connection is not None and link.greeted:
            self._broker.command(Send(link.connection, AttachRefused(reason)))
            self._broker.drop(link.connection, reason)
        else:
            self._refuse(link)
        if link.dials:
            # If all links of a circle were tried again at once, all would be closed again.
            ends = "-".join(sorted((link.name, self._broker.config.broker)))
            share = crc32(ends.encode()) / 2**32
            delay = self._broker.config.redial_max_s * (1 + share) / 2
            self._broker.command(SetTimer(f"dial:{link.name}", delay))

    def dial_later(self, link: Link) -> None:
        if link.dials and link.name in self._broker.links:
            delay = min(
                self._broker.config.redial_min_s * 2**link.attempts,
                self._broker.config.redial_max_s,
            )
            link.attempts = min(link.attempts + 1, DOUBLED_MAX)
            self._broker.command(SetTimer(f"dial:{link.name}", delay))

    # --- greetings ----------------------------------------------------------------------------------

    def _hello(self, link: Link) -> LinkHello:
        control, data = link.channel.lanes
        hello = LinkHello(
            version=link.speaks,
            broker=self._broker.config.broker,
            incarnation=self._broker.incarnation,
            known_incarnation=link.peer_incarnation,
            control_received=control.received,
            data_received=data.received,
        )
        if link.speaks < ASKS_BACK:
            return hello
        return replace(
            hello,
            life=self._broker.config.incarnation,
            known_life=link.peer_life,
            control_sent_before=link.before.control_sent,
            control_received_before=link.before.control_received,
            control_acked=control.acked,
            data_sent_before=link.before.data_sent,
            data_received_before=link.before.data_received,
            data_acked=data.acked,
        )

    def greet(self, connection: int, hello: LinkHello) -> None:
        link = self._checked(connection, hello)
        dialled = link.connection == connection
        if not dialled:
            link.speaks = hello.version
        stale = self._is_stale(link, hello)
        if stale:
            link.peer_incarnation = ""  # whoever it is of, neither can go on
        answer = self._hello(link)  # what we know before we hear
        if not dialled:
            self._broker.own(link, connection)
            self._broker.command(Send(connection, answer))
        link.version = min(hello.version, link.speaks)
        link.attempts = 0
        resumed = (
            link.peer_incarnation == hello.incarnation
            and hello.known_incarnation == self._broker.incarnation
        )
        if not resumed:
            self._begin(link, hello)
        link.greeted = True
        link.greeted_at = self._broker.now
        if link.peer_life != hello.life:
            if link.peer_life:
                link.past_lives = {link.peer_life: None, **link.past_lives}
                while len(link.past_lives) > PAST_LIVES_MAX:
                    link.past_lives.popitem()
            link.peer_life = hello.life
            self.keep(link)
        if resumed:
            link.channel.resume(hello.control_received, hello.data_received)
        how = "" if resumed else "begun anew"
        self._broker.command(Report("info", "link up", link.name, how))
        self._broker.flow.begin(link)
        self._broker.room_again(link)
        if not link.away:  # we had not noticed that it was
            self._broker.absence.away(link, self._broker.now)
        self._broker.absence.greeted(link)
        self._broker.membership.greeted(link)

    def _checked(self, connection: int, hello: LinkHello) -> Link:
        """The link that a greeting is for."""
        here = self._broker.config.broker
        speaks = self._broker.config.version
        if not PROTOCOL_VERSION_MIN <= hello.version <= speaks:
            # Of a later version it will try again, in our words.
            raise RemoteProtocolError(f"protocol version {hello.version}; {here} speaks {speaks}")
        link = self._broker.links.get(hello.broker)
        if link is None:
            raise RemoteProtocolError(f"{hello.broker} is no neighbour of {here}")
        peer = self._broker.peers.get(connection)
        if peer is not None and peer is not link:
            raise RemoteProtocolError(f"{hello.broker} answers where {peer.name} was dialled")
        objection = self._broker.membership.objection_to(link)
        if objection:
            self.close(link, objection)
            raise RemoteProtocolError(objection)
        if hello.life and hello.life in link.past_lives:
            # Another has come in its place, and it is still there.
            objection = f"there are two brokers called {link.name}; expected one of each name"
            self._broker.command(Report("error", "two brokers of one name", link.name, objection))
            raise RemoteProtocolError(objection)
        if peer is None and self._broker.config.secured:
            permission = self._broker.permissions.get(connection)
            objection = NOBODY if permission is None else permission.objection_to_link(hello.broker)
            if objection:
                raise RemoteProtocolError(objection)
        return link

    def _is_stale(self, link: Link, hello: LinkHello) -> bool:
        """Whether one of us remembers less than the other has heard of it, and says what that costs."""
        here = self._broker
        if (
            hello.incarnation != link.peer_incarnation
            or hello.known_incarnation != here.incarnation
            or min(hello.version, link.speaks) < ASKS_BACK
        ):
            return False
        control, data = link.channel.lanes
        ours, theirs = link.before, hello
        forgotten_there = forgotten_here = 0
        if hello.life != link.peer_life:
            forgotten_there = max(
                control.received - theirs.control_sent_before,
                control.acked - theirs.control_received_before,
                data.received - theirs.data_sent_before,
                data.acked - theirs.data_received_before,
            )
        if hello.known_life != here.config.incarnation:
            forgotten_here = max(
                hello.control_received - ours.control_sent,
                hello.control_acked - ours.control_received,
                hello.data_received - ours.data_sent,
                hello.data_acked - ours.data_received,
            )
        forgotten_here = max(
            forgotten_here,
            hello.control_received - control.sent,
            hello.data_received - data.sent,
        )
        for who, count in ((hello.broker, forgotten_there), (here.config.broker, forgotten_here)):
            if count > 0:
                detail = (
                    f"{who} has a store that is older than what it has said: up to {count:,} messages"
                    f" between {here.config.broker} and {link.name} may be lost; they begin anew"
                )
                here.command(Report("error", "older store", who, detail))
        return forgotten_there > 0 or forgotten_here > 0

    def _begin(self, link: Link, hello: LinkHello) -> None:
        """One of the two has lost its memory: both tell all anew."""
        broker, config = self._broker, self._broker.config
        cause = f"link {config.broker} - {link.name} begins"
        self._clear(link, cause)
        link.number_base = link.number
        link.channel.begin_control()
        data = link.channel.data
        undelivered = any(type(f.message) is Publication for f in data.outbox) or data.spilled > 0
        again: list[Frame] = []
        if min(hello.version, link.speaks) < ASKS_BACK:
            # It numbers from 1 on, and expects the same.
            again = [frame for frame in data.outbox if type(frame.message) is Publication]
            link.channel.begin_data()
            link.channel.data.memory_max = data.memory_max
        else:
            data.begin_again(hello.data_acked)
            for place, frame in enumerate(data.outbox):
                if type(frame.message) is not Publication:
                    data.replace(place, VOID)  # it speaks of what was told before
        link.before = Marks()
        link.begin_tables(config.covering, config.advertisement_covering)
        link.peer_incarnation = hello.incarnation
        self.keep(link)
        broker.routing.introduce(link, cause)
        if undelivered:
            # What has not arrived for certain may be what only the lost memory knew. If it is there after
            # all, its number will tell. It may be of advertisements that are withdrawn by now.
            id_, number = f"{config.incarnation}/{link.name}/{link.number}", link.number + 1
            broker.tell(link, Advertise(id_, EVERYTHING, cause, number))
            for frame in again:
                broker.tell(link, frame.message, frame.hops)
            broker.tell(link, Unadvertise(id_, cause, number))
