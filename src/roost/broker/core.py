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
from collections.abc import Mapping, Sequence
from typing import Any

from roost.broker import events as ev
from roost.broker import restoring
from roost.broker.commands import (
    CancelTimer,
    Close,
    Command,
    Deliver,
    OpenLink,
    PauseReading,
    Persist,
    ResumeReading,
    Send,
    SetTimer,
)
from roost.broker.config import BrokerConfig
from roost.broker.draining import Draining
from roost.broker.errors import RemoteProtocolError
from roost.broker.hops import Hop, Inside, Link, Session
from roost.broker.inside import Modules
from roost.broker.journal import Journal
from roost.broker.messages import (
    DATA,
    PROTOCOL_VERSION,
    Ack,
    Advertise,
    Attach,
    Attached,
    AttachRefused,
    Delivery,
    Dropped,
    EndSession,
    Frame,
    LinkHello,
    Marker,
    MarkerEcho,
    Message,
    Parcel,
    Publication,
    Redirect,
    Refused,
    SessionEnded,
    Subscribe,
    Unadvertise,
    Unsubscribe,
    priority_of,
)
from roost.broker.module import Module, ModuleState
from roost.broker.routing import Routing

# What the driver does without waiting for the store: nobody outside sees it.
AT_ONCE = (SetTimer, CancelTimer, OpenLink)

Peer = Link | Session


