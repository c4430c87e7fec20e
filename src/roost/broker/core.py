"""The broker: `handle(event, now) -> commands`.

It holds links to neighbours, sessions of clients and modules, each a *hop* that subscriptions and
advertisements come from; the tables of `routing` between them; and it moves publications along.
Everything it says to a neighbour or a client goes through that one's `channel`, so connections may come
and go.

**A publication** is routed once: the highest sequence number seen of each publisher tells a second
coming, because an overlay without cycles and channels in order bring the events of a publisher in
order. (Channels already suppress what a connection brings twice. This is the second line, for
neighbours and clients that lost their memory.)

**Durability.** Handling an event changes state in memory at once. With a store, the changes are one
transaction, and all that the broker wants to say waits in `_held` until that and every earlier one is
safe. A crash takes back a transaction together with everything it would have said; the peers, who have
had no acknowledgement, send again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from roost.broker import events as ev
from roost.broker import restoring
from roost.broker.absence import TIMER as ABSENCE
from roost.broker.absence import Absence
from roost.broker.channel import Lane
from roost.broker.commands import (
    CancelTimer,
    Close,
    Command,
    Deliver,
    OpenLink,
    PauseReading,
    Persist,
    Report,
    ResumeReading,
    Send,
    SetTimer,
)
from roost.broker.config import BrokerConfig
from roost.broker.draining import Draining
from roost.broker.errors import RemoteProtocolError
from roost.broker.flow import Flow
from roost.broker.hops import Hop, Inside, Link, Session
from roost.broker.hosting import Hosting
from roost.broker.inside import Modules
from roost.broker.journal import Journal
from roost.broker.linking import Linking
from roost.broker.membership import Membership
from roost.broker.messages import (
    ASKS_BACK,
    DATA,
    Ack,
    Advertise,
    Answer,
    Attach,
    AttachRefused,
    Delivery,
    DrainEcho,
    Dropped,
    EndSession,
    Frame,
    HandOver,
    Inquiry,
    LinkHello,
    Marker,
    MarkerEcho,
    Members,
    Message,
    Migrate,
    MigrationComplete,
    MigrationUpdate,
    Note,
    Parcel,
    Paused,
    Ping,
    Pong,
    Probed,
    Publication,
    Settle,
    Subscribe,
    Unadvertise,
    Unsubscribe,
    Wants,
    priority_of,
)
from roost.broker.migrating import Migrating
from roost.broker.module import Module, ModuleState
from roost.broker.permissions import Permission
from roost.broker.routing import Routing

# So many ids fit into the frame of a delivery, however long they are.
FEW_IDS = 15
ID_MARK_BYTES = 3
# What the driver does without waiting for the store: nobody outside sees it.
AT_ONCE = frozenset((SetTimer, CancelTimer, OpenLink, Report))


def parts_of(ids: Sequence[str], bytes_max: int) -> Iterator[tuple[str, ...]]:
    """Ids of subscriptions in parts that fit into a frame each, beside the event."""
    part: list[str] = []
    size = 0
    for id_ in ids:
        length = len(id_.encode()) + ID_MARK_BYTES
        if part and size + length > bytes_max:
            yield tuple(part)
            part, size = [], 0
        part.append(id_)
        size += length
    yield tuple(part)


class Broker:
    """One broker of a federation."""

    def __init__(self, config: BrokerConfig, modules: Sequence[Module] = ()) -> None:
        self.config = config
        self.incarnation = config.incarnation
        self.address = config.broker  # where clients find it, in words of the driver
        self.journal = Journal() if config.durable else None
        self.links: dict[str, Link] = {}
        self.sessions: dict[str, Session] = {}
        self.flow = Flow(self)
        self.linking = Linking(self)
        self.hosting = Hosting(self)
        self.migrating = Migrating(self)
        self.routing = Routing(
            self.links,
            self.tell,
            flooding=config.routing == "flooding",
            journal=self.journal,
            stranded=self.migrating.stranded,
            announced=self._announced,
        )
        self.draining = Draining(self.links, self.tell, self.hosting.drained, self.journal)
        self.absence = Absence(
            config.broker,
            config.incarnation,
            self.links,
            tell=self.tell,
            command=self.command,
            greedy=self._set_greedy,
            answered=self.routing.answered,
            excused=self.draining.excuse,
            grace_s=config.absence_grace_s,
        )
        self.membership = Membership(
            config.broker,
            self.links,
            tell=self.tell,
            close=self.linking.close,
            enabled=config.members,
        )
        self.modules = Modules(self, modules)
        self.load: ev.LoadIndices | None = None
        self.routed = 0  # publications
        self.duplicates = 0  # publications that came a second time
        self.last_route = (0, 0)  # to how many neighbours, and clients here, the last event went
        self.store_is_full = False
        self.unheard = 0  # deliveries that nobody waits for any more, or that did not fit

        self._commands: list[Command] = []
        self.peers: dict[
            int, Link | Session | None
        ] = {}  # by connection; None until it has greeted
        self.permissions: dict[int, Permission] = {}  # by connection, if somebody asked
        self._seen: dict[str, int] = {}  # publisher -> its highest sequence number so far
        self.unacked: dict[Link | Session, None] = {}  # who is owed an acknowledgement
        self._acks_timed = False
        self._paused: dict[int, None] = {}  # connections that are read no further
        self._token = 0
        self._held: deque[tuple[int, list[Command]]] = deque()
        self.boots = 0  # how often it has started with the same store
        self.drains = 0  # markers that began here
        self.now = 0.0
        # At hand for the hot paths.
        self._ack_every = config.ack_every
        self._link_bound = config.link_outbox_max
        self._spare_max = config.spare_max
        self._ids_bytes = config.delivery_ids_bytes_max
        self._session_bound = config.session_outbox_max

    # --- the one verb -------------------------------------------------------------------------------

    def handle(self, event: Any, now: float) -> list[Command]:
        """What there is to do now that this has happened."""
        if type(event) is ev.Persisted:
            return self._released(event.token)
        self._commands = []
        self.now = now
        HANDLERS[type(event)](self, event)
        if self.absence.due:
            self.absence.inquire()
        return self._commands if self.journal is None else self._commit(self.journal)

    def take_ack(self, connection: int, ack: Ack) -> bool:
        """The short way for a client's acknowledgement; False: it was not that simple, `handle` it."""
        peer = self.peers.get(connection)
        if peer is None or peer.is_link or self.journal is not None:
            return False
        data = peer.channel.data
        if ack.control > peer.channel.control.acked or ack.data > data.sent:
            return False
        data.acknowledged(ack.data)
        return True

    def take(self, connection: int, frame: Frame, now: float) -> list[Command] | None:
        """The short way for most of a broker's work: a neighbour's next publication, and no more.

        What there is to do; with None it was not that simple: `handle` it. The two ways end in the same
        state.
        """
        peer = self.peers.get(connection)
        message = frame.message
        if peer is None or not peer.is_link or type(message) is not Publication:
            return None
        lane = peer.channel.data
        number = frame.sequence
        if (
            self.journal is not None
            or frame.priority != DATA
            or number != lane.received + 1
            or number - lane.reported >= self._ack_every
            or peer not in self.unacked
        ):
            return None
        lane.received = number
        self._commands = []
        self.now = now
        self.publish(peer, message, frame.hops)
        return self._commands

    def _commit(self, journal: Journal) -> list[Command]:
        """The transaction of this event: what it says waits for it, and for those before it."""
        writes = journal.take()
        if not writes and not self._held:
            return self._commands
        at_once: list[Command] = [c for c in self._commands if type(c) in AT_ONCE]
        waiting = [c for c in self._commands if type(c) not in AT_ONCE]
        if not writes:
            self._held[-1][1].extend(waiting)
            return at_once
        self._token += 1
        self._held.append((self._token, waiting))
        return [*at_once, Persist(self._token, writes)]

    def _released(self, token: int) -> list[Command]:
        """What has waited for the transactions up to this one."""
        released: list[Command] = []
        while self._held and self._held[0][0] <= token:
            released.extend(self._held.popleft()[1])
        return released

    def say_instead(self, connection: int, lane: Lane) -> None:
        """Messages of a lane have been replaced: so they are in what waits for the store to be said."""
        now_says = {frame.sequence: frame for frame in lane.outbox}
        for _, held in self._held:
            commands: list[Command] = []
            for command in held:
                if type(command) is Deliver:
                    others = [pair for pair in command.frames if pair[0] != connection]
                    ours = [frame for id_, frame in command.frames if id_ == connection]
                    commands.append(Deliver(command.publication, others))
                    commands += [Send(connection, now_says.get(f.sequence, f)) for f in ours]
                elif type(command) is Send and command.connection == connection:
                    parcel = command.parcel
                    if type(parcel) is Frame and parcel.priority == DATA:
                        parcel = now_says.get(parcel.sequence, parcel)
                    commands.append(Send(connection, parcel))
                else:
                    commands.append(command)
            held[:] = commands

    @property
    def waiting_for_store(self) -> bool:
        """Whether anything is held back until a transaction is safe."""
        return bool(self._held)

    # --- sending ------------------------------------------------------------------------------------

    def tell(self, peer: Link | Session, message: Message, hops: int = 0) -> None:
        """Send a message to a neighbour or a client, now or when it is back."""
        channel = peer.channel
        if priority_of(message) == DATA:
            frame = channel.data.push(message, hops)
            can_go = peer.open and not channel.data.spilled
            if channel.data.spilled:
                self.flow.spilled(peer)
        elif isinstance(peer, Link) and not self.linking.keeps(peer):
            return  # it will be told all anew
        else:
            frame = channel.control.push(message, hops)
            can_go = peer.is_session or peer.greeted  # type: ignore[union-attr]
        if can_go and peer.connection is not None:
            self._commands.append(Send(peer.connection, frame))

    def command(self, command: Command) -> None:
        """Have the driver do something."""
        self._commands.append(command)

    def _owe_ack(self, peer: Link | Session) -> None:
        unreported = peer.channel.unreported()
        if self.config.ack_delay_s <= 0 or unreported >= self._ack_every:
            self._send_ack(peer)
        elif unreported:
            self.unacked[peer] = None
            if not self._acks_timed:
                self._acks_timed = True
                self._commands.append(SetTimer("acks", self.config.ack_delay_s))

    def _send_ack(self, peer: Link | Session) -> None:
        self.unacked.pop(peer, None)
        if peer.connection is not None and peer.channel.unreported():
            self._commands.append(Send(peer.connection, peer.channel.ack()))

    # --- connections --------------------------------------------------------------------------------

    def _accepted(self, event: ev.ConnectionAccepted) -> None:
        self.peers[event.connection] = None

    def _closed(self, event: ev.ConnectionClosed) -> None:
        peer = self.peers.pop(event.connection, None)
        self.permissions.pop(event.connection, None)
        self._blocked_no_more(event.connection)
        if peer is None or peer.connection != event.connection:
            return
        peer.connection = None
        self.flow.end(peer)
        self.unacked.pop(peer, None)
        if isinstance(peer, Link):
            self.linking.closed(peer, event.reason)
        elif peer.ended and peer.channel.data.acked == peer.channel.data.sent:
            self.hosting.forget(peer, "it has left")
        else:
            self.hosting.linger(peer)

    def _identified(self, event: ev.Identified) -> None:
        if event.connection not in self.peers:
            return  # it has gone meanwhile
        self.permissions[event.connection] = event.permission
        peer = self.peers.get(event.connection)
        if isinstance(peer, Session):
            self.hosting.permit(peer, event.permission)

    def _congested(self, event: ev.Congested) -> None:
        peer = self.peers.get(event.connection)
        if peer is not None:
            self.flow.congested(peer)

    def _relieved(self, event: ev.Relieved) -> None:
        peer = self.peers.get(event.connection)
        if peer is not None:
            self.flow.relieved(peer)

    def _received(self, event: ev.Received) -> None:
        connection = event.connection
        peers = self.peers
        if connection not in peers:
            return  # it was closed while this was on the way
        journal, publishes = self.journal, self.hosting.publishes
        try:
            for parcel in event.parcels:
                peer = peers.get(connection)  # a greeting, or a refusal, changes it
                if peer is None and connection not in peers:
                    return
                if type(parcel) is not Frame or peer is None:
                    self._greeting_or_ack(connection, peer, parcel)
                    continue
                channel = peer.channel
                lane = channel.data if parcel.priority == DATA else channel.control
                if journal is None and parcel.sequence == lane.received + 1:
                    lane.received = parcel.sequence  # what `accept` would do, and mostly does
                elif not lane.accept(parcel.sequence):
                    continue  # it has been here before
                message = parcel.message
                if type(message) is not Publication:
                    self._heard(peer, message)
                elif peer.is_link:
                    self.publish(peer, message, parcel.hops)
                else:
                    publishes(peer, message)  # type: ignore[arg-type]
        except RemoteProtocolError as error:
            self._commands.append(Send(connection, AttachRefused(str(error))))
            self.drop(connection, str(error))
            return
        peer = peers.get(connection)
        if peer is not None:
            data = peer.channel.data
            if len(peer.channel.control.outbox) > self.config.answers_max and peer.is_session:
                # It asks, and doesn't listen to the answers.
                self.hosting.forget(peer, "it acknowledges nothing")  # type: ignore[arg-type]
                return
            # Once it is on the list, only the bound can make it more urgent.
            if peer not in self.unacked or data.received - data.reported >= self._ack_every:
                self._owe_ack(peer)

    def own(self, peer: Link | Session, connection: int) -> None:
        """From now on the peer is on this connection; an older one it had is dead, or should be."""
        if peer.connection is not None and peer.connection != connection:
            self._commands.append(Close(peer.connection, "there is a newer connection"))
            self.peers.pop(peer.connection, None)
            self.permissions.pop(peer.connection, None)
            self._blocked_no_more(peer.connection)
        self.flow.end(peer)
        peer.connection = connection
        self.peers[connection] = peer
        if isinstance(peer, Link):
            peer.greeted = False

    def drop(self, connection: int, reason: str) -> None:
        self._commands.append(Close(connection, reason))
        self._closed(ev.ConnectionClosed(connection, reason))

    def _greeting_or_ack(
        self, connection: int, peer: Link | Session | None, parcel: Parcel
    ) -> None:
        if isinstance(parcel, Ack) and peer is not None:
            peer.channel.acknowledged(parcel)
            if isinstance(peer, Link):
                self.room_again(peer)
            if peer.channel.data.spilled:
                self.flow.refill(peer)
        elif isinstance(parcel, AttachRefused):
            if isinstance(peer, Link):
                self.linking.turned_away(peer, parcel.reason)
            self.drop(connection, parcel.reason)
        elif peer is not None and (isinstance(peer, Session) or peer.greeted):
            raise RemoteProtocolError(f"{type(parcel).__name__} came after a greeting")
        elif isinstance(parcel, LinkHello):
            self.linking.greet(connection, parcel)
        elif isinstance(parcel, Attach):
            self.hosting.attach(connection, parcel)
        elif isinstance(parcel, Ping):
            self._commands.append(Send(connection, Pong(parcel.number)))
        else:
            raise RemoteProtocolError(f"{type(parcel).__name__} came where a greeting was expected")

    def _heard(self, peer: Link | Session, message: Message) -> None:
        accepted = LINK_MESSAGES if peer.is_link else SESSION_MESSAGES
        if type(message) not in accepted:
            raise RemoteProtocolError(f"{type(message).__name__} is not for a broker to hear")
        accepted[type(message)](self, peer, message)

    # --- what neighbours say -------------------------------------------------------------------------

    def _advertise(self, link: Link, message: Advertise) -> None:
        self.routing.advertise(
            link, message.id, message.advertisement, message.cause, message.announcement
        )
        if link.version >= ASKS_BACK:
            self.absence.due.clear()  # its own inquiry is behind it, and will be passed on

    def _announced(self, link: Link) -> None:
        self.absence.due[link] = None

    def _unadvertise(self, link: Hop, message: Unadvertise) -> None:
        self.routing.unadvertise(link, message.id, message.cause, message.announcement)

    def _subscribe(self, link: Hop, message: Subscribe) -> None:
        self.routing.subscribe(link, message.id, message.subscription, message.cause)

    def _unsubscribe(self, link: Hop, message: Unsubscribe) -> None:
        self.routing.unsubscribe(link, message.id, message.cause)

    # --- publications -------------------------------------------------------------------------------

    def publish(self, source: Hop, publication: Publication, hops: int) -> None:
        """Route a publication: to neighbours, clients and modules."""
        publisher = publication.publisher
        seen = self._seen
        last = seen.get(publisher)
        if last is None:
            if len(seen) >= self.config.watermarks_max:
                del seen[next(iter(seen))]
        elif publication.sequence <= last:
            self.duplicates += 1
            self.last_route = (0, 0)
            return
        seen[publisher] = publication.sequence
        self.routed += 1

        links, local = self.routing.route(publication.event, source)
        control = publication.priority != DATA
        if self.routing.greedy and not control:
            self._spread(source, links, publication, hops + 1)
        self.last_route = (len(links), len(local))
        commands = self._commands
        for link in links:
            lane = link.channel.control if control else link.channel.data
            frame = lane.push(publication, hops + 1)
            if lane.spilled:
                self.flow.spilled(link)
            elif link.open or (control and link.greeted):
                commands.append(Send(link.connection, frame))  # type: ignore[arg-type]
            if frame.sequence - lane.acked >= self._link_bound:
                self._block(source, link)
        if local:
            self._deliver(publication, hops, local)
        if self.modules.listening and not control:
            self.modules.routed(source, publication, hops, links, local, self.now)

    def _deliver(self, publication: Publication, hops: int, local: Sequence[Hop]) -> None:
        frames: list[tuple[int, Frame]] = []
        for hop in local:
            if not isinstance(hop, Session):
                assert isinstance(hop, Inside)
                self.modules.heard(hop, publication, hop.matched, self.now)
                continue
            lane = hop.channel.data
            if (
                not hop.open or lane.sent - lane.acked >= self._session_bound
            ) and not self.flow.room(hop, publication):
                self.hosting.overflow(hop)
                continue
            if hop.dropped:
                self.tell(hop, Dropped(hop.dropped))
                self.hosting.drop(hop, 0)
            matched = hop.matched
            parts = (matched,) if len(matched) <= FEW_IDS else parts_of(matched, self._ids_bytes)
            for part in parts:
                frame = lane.push(Delivery(publication, part), hops)
                if lane.spilled:
                    self.flow.spilled(hop)
                elif hop.open:
                    frames.append((hop.connection, frame))  # type: ignore[arg-type]
        if frames:
            self._commands.append(Deliver(publication, frames))

    # --- neighbours that are away -------------------------------------------------------------------

    def _set_greedy(self, links: Sequence[Link]) -> None:
        self.routing.greedy = links

    def _spread(self, source: Hop, links: list[Link], publication: Publication, hops: int) -> None:
        """Add those who may want the event, for all we know; see `absence`."""
        for link in self.routing.greedy:
            if link is source or link in links:
                continue
            lane = link.channel.data
            if link.connection is not None:
                links.append(link)
            elif lane.sent - lane.acked < self._spare_max:
                lane.push(publication, hops)  # and holds nobody up, however much it is
            else:
                self.absence.give_up(link)  # which makes another list of the greedy

    # --- full queues --------------------------------------------------------------------------------

    def _block(self, source: Hop, link: Link) -> None:
        """What is for a neighbour is at its bound: read no more data from whoever adds to it.

        With a store, what is for one that is away goes on in the store only.
        """
        if link.connection is None and self.journal is not None:
            return
        connection = source.connection if isinstance(source, Link | Session) else None
        if connection is not None and connection not in link.blocks:
            link.blocks[connection] = None
            if connection not in self._paused:
                self._paused[connection] = None
                self._commands.append(PauseReading(connection))

    def room_again(self, link: Link) -> None:
        lane = link.channel.data
        if link.blocks and lane.sent - lane.acked <= self.config.link_outbox_max // 2:
            self.unblock(link)

    def unblock(self, link: Link) -> None:
        """Nobody is held up by it any more."""
        blocked, link.blocks = link.blocks, {}
        for connection in blocked:
            if not any(connection in other.blocks for other in self.links.values()):
                del self._paused[connection]
                self._commands.append(ResumeReading(connection))

    def _blocked_no_more(self, connection: int) -> None:
        if self._paused.pop(connection, "not") is None:
            for link in self.links.values():
                link.blocks.pop(connection, None)

    # --- timers, modules, and the rest ---------------------------------------------------------------

    def _timer(self, event: ev.TimerFired) -> None:
        kind, _, name = event.name.partition(":")
        if kind == "acks":
            self._acks_timed = False
            for peer in list(self.unacked):
                self._send_ack(peer)
        elif kind == "dial":
            link = self.links.get(name)
            if link is not None and link.connection is None:
                self._commands.append(OpenLink(name))
        elif kind == "linger":
            session = self.sessions.get(name)
            if session is not None and session.connection is None:
                self.hosting.forget(session, "it stayed away too long")
        elif kind == "flow":
            self.flow.timer(name)
        elif kind == ABSENCE:
            self.absence.timer(name)
        else:
            self.modules.timer(name, self.now)

    def _started(self, event: ev.Started) -> None:
        restoring.restore(self, event.records)
        if self.journal is not None:
            self.boots += 1
            self.journal.put("incarnation", value=self.incarnation)
            self.journal.put("boots", value=self.boots)
        for link in self.links.values():
            self.absence.away(link, self.now)
            if link.dials:
                self._commands.append(OpenLink(link.name))
        for session in self.sessions.values():
            self.hosting.linger(session)
        self.modules.start(self.now)

    def _load_sampled(self, event: ev.LoadSampled) -> None:
        self.load = event.load
        self.modules.sampled(event.load, self.now)

    def _store_filled(self, event: ev.StoreFilled) -> None:
        self.store_is_full = event.is_full

    def _module_switched(self, event: ev.ModuleSwitched) -> None:
        self.modules.switch(event.module, ModuleState(event.state), self.now)


