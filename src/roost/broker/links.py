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

from typing import Protocol
from zlib import crc32

from msgspec.structs import replace

from roost.broker import events as ev
from roost.broker.channel import Marks
from roost.broker.commands import CancelTimer, Close, OpenLink, Report, Send, SetTimer
from roost.broker.config import BrokerConfig
from roost.broker.epochs import Epochs
from roost.broker.errors import RemoteProtocolError
from roost.broker.flow import Flow
from roost.broker.hops import Link
from roost.broker.identity import Identity
from roost.broker.membership import CIRCLE, STILL_COME
from roost.broker.messages import (
    ASKS_BACK,
    PROTOCOL_VERSION_MIN,
    AttachRefused,
    Delivery,
    Frame,
    LinkHello,
    Note,
    Publication,
)
from roost.broker.names import FACING, Address, Rank
from roost.broker.pausing import Pausing
from roost.broker.peers import Peers
from roost.broker.permissions import NOBODY
from roost.broker.work import Work

# Waiting is doubled so often at most: enough for any bound.
DOUBLED_MAX = 30
# One that has a standby is there again within seconds.
STANDBY_REDIAL_S = 0.5
# Lives of a neighbour that are remembered, to know one that is not over.
PAST_LIVES_MAX = 16
# Said in place of what has lost its meaning: a note for a module that there is not.
VOID = Note("", b"", "the link has begun anew", behind=True)
# What is no event speaks of what was told before. Stations that look after clients together send deliveries.
EVENTS = (Publication, Delivery)
TIMER = "dial"
# Reasons to hang up.
OVER = "no longer neighbours"
IS_NO_NEIGHBOUR = "is no neighbour"
# A refusal by one of the version before says one of these: it can't read our greeting.
UNREADABLE = ("protocol version", LinkHello.__name__, "frame at byte")


class Neighbourhood(Protocol):
    """Who has to hear what becomes of links: those who tell neighbours things."""

    def objection_to(self, link: Link) -> str:
        """To that neighbour's being here now; "" if there is none."""

    def added(self, link: Link, *, joins: bool) -> None:
        """A neighbour from now on; or once it has greeted, if two federations become one."""

    def removed(self, link: Link, cause: str) -> None:
        """A neighbour no longer: forget what was told, both ways."""

    def greeted(self, link: Link) -> None:
        """It is there."""

    def lost(self, link: Link) -> None:
        """It is away."""

    def refused(self, link: Link) -> None:
        """It must not be a neighbour just now."""

    def turned_away(self, link: Link) -> None:
        """It says that we are no neighbours."""

    def clear(self, link: Link, cause: str) -> None:
        """One of the two has lost its memory: forget what was told over the link, both ways."""

    def begin(self, link: Link, cause: str, *, undelivered: bool, again: list[Frame]) -> None:
        """Tell it all that it should know, and these once more; it may not have had what waits for it."""