class Broker:
    """One broker of a federation."""

    def __init__(self, config: BrokerConfig, modules: Sequence[Module] = ()) -> None:
        self.config = config
        self.incarnation = config.incarnation
        self.journal = Journal() if config.durable else None
        self.links: dict[str, Link] = {}
        self.sessions: dict[str, Session] = {}
        self.routing = Routing(
            self.links, self.tell, flooding=config.routing == "flooding", journal=self.journal
        )
        self.draining = Draining(self.links, self.tell, self._drained, self.journal)
        self.modules = Modules(self, modules)
        self.load: ev.LoadIndices | None = None
        self.duplicates = 0  # publications that came a second time
        self.last_route = (0, 0)  # to how many neighbours, and clients here, the last event went
        self.unheard = 0  # deliveries that nobody waits for any more, or that did not fit

        self._commands: list[Command] = []
        self._peers: dict[int, Peer | None] = {}  # by connection; None until it has greeted
        self._seen: dict[str, int] = {}  # publisher -> its highest sequence number so far
        self._unacked: dict[Peer, None] = {}  # who is owed an acknowledgement
        self._acks_timed = False
        self._paused: dict[int, None] = {}  # connections that are read no further
        self._token = 0
        self._held: deque[tuple[int, list[Command]]] = deque()
        self.boots = 0  # how often it has started with the same store
        self.drains = 0  # markers that began here
        self._now = 0.0
        # At hand for the hot paths.
        self._ack_every = config.ack_every
        self._link_bound = config.link_outbox_max
        self._session_bound = config.session_outbox_max

    # --- the one verb -------------------------------------------------------------------------------

    def handle(self, event: Any, now: float) -> list[Command]:
        """What there is to do now that this has happened."""
        if type(event) is ev.Persisted:
            return self._released(event.token)
        self._commands = []
        self._now = now
        HANDLERS[type(event)](self, event)
        return self._commands if self.journal is None else self._commit(self.journal)

    def _commit(self, journal: Journal) -> list[Command]:
        """The transaction of this event: what it says waits for it, and for those before it."""
        writes = journal.take()
        if not writes and not self._held:
            return self._commands
        at_once: list[Command] = [c for c in self._commands if isinstance(c, AT_ONCE)]
        waiting = [c for c in self._commands if not isinstance(c, AT_ONCE)]
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

    @property
    def waiting_for_store(self) -> bool:
        """Whether anything is held back until a transaction is safe."""
        return bool(self._held)

    # --- sending ------------------------------------------------------------------------------------

    def tell(self, peer: Peer, message: Message, hops: int = 0) -> None:
        """Send a message to a neighbour or a client, now or when it is back."""
        channel = peer.channel
        lane = channel.data if priority_of(message) == DATA else channel.control
        number = lane.push(message, hops)
        if peer.connection is not None and (peer.is_session or peer.greeted):  # type: ignore[union-attr]
            frame = Frame(lane.priority, number, message, hops)
            self._commands.append(Send(peer.connection, frame))

    def command(self, command: Command) -> None:
        """Have the driver do something."""
        self._commands.append(command)

    def _owe_ack(self, peer: Peer) -> None:
        unreported = peer.channel.unreported()
        if self.config.ack_delay_s <= 0 or unreported >= self._ack_every:
            self._send_ack(peer)
        elif unreported:
            self._unacked[peer] = None
            if not self._acks_timed:
                self._acks_timed = True
                self._commands.append(SetTimer("acks", self.config.ack_delay_s))

    def _send_ack(self, peer: Peer) -> None:
        self._unacked.pop(peer, None)
        if peer.connection is not None and peer.channel.unreported():
            self._commands.append(Send(peer.connection, peer.channel.ack()))

    # --- connections --------------------------------------------------------------------------------

    def _accepted(self, event: ev.ConnectionAccepted) -> None:
        self._peers[event.connection] = None

    def _closed(self, event: ev.ConnectionClosed) -> None:
        peer = self._peers.pop(event.connection, None)
        self._paused.pop(event.connection, None)
        if peer is None or peer.connection != event.connection:
            return
        peer.connection = None
        self._unacked.pop(peer, None)
        if isinstance(peer, Link):
            peer.greeted = False
            self._dial_later(peer)
        elif peer.ending and not peer.channel.data.outbox:
            self._forget_session(peer, "it has left")
        else:
            self._commands.append(SetTimer(f"linger:{peer.name}", self.config.linger_s))

    def _received(self, event: ev.Received) -> None:
        connection = event.connection
        peers = self._peers
        if connection not in peers:
            return  # it was closed while this was on the way
        try:
            for parcel in event.parcels:
                peer = peers.get(connection)  # a greeting, or a refusal, changes it
                if type(parcel) is Frame and peer is not None:
                    self._frame(peer, parcel)
                else:
                    self._greeting_or_ack(connection, peer, parcel)
        except RemoteProtocolError as error:
            self._drop_connection(connection, str(error))
            return
        peer = peers.get(connection)
        if peer is not None:
            data = peer.channel.data
            # Once it is on the list, only the bound can make it more urgent.
            if peer not in self._unacked or data.received - data.reported >= self._ack_every:
                self._owe_ack(peer)

    def _drop_connection(self, connection: int, reason: str) -> None:
        self._commands.append(Close(connection, reason))
        self._closed(ev.ConnectionClosed(connection, reason))

    def _greeting_or_ack(self, connection: int, peer: Peer | None, parcel: Parcel) -> None:
        if isinstance(parcel, Ack) and peer is not None:
            peer.channel.acknowledged(parcel)
            self._room_again(peer)
        elif isinstance(parcel, LinkHello):
            self._greet_link(connection, parcel)
        elif isinstance(parcel, Attach):
            self._attach(connection, parcel)
        else:
            raise RemoteProtocolError(f"{type(parcel).__name__} came where a greeting was expected")

    def _frame(self, peer: Peer, frame: Frame) -> None:
        channel = peer.channel
        if not (channel.data if frame.priority == DATA else channel.control).accept(frame.sequence):
            return
        message = frame.message
        if type(message) is Publication:
            if peer.is_link:
                self.publish(peer, message, frame.hops)
            else:
                self._publish_from(peer, message)  # type: ignore[arg-type]
        else:
            accepted = LINK_MESSAGES if peer.is_link else SESSION_MESSAGES
            if type(message) not in accepted:
                raise RemoteProtocolError(f"{type(message).__name__} is not for a broker to hear")
            accepted[type(message)](self, peer, message)

    # --- links --------------------------------------------------------------------------------------

    def _link_added(self, event: ev.LinkAdded) -> None:
        if event.broker in self.links:
            return
        link = self.new_link(event.broker, event.dial)
        self.keep_link(link)
        self.routing.introduce(link, f"link {self.config.broker} - {link.name}")
        self.modules.neighbours_changed(self._now)
        if link.dials:
            self._commands.append(OpenLink(link.name))

    def new_link(self, name: str, dials: bool) -> Link:
        config = self.config
        link = Link(name, dials, config.covering, config.advertisement_covering, self.journal)
        self.links[name] = link
        return link

    def keep_link(self, link: Link) -> None:
        if self.journal is not None:
            self.journal.put("link", link.name, value=(link.dials, link.peer_incarnation))

    def _link_removed(self, event: ev.LinkRemoved) -> None:
        link = self.links.get(event.broker)
        if link is None:
            return
        if link.connection is not None:
            self._commands.append(Close(link.connection, "no longer neighbours"))
            del self._peers[link.connection]
            link.connection = None
            link.greeted = False
            self._unacked.pop(link, None)
        self._commands.append(CancelTimer(f"dial:{link.name}"))
        del self.links[link.name]  # first, so that nobody tells it anything
        self._clear_link(link, event.cause)
        self._set_pauses()
        if self.journal is not None:
            self.journal.delete("link", link.name)
        self.modules.neighbours_changed(self._now)

    def _clear_link(self, link: Link, cause: str) -> None:
        """Forget all that came over a link and all that was to go over it."""
        self.routing.forget(link, cause)
        self.draining.gone(link)
        link.channel.forget()
        if self.journal is not None:
            for told, table, kind in (
                (link.subscriptions_told, self.routing.subscriptions, "sub"),
                (link.advertisements_told, self.routing.advertisements, "adv"),
            ):
                ids = {entry.handle: entry.id for entry in table.values()}
                for handle in told:
                    self.journal.delete("told", link.name, kind, ids[handle])

    def _link_opened(self, event: ev.LinkOpened) -> None:
        link = self.links.get(event.broker)
        if link is None:
            self._commands.append(Close(event.connection, "no longer neighbours"))
            return
        self._own(link, event.connection)
        self._commands.append(Send(event.connection, self._hello(link)))

    def _link_refused(self, event: ev.LinkRefused) -> None:
        link = self.links.get(event.broker)
        if link is not None and link.connection is None:
            self._dial_later(link)

    def _dial_later(self, link: Link) -> None:
        if link.dials and link.name in self.links:
            delay = min(self.config.redial_min_s * 2**link.attempts, self.config.redial_max_s)
            link.attempts = min(link.attempts + 1, 30)
            self._commands.append(SetTimer(f"dial:{link.name}", delay))

    def _hello(self, link: Link) -> LinkHello:
        return LinkHello(
            version=PROTOCOL_VERSION,
            broker=self.config.broker,
            incarnation=self.incarnation,
            known_incarnation=link.peer_incarnation,
            control_received=link.channel.control.received,
            data_received=link.channel.data.received,
        )

    def _own(self, peer: Peer, connection: int) -> None:
        """From now on the peer is on this connection; an older one it had is dead, or should be."""
        if peer.connection is not None and peer.connection != connection:
            self._commands.append(Close(peer.connection, "there is a newer connection"))
            self._peers.pop(peer.connection, None)
            self._paused.pop(peer.connection, None)
        peer.connection = connection
        self._peers[connection] = peer
        if isinstance(peer, Link):
            peer.greeted = False

    def _greet_link(self, connection: int, hello: LinkHello) -> None:
        if hello.version != PROTOCOL_VERSION:
            raise RemoteProtocolError(
                f"protocol version {hello.version}; {self.config.broker} speaks {PROTOCOL_VERSION}"
            )
        link = self.links.get(hello.broker)
        if link is None:
            raise RemoteProtocolError(f"{hello.broker} is no neighbour of {self.config.broker}")
        answer = self._hello(link)  # what we know before we hear
        if link.connection != connection:  # the neighbour dialled
            self._own(link, connection)
            self._commands.append(Send(connection, answer))
        link.attempts = 0
        resumed = (
            link.peer_incarnation == hello.incarnation
            and hello.known_incarnation == self.incarnation
        )
        if not resumed:
            self._begin_link(link, hello.incarnation)
            hello = LinkHello(hello.version, hello.broker, hello.incarnation, "", 0, 0)
        link.greeted = True
        for frame in link.channel.resume(hello.control_received, hello.data_received):
            self._commands.append(Send(connection, frame))
        self._room_again(link)
        self._set_pauses()

    def _begin_link(self, link: Link, incarnation: str) -> None:
        """One of the two has lost its memory: both start from nothing."""
        cause = f"link {self.config.broker} - {link.name} begins"
        undelivered = [item for item in link.channel.data.outbox if type(item[0]) is Publication]
        self._clear_link(link, cause)
        config = self.config
        link.begin(config.covering, config.advertisement_covering, self.journal)
        link.peer_incarnation = incarnation
        self.keep_link(link)
        self.routing.introduce(link, cause)
        # What has not arrived for certain may be what only the lost memory knew. If it is there
        # after all, its number will tell.
        for publication, hops in undelivered:
            self.tell(link, publication, hops)

    def _advertise(self, link: Hop, message: Advertise) -> None:
        self.routing.advertise(
            link, message.id, message.advertisement, message.cause, message.announcement
        )

    def _unadvertise(self, link: Hop, message: Unadvertise) -> None:
        entry = self.routing.advertisements.get(message.id)
        if entry is None or entry.hop is not link:
            return
        if entry.announcement == message.announcement:  # not one that was made again since
            self.routing.unadvertise(message.id, message.cause)

    def _subscribe(self, link: Hop, message: Subscribe) -> None:
        self.routing.subscribe(link, message.id, message.subscription, message.cause)

    def _unsubscribe(self, link: Hop, message: Unsubscribe) -> None:
        entry = self.routing.subscriptions.get(message.id)
        if entry is not None and entry.hop is link:
            self.routing.unsubscribe(message.id, message.cause)

    def _marker(self, link: Link, message: Marker) -> None:
        self.draining.marker(link, message)

    def _marker_echo(self, link: Link, message: MarkerEcho) -> None:
        self.draining.echo(link, message)

    # --- sessions -----------------------------------------------------------------------------------

    def _attach(self, connection: int, greeting: Attach) -> None:
        if greeting.version != PROTOCOL_VERSION:
            reason = (
                f"protocol version {greeting.version};"
                f" {self.config.broker} speaks {PROTOCOL_VERSION}"
            )
            self._refuse_attach(connection, AttachRefused(reason))
            return
        session = self.sessions.get(greeting.session)
        if session is not None and session.client != greeting.client:
            self._refuse_attach(connection, AttachRefused("the session is somebody else's"))
            return
        if session is not None and not greeting.resume:
            self._forget_session(session, "it was left behind")
            session = None
        resumed = session is not None
        if session is None:
            better = self.modules.place(greeting.client, self._now)
            if better is not None:
                self._refuse_attach(connection, AttachRefused("please attach there", better))
                return
            session = self.new_session(greeting.session, greeting.client)
        self._own(session, connection)
        self._commands.append(CancelTimer(f"linger:{session.name}"))
        channel = session.channel
        missing = (
            channel.resume(greeting.control_received, greeting.data_received) if resumed else []
        )
        answer = Attached(session.name, resumed, channel.control.received, channel.data.received)
        self._commands.append(Send(connection, answer))
        self._commands.extend(Send(connection, frame) for frame in missing)
        self._room_again(session)
        self._set_pauses()

    def _refuse_attach(self, connection: int, answer: AttachRefused) -> None:
        self._commands.append(Send(connection, answer))
        self._drop_connection(connection, answer.reason)

    def new_session(self, name: str, client: str) -> Session:
        session = Session(name, client, self.journal)
        self.sessions[name] = session
        if self.journal is not None:
            self.journal.put("session", name, value=(client, False))
        return session

    def _forget_session(self, session: Session, reason: str) -> None:
        """It is over: nothing of it stays behind."""
        self.unheard += len(session.channel.data.outbox)
        del self.sessions[session.name]
        self.routing.forget(session, f"session of {session.client} is over: {reason}")
        session.channel.forget()
        self._unacked.pop(session, None)
        self._commands.append(CancelTimer(f"linger:{session.name}"))
        if session.connection is not None:
            self._commands.append(Close(session.connection, reason))
            del self._peers[session.connection]
            session.connection = None
        if self.journal is not None:
            self.journal.delete("session", session.name)

    def _client_subscribes(self, session: Session, message: Subscribe) -> None:
        if session.ending or self._taken(session, self.routing.subscriptions, message.id):
            return
        self.routing.subscribe(session, message.id, message.subscription, message.cause)

    def _client_advertises(self, session: Session, message: Advertise) -> None:
        if session.ending or self._taken(session, self.routing.advertisements, message.id):
            return
        self.routing.advertise(session, message.id, message.advertisement, message.cause)

    def _taken(self, session: Session, table: Mapping[str, object], id_: str) -> bool:
        if id_ in table:
            self.tell(session, Refused(id_, f"the id {id_!r} is in use"))
        return id_ in table

    def _end_session(self, session: Session, message: EndSession) -> None:
        self._mark_ending(session, message.cause)
        if message.drain:
            self.drains += 1
            if self.journal is not None:
                self.journal.put("drains", value=self.drains)
            # The incarnation keeps it apart from the markers of an earlier life.
            id_ = f"{self.config.broker}/{self.incarnation}/{self.drains}/{session.name}"
            self.draining.begin(id_, message.cause)
        else:
            self.tell(session, SessionEnded("goodbye"))

    def _mark_ending(self, session: Session, cause: str) -> None:
        """Nothing is for it any more, except what is on the way."""
        self.routing.forget(session, cause)
        session.ending = True
        if self.journal is not None:
            self.journal.put("session", session.name, value=(session.client, True))

    def _drained(self, id_: str) -> None:
        session = self.sessions.get(id_.split("/", 3)[3])
        if session is not None:
            self.tell(session, SessionEnded("everything that you published has passed"))

    def _client_redirected(self, event: ev.ClientRedirected) -> None:
        self.redirect(event.client, event.broker, event.cause)

    def redirect(self, client: str, broker: str, cause: str) -> None:
        """Ask every session of a client to move to another broker."""
        for session in self.sessions.values():
            if session.client == client and not session.ending:
                self.tell(session, Redirect(broker, cause))

    # --- publications -------------------------------------------------------------------------------

    def _publish_from(self, session: Session, publication: Publication) -> None:
        """From a client: only what it may publish, and has advertised."""
        reason = self._objection(session, publication)
        if reason:
            self.tell(session, Refused(publication.id, reason))
        else:
            self.publish(session, publication, 0)

    def _objection(self, session: Session, publication: Publication) -> str:
        if publication.publisher != session.client:
            return f"it is in the name of {publication.publisher!r}, not of {session.client!r}"
        if publication.priority != DATA or self.modules.reserves(publication.event):
            return "its class is reserved for the brokers themselves"
        if self.config.routing == "flooding":
            return ""
        if not self.routing.offered(session, publication.event):
            return "no advertisement of this client covers it"
        return ""

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

        links, local = self.routing.route(publication.event, source)
        self.last_route = (len(links), len(local))
        commands = self._commands
        control = publication.priority != DATA
        for link in links:
            lane = link.channel.control if control else link.channel.data
            number = lane.push(publication, hops + 1)
            if link.greeted:
                frame = Frame(publication.priority, number, publication, hops + 1)
                commands.append(Send(link.connection, frame))  # type: ignore[arg-type]
            if number - lane.acked >= self._link_bound and not link.full:
                link.full = True
                self._set_pauses()
        if local:
            self._deliver(publication, hops, local)
        if self.modules.listening and not control:
            self.modules.routed(source, publication, hops, links, local, self._now)

    def _deliver(self, publication: Publication, hops: int, local: Mapping[Hop, list[str]]) -> None:
        frames: list[tuple[int, Frame]] = []
        for hop, ids in local.items():
            if not isinstance(hop, Session):
                assert isinstance(hop, Inside)
                self.modules.heard(hop, publication, ids, self._now)
                continue
            lane = hop.channel.data
            if lane.sent - lane.acked >= self._session_bound:
                self._overflow(hop)
                continue
            if hop.dropped:
                self.tell(hop, Dropped(hop.dropped))
                hop.dropped = 0
            delivery = Delivery(publication, tuple(ids))
            number = lane.push(delivery, hops)
            if hop.connection is not None:
                frames.append((hop.connection, Frame(DATA, number, delivery, hops)))
        if frames:
            self._commands.append(Deliver(publication, frames))

    # --- full queues --------------------------------------------------------------------------------

    def _overflow(self, session: Session) -> None:
        self.unheard += 1
        if self.config.session_outbox_policy == "drop":
            session.dropped += 1
        elif not session.ending:
            self._mark_ending(session, f"{session.client} is too slow")
            bound = self.config.session_outbox_max
            self.tell(session, SessionEnded(f"more than {bound:,} deliveries were waiting"))

    def _room_again(self, peer: Peer) -> None:
        if peer.full and len(peer.channel.data.outbox) <= self.config.link_outbox_max // 2:
            peer.full = False
            self._set_pauses()

    def _set_pauses(self) -> None:
        """Read no data from whoever could add to a queue that is full.

        That is everybody but the neighbour behind that queue: what comes from it never goes back to it.
        So two neighbours whose queues to each other are full still empty them.
        """
        full = [link for link in self.links.values() if link.full]
        if not full and not self._paused:
            return
        paused = {
            connection: None
            for connection, peer in self._peers.items()
            if peer is not None and any(link is not peer for link in full)
        }
        self._commands.extend(PauseReading(c) for c in paused if c not in self._paused)
        self._commands.extend(ResumeReading(c) for c in self._paused if c not in paused)
        self._paused = paused

    # --- timers, modules, and the rest ---------------------------------------------------------------

    def _timer(self, event: ev.TimerFired) -> None:
        kind, _, name = event.name.partition(":")
        if kind == "acks":
            self._acks_timed = False
            for peer in list(self._unacked):
                self._send_ack(peer)
        elif kind == "dial":
            link = self.links.get(name)
            if link is not None and link.connection is None:
                self._commands.append(OpenLink(name))
        elif kind == "linger":
            session = self.sessions.get(name)
            if session is not None and session.connection is None:
                self._forget_session(session, "it stayed away too long")
        else:
            self.modules.timer(name, self._now)

    def _started(self, event: ev.Started) -> None:
        restoring.restore(self, event.records)
        if self.journal is not None:
            self.boots += 1
            self.journal.put("incarnation", value=self.incarnation)
            self.journal.put("boots", value=self.boots)
        for link in self.links.values():
            if link.dials:
                self._commands.append(OpenLink(link.name))
        for session in self.sessions.values():
            self._commands.append(SetTimer(f"linger:{session.name}", self.config.linger_s))
        self.modules.start(self._now)

    def _load_sampled(self, event: ev.LoadSampled) -> None:
        self.load = event.load
        self.modules.sampled(event.load, self._now)

    def _module_switched(self, event: ev.ModuleSwitched) -> None:
        self.modules.switch(event.module, ModuleState(event.state), self._now)