HANDLERS: dict[type, Any] = {
    ev.Received: Broker._received,
    ev.TimerFired: Broker._timer,
    ev.ConnectionAccepted: Broker._accepted,
    ev.ConnectionClosed: Broker._closed,
    ev.Identified: Broker._identified,
    ev.Congested: Broker._congested,
    ev.Relieved: Broker._relieved,
    ev.LinkOpened: lambda broker, event: broker.linking.opened(event),
    ev.LinkRefused: lambda broker, event: broker.linking.refused(event),
    ev.LinkAdded: lambda broker, event: broker.linking.added(event),
    ev.LinkRemoved: lambda broker, event: broker.linking.removed(event),
    ev.ClientRedirected: lambda broker, event: broker.hosting.redirect(
        event.client, event.broker, event.cause
    ),
    ev.SessionDismissed: lambda broker, event: broker.hosting.dismiss(event),
    ev.LoadSampled: Broker._load_sampled,
    ev.ModuleSwitched: Broker._module_switched,
    ev.Started: Broker._started,
    ev.StoreFilled: Broker._store_filled,
    ev.Fetched: lambda broker, event: broker.flow.fetched(event),
}
LINK_MESSAGES: dict[type[Message], Any] = {
    Advertise: Broker._advertise,
    Unadvertise: Broker._unadvertise,
    Subscribe: Broker._subscribe,
    Unsubscribe: Broker._unsubscribe,
    Inquiry: lambda broker, *said: broker.absence.inquiry(*said),
    Answer: lambda broker, *said: broker.absence.answer(*said),
    Wants: lambda broker, *said: broker.absence.wants(*said),
    Members: lambda broker, *said: broker.membership.told(*said),
    Marker: lambda broker, *said: broker.draining.marker(*said),
    MarkerEcho: lambda broker, *said: broker.absence.echo(*said) or broker.draining.echo(*said),
    DrainEcho: lambda broker, *said: broker.draining.echo(*said),
    MigrationUpdate: lambda broker, *said: broker.migrating.update(*said),
    MigrationComplete: lambda broker, *said: broker.migrating.complete(*said),
    Note: lambda broker, link, note: broker.modules.told(link, note, broker.now),
}
SESSION_MESSAGES: dict[type[Message], Any] = {
    Publication: lambda broker, *said: broker.hosting.publishes(*said),
    Advertise: lambda broker, *said: broker.hosting.advertises(*said),
    Unadvertise: Broker._unadvertise,
    Subscribe: lambda broker, *said: broker.hosting.subscribes(*said),
    Unsubscribe: Broker._unsubscribe,
    Settle: lambda broker, *said: broker.hosting.settles(*said),
    EndSession: lambda broker, *said: broker.hosting.ends(*said),
    HandOver: lambda broker, *said: broker.hosting.hands_over(*said),
    Migrate: lambda broker, *said: broker.migrating.begin(*said),
    Paused: lambda broker, *said: broker.migrating.paused(*said),
    Probed: lambda broker, session, said: broker.modules.probed(session, said, broker.now),
}