class Links:
    """The links of a node."""

    def __init__(
        self,
        config: BrokerConfig,
        identity: Identity,
        work: Work,
        links: dict[str, Link],
        peers: Peers,
        flow: Flow,
        pausing: Pausing,
        neighbourhood: Neighbourhood,
    ) -> None:
        self._config = config
        self._identity = identity
        self._work = work
        self._links = links
        self._peers = peers
        self._flow = flow
        self._pausing = pausing
        self._neighbourhood = neighbourhood
        self.has_forgotten = False  # a neighbour knew us with a store that we don't have
        self._epochs = Epochs(identity, work)
        # What the settings of the last start said: neighbour -> whether we dial. None: nobody knows.
        self.configured_before: dict[str, bool] | None = None

    def configured(self, event: ev.NeighboursConfigured) -> None:
        now, before = dict(event.neighbours), self.configured_before
        if before is None:
            before = {name: link.dials for name, link in self._links.items()}
        for name in before.keys() - now.keys():
            self.removed(ev.LinkRemoved(name, f"{self._identity.name} is not linked to {name}"))
        for name, dial in now.items():
            if name not in before:
                self.added(ev.LinkAdded(name, dial, rank=event.ranks.get(name, "")))
            elif name in self._links:
                self._configured_anew(
                    self._links[name], dial, event.ranks.get(name, ""), before[name]
                )
        self.configured_before = now
        if self._work.journal is not None:
            self._work.journal.put("configured", value=tuple(now.items()))

    def _configured_anew(self, link: Link, dial: bool, rank: Rank, dialled: bool) -> None:
        if link.rank != rank:
            link.rank = rank
            self.begin_anew(link)  # who is told what goes by it
        if dial != dialled:
            link.dials = dial
            link.keep()
            self.dial(link)

    def added(self, event: ev.LinkAdded) -> None:
        if event.broker in self._links:
            return
        link = self.new(event.broker, event.dial)
        link.address, link.rank = event.address, event.rank
        link.keep()
        self.introduce(link, joins=event.joins)

    def introduce(self, link: Link, *, joins: bool = False) -> None:
        """A new link, which has all that makes it one: tell the neighbour what there is, and dial."""
        self._neighbourhood.added(link, joins=joins)
        self.dial(link)

    def new(self, name: str, dials: bool) -> Link:
        config, journal = self._config, self._work.journal
        link = Link(name, dials, config.covering, config.advertisement_covering, journal)
        if journal is not None:
            link.channel.data.memory_max = config.link_outbox_max
        link.speaks = link.version = config.version
        self._links[name] = link
        return link

    def dial(self, link: Link) -> None:
        """Connect, if that is on us."""
        if link.dials and link.connection is None:
            # Behind a comma, where its standby would be.
            places = f"{link.address},{link.beside}" if link.beside else link.address
            self._work.command(OpenLink(link.name, Address(places)))

    def timer(self, name: str) -> None:
        link = self._links.get(name)
        if link is not None:
            self.dial(link)

    def removed(self, event: ev.LinkRemoved) -> None:
        link = self._links.get(event.broker)
        if link is not None:
            self.remove(link, event.cause)

    def remove(self, link: Link, cause: str) -> None:
        """They are neighbours no longer."""
        self._peers.disown(link, OVER)
        link.greeted = False
        self._work.command(CancelTimer(f"{TIMER}:{link.name}"))
        del self._links[link.name]  # first, so that nobody tells it anything
        self._neighbourhood.removed(link, cause)
        link.channel.forget()
        self._pausing.unblock(link)
        if self._work.journal is not None:
            self._work.journal.delete("link", link.name)
            if link.epoch:
                self._work.journal.delete("epoch", link.name)

    def opened(self, event: ev.LinkOpened) -> None:
        link = self._links.get(event.broker)
        if link is None:
            self._work.command(Close(event.connection, OVER))
            return
        self._peers.own(link, event.connection)
        self._work.command(Send(event.connection, self._hello(link)))

    def refused(self, event: ev.LinkRefused) -> None:
        link = self._links.get(event.broker)
        if link is not None and link.connection is None:
            self.dial_later(link)

    def turned_away(self, link: Link, reason: str) -> None:
        """The neighbour that we have dialled does not want to talk to us, or not in these words."""
        if not link.greeted:
            self._epochs.turned_away(reason)
            if IS_NO_NEIGHBOUR in reason:
                self._neighbourhood.turned_away(link)
            unknown = any(word in reason for word in UNREADABLE)
            link.speaks = PROTOCOL_VERSION_MIN if unknown else self._config.version
            if not unknown:
                self._work.command(Report("warning", "link refused", link.name, reason))

    def closed(self, link: Link, reason: str) -> None:
        """The connection is gone."""
        if link.greeted:
            link.greeted = False
            link.speaks = self._config.version
            self._work.command(Report("info", "link down", link.name, reason))
            self._neighbourhood.lost(link)
        if CIRCLE in reason or STILL_COME in reason:  # whichever end has found that
            self._neighbourhood.refused(link)
        if reason == OVER and link.closing:
            self._neighbourhood.turned_away(link)
        self.dial_later(link)

    def begin_anew(self, link: Link) -> None:
        """Nothing that was said on it holds any more, on either side."""
        link.peer_incarnation = ""
        link.keep()
        if link.connection is not None:
            self._peers.drop(link.connection, "it begins anew")

    def close(self, link: Link, reason: str) -> None:
        """It must not be: links form a tree. (It may be tried again: links come and go.)"""
        self._work.command(Report("error", "link refused", link.name, reason))
        if link.connection is not None and link.greeted:
            self._work.command(Send(link.connection, AttachRefused(reason)))
            self._peers.drop(link.connection, reason)
        else:
            self._neighbourhood.refused(link)
        if link.dials:
            # If all links of a circle were tried again at once, all would be closed again.
            ends = "-".join(sorted((link.name, self._identity.name)))
            share = crc32(ends.encode()) / 2**32
            delay = self._config.redial_max_s * (1 + share) / 2
            self._work.command(SetTimer(f"{TIMER}:{link.name}", delay))

    def dial_later(self, link: Link) -> None:
        if link.dials and link.name in self._links:
            delay = min(
                self._config.redial_min_s * 2**link.attempts,
                self._config.redial_max_s,
                STANDBY_REDIAL_S if link.beside else self._config.redial_max_s,
            )
            link.attempts = min(link.attempts + 1, DOUBLED_MAX)
            self._work.command(SetTimer(f"{TIMER}:{link.name}", delay))

    # --- greetings ----------------------------------------------------------------------------------

    def _hello(self, link: Link) -> LinkHello:
        control, data = link.channel.lanes
        hello = LinkHello(
            version=link.speaks,
            broker=self._identity.name,
            incarnation=self._identity.incarnation,
            known_incarnation=link.peer_incarnation,
            control_received=control.received,
            data_received=data.received,
        )
        if link.speaks < ASKS_BACK:
            return hello
        return replace(
            hello,
            life=self._identity.life,
            known_life=link.peer_life,
            control_sent_before=link.before.control_sent,
            control_received_before=link.before.control_received,
            control_acked=control.acked,
            data_sent_before=link.before.data_sent,
            data_received_before=link.before.data_received,
            data_acked=data.acked,
            address=self._identity.address,
            rank=link.rank,
            epoch=self._identity.epoch,
            known_epoch=link.epoch,
            beside=self._identity.beside,
        )

    def greet(self, connection: int, hello: LinkHello) -> None:
        link = self._checked(connection, hello)
        if hello.known_incarnation not in ("", self._identity.incarnation):
            self.has_forgotten = True
        dialled = link.connection == connection
        if not dialled:
            link.speaks = hello.version
        stale = self._is_stale(link, hello)
        if stale:
            link.peer_incarnation = ""  # whoever it is of, neither can go on
        answer = self._hello(link)  # what we know before we hear
        if not dialled:
            self._peers.own(link, connection)
            self._work.command(Send(connection, answer))
        link.version = min(hello.version, link.speaks)
        link.attempts = 0
        resumed = (
            link.peer_incarnation == hello.incarnation
            and hello.known_incarnation == self._identity.incarnation
        )
        if not resumed:
            self._begin(link, hello, had=0 if stale else self._had(link, hello))
        link.greeted = True
        link.address = Address(hello.address)
        self._epochs.heard(link, hello)
        link.greeted_at = self._work.now
        if link.peer_life != hello.life:
            if link.peer_life:
                link.past_lives = {link.peer_life: None, **link.past_lives}
                while len(link.past_lives) > PAST_LIVES_MAX:
                    link.past_lives.popitem()
            link.peer_life = hello.life
            link.keep()
        if resumed:
            link.channel.resume(hello.control_received, hello.data_received)
        how = "" if resumed else "begun anew"
        self._work.command(Report("info", "link up", link.name, how))
        self._flow.begin(link)
        self._pausing.room_again(link)
        self._neighbourhood.greeted(link)

    def _checked(self, connection: int, hello: LinkHello) -> Link:
        """The link that a greeting is for."""
        here = self._identity.name
        speaks = self._config.version
        if not PROTOCOL_VERSION_MIN <= hello.version <= speaks:
            # Of a later version it will try again, in our words.
            raise RemoteProtocolError(f"protocol version {hello.version}; {here} speaks {speaks}")
        link = self._links.get(hello.broker)
        if link is None:
            raise RemoteProtocolError(f"{hello.broker} {IS_NO_NEIGHBOUR} of {here}")
        peer = self._peers.on.get(connection)
        if peer is not None and peer is not link:
            raise RemoteProtocolError(f"{hello.broker} answers where {peer.name} was dialled")
        objection = self._epochs.objection_to_neighbour(link, hello)
        if objection:
            raise RemoteProtocolError(objection)
        objection = self._neighbourhood.objection_to(link)
        if objection:
            if STILL_COME in objection:
                self._not_yet(link)
            else:
                self.close(link, objection)
            raise RemoteProtocolError(objection)
        if hello.life and hello.life in link.past_lives:
            # Another has come in its place, and it is still there.
            objection = f"there are two brokers called {link.name}; expected one of each name"
            self._work.command(Report("error", "two brokers of one name", link.name, objection))
            raise RemoteProtocolError(objection)
        if hello.rank and link.rank and hello.rank != FACING[link.rank]:
            objection = (
                f"{here} takes {link.name} for its {link.rank}, and {link.name} takes {here} for its"
                f" {hello.rank}; expected {FACING[link.rank]} there, or {FACING.get(hello.rank)} here"
            )
            self._work.command(Report("error", "ranks do not fit", link.name, objection))
            raise RemoteProtocolError(objection)
        if peer is None and self._config.secured:
            permission = self._peers.permissions.get(connection)
            objection = NOBODY if permission is None else permission.objection_to_link(hello.broker)
            if objection:
                raise RemoteProtocolError(objection)
        return link

    def _not_yet(self, link: Link) -> None:
        """It has to wait, and is dialled again before long.

        What was kept for one that has never been here, since the link was made, may be what must not go this
        way; and if there is no room for more, nobody is held up by it.
        """
        self._neighbourhood.refused(link)
        if not link.peer_incarnation and not link.unmet:
            link.unmet = True
            link.keep()
            self._neighbourhood.clear(link, "it has to wait")
            memory_max = link.channel.data.memory_max
            link.channel.begin_data()
            link.channel.data.memory_max = memory_max
            self._pausing.unblock(link)

    def _is_stale(self, link: Link, hello: LinkHello) -> bool:
        """Whether one of us remembers less than the other has heard of it, and says what that costs."""
        here = self._identity
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
        if hello.known_life != here.life:
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
        for who, count in ((hello.broker, forgotten_there), (here.name, forgotten_here)):
            if count > 0:
                detail = (
                    f"{who} has a store that is older than what it has said: up to {count:,} messages"
                    f" between {here.name} and {link.name} may be lost; they begin anew"
                )
                self._work.command(Report("error", "older store", who, detail))
        return forgotten_there > 0 or forgotten_here > 0

    def _had(self, link: Link, hello: LinkHello) -> int:
        """The number of the last event that we know to have had on the channel that it goes on with.

        Both may begin anew only because too much waited for one of them (`Flow`), when it has not heard yet
        what the other has had: that must not come again. It has heard us on this very channel, in the life
        in which we know it; so its numbers are those that we have counted.
        """
        is_the_same = link.peer_life == hello.life and hello.control_received > 0
        return link.channel.data.received if is_the_same else 0

    def _begin(self, link: Link, hello: LinkHello, had: int) -> None:
        """One of the two has lost its memory: both tell all anew."""
        config = self._config
        cause = f"link {self._identity.name} - {link.name} begins"
        self._neighbourhood.clear(link, cause)
        link.unmet = False
        link.number_base = link.number
        link.channel.begin_control()
        data = link.channel.data
        undelivered = any(type(f.message) in EVENTS for f in data.outbox) or data.spilled > 0
        again: list[Frame] = []
        if min(hello.version, link.speaks) < ASKS_BACK:
            # It numbers from 1 on, and expects the same.
            again = [frame for frame in data.outbox if type(frame.message) in EVENTS]
            link.channel.begin_data()
            link.channel.data.memory_max = data.memory_max
        else:
            data.begin_again(max(hello.data_acked, had))
            # All but events speaks of what was told before.
            data.winnow(hello.data_received, EVENTS, VOID)
        link.before = Marks()
        link.begin_tables(config.covering, config.advertisement_covering)
        link.peer_incarnation = hello.incarnation
        link.keep()
        self._neighbourhood.begin(link, cause, undelivered=undelivered, again=again)