HANDLERS: dict[type, Any] = {
    ev.Received: Broker._received,
    ev.TimerFired: Broker._timer,
    ev.ConnectionAccepted: Broker._accepted,
    ev.ConnectionClosed: Broker._closed,
    ev.LinkOpened: Broker._link_opened,
    ev.LinkRefused: Broker._link_refused,
    ev.LinkAdded: Broker._link_added,
    ev.LinkRemoved: Broker._link_removed,
    ev.ClientRedirected: Broker._client_redirected,
    ev.LoadSampled: Broker._load_sampled,
    ev.ModuleSwitched: Broker._module_switched,
    ev.Started: Broker._started,
}
LINK_MESSAGES: dict[type[Message], Any] = {
    Advertise: Broker._advertise,
    Unadvertise: Broker._unadvertise,
    Subscribe: Broker._subscribe,
    Unsubscribe: Broker._unsubscribe,
    Marker: Broker._marker,
    MarkerEcho: Broker._marker_echo,
}
SESSION_MESSAGES: dict[type[Message], Any] = {
    Advertise: Broker._client_advertises,
    Unadvertise: Broker._unadvertise,
    Subscribe: Broker._client_subscribes,
    Unsubscribe: Broker._unsubscribe,
    EndSession: Broker._end_session,
}
