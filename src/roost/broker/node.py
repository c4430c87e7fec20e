"""What any server needs to talk: connections, peers, channels, links, sessions, flow, permissions, the store.

A node knows how parcels become messages and how messages go out; what they mean is the business of the
machine that it is the ground of. A machine is built in steps: the node; whatever speaks through it
(`flow.tell`); whom links and sessions concern (`host`); who listens (`listen`). A broker is a node, a router
and modules (`core`).

    connection accepted -> unknown -> greeted: a neighbour's (`links`) or a client's (`sessions`)
    frame               -> numbered in its channel, once and in order; then to whoever listens to that message
    anything else       -> a greeting, or an acknowledgement
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from roost.broker import events as ev
from roost.broker.acknowledging import TIMER as ACKS
from roost.broker.acknowledging import Acknowledging
from roost.broker.commands import Command, Send
from roost.broker.config import BrokerConfig
from roost.broker.errors import RemoteProtocolError
from roost.broker.flow import TIMER as FLOW
from roost.broker.flow import Flow
from roost.broker.hops import Link, Session
from roost.broker.identity import Identity
from roost.broker.links import TIMER as DIAL
from roost.broker.links import Links, Neighbourhood
from roost.broker.messages import (
    DATA,
    Ack,
    Attach,
    AttachRefused,
    Frame,
    LinkHello,
    Message,
    Parcel,
    Ping,
    Pong,
    Publication,
)
from roost.broker.names import Address
from roost.broker.patience import TIMER as PATIENCE
from roost.broker.patience import Patience
from roost.broker.pausing import Pausing
from roost.broker.peers import Peers
from roost.broker.sessions import TIMER as LINGER
from roost.broker.sessions import Interests, Sessions
from roost.broker.work import Work

Listeners = Mapping[type[Message], Callable[[Any, Any], object]]


class Node:
    """The ground of a machine."""

    def __init__(self, config: BrokerConfig) -> None:
        self.config = config
        self.identity = Identity(config.broker, config.incarnation)
        self.work = work = Work(durable=config.durable)
        self.links: dict[str, Link] = {}
        self.sessions: dict[str, Session] = {}
        self.pausing = Pausing(work, config.link_outbox_max)
        self.patience = Patience(
            work, self.pausing, config.session_outbox_max, config.session_outbox_bytes_max
        )
        self._waited = self.patience.waited  # at hand for the hot paths
        self.flow = Flow(
            work,
            self.links,
            self.sessions,
            link_bound=config.link_outbox_max,
            patience=self.patience,
            refilled=self._refilled,
        )
        self.acknowledging = Acknowledging(work, config)
        self.peers = Peers(work, self.flow, self.acknowledging, self.pausing, self._lost)
        self.owed = self.acknowledging.owed  # at hand for the hot paths
        self._ack_every = config.ack_every

    def host(
        self,
        *,
        neighbourhood: Neighbourhood,
        interests: Interests,
        place: Callable[[str], Address | None],
        arriving: Callable[[str], None] = lambda _: None,
        over: Callable[[str], None] = lambda _: None,
        left: Callable[[Session], None] = lambda _: None,
    ) -> None:
        """Whom links and sessions concern."""
        config, work, flow, peers = self.config, self.work, self.flow, self.peers
        self.linked = Links(
            config, self.identity, work, self.links, peers, flow, self.pausing, neighbourhood
        )
        self.hosted = Sessions(
            config,
            self.identity,
            work,
            self.sessions,
            peers,
            flow,
            self.pausing,
            interests,
            place,
            arriving=arriving,
            over=over,
            left=left,
        )

    def listen(
        self,
        *,
        from_link: Callable[[Link, Publication, int], None],
        from_session: Callable[[Session, Publication], None],
        link_messages: Listeners,
        session_messages: Listeners,
    ) -> None:
        """Who listens: to events, from neighbours and from clients, and to all other messages."""
        self._from_link = from_link
        self._from_session = from_session
        self._link_messages = link_messages
        self._session_messages = session_messages

    def events(self) -> dict[type, Callable[[Any], object]]:
        """Who handles what happens to any machine on a node."""
        return {
            ev.Received: self.received,
            ev.ConnectionAccepted: self.accepted,
            ev.ConnectionClosed: self.closed,
            ev.Identified: self.identified,
            ev.Congested: self.congested,
            ev.Relieved: self.relieved,
            ev.LinkOpened: self.linked.opened,
            ev.LinkRefused: self.linked.refused,
            ev.NeighboursConfigured: self.linked.configured,
            ev.LinkAdded: self.linked.added,
            ev.LinkRemoved: self.linked.removed,
            ev.SessionDismissed: self.hosted.dismiss,
            ev.StoreFilled: self.hosted.filled,
            ev.Fetched: self.flow.fetched,
        }

    # --- connections --------------------------------------------------------------------------------

    def accepted(self, event: ev.ConnectionAccepted) -> None:
        self.peers.accepted(event.connection)

    def closed(self, event: ev.ConnectionClosed) -> None:
        self.peers.closed(event.connection, event.reason)

    def _lost(self, peer: Link | Session, reason: str) -> None:
        if isinstance(peer, Link):
            self.linked.closed(peer, reason)
        else:
            self.hosted.closed(peer)

    def _refilled(self, session: Session, count: int) -> None:
        self.hosted.withhold(session, count)

    def identified(self, event: ev.Identified) -> None:
        peers = self.peers
        if event.connection in peers.on:  # else it has gone meanwhile
            peers.permissions[event.connection] = event.permission
            peer = peers.on[event.connection]
            if isinstance(peer, Session):
                self.hosted.permit(peer, event.permission)

    def congested(self, event: ev.Congested) -> None:
        peer = self.peers.on.get(event.connection)
        if peer is not None:
            self.flow.congested(peer)

    def relieved(self, event: ev.Relieved) -> None:
        peer = self.peers.on.get(event.connection)
        if peer is not None:
            self.flow.relieved(peer)

    # --- what comes ---------------------------------------------------------------------------------

    def received(self, event: ev.Received) -> None:
        connection = event.connection
        peers = self.peers.on
        if connection not in peers:
            return  # it was closed while this was on the way
        volatile = self.work.journal is None
        from_link, from_session = self._from_link, self._from_session
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
                if volatile and parcel.sequence == lane.received + 1:
                    lane.received = parcel.sequence  # what `accept` would do, and mostly does
                elif not lane.accept(parcel.sequence):
                    continue  # it has been here before
                message = parcel.message
                if type(message) is not Publication:
                    self._heard(peer, message)
                elif peer.is_link:
                    from_link(peer, message, parcel.hops)  # type: ignore[arg-type]
                else:
                    from_session(peer, message)  # type: ignore[arg-type]
        except RemoteProtocolError as error:
            self.work.command(Send(connection, AttachRefused(str(error))))
            self.peers.drop(connection, str(error))
            return
        peer = peers.get(connection)
        if peer is not None:
            self.heard_from(peer)

    def heard_from(self, peer: Link | Session) -> None:
        """All that came from it together has been looked at: it is owed an acknowledgement."""
        channel = peer.channel
        # Mostly nothing waits for it.
        if channel.control.outbox and isinstance(peer, Session) and self.hosted.is_deaf(peer):
            return
        data = channel.data
        # Once it is on the list, only the bound can make it more urgent.
        if peer not in self.owed or data.received - data.reported >= self._ack_every:
            self.acknowledging.owe(peer)

    def _greeting_or_ack(
        self, connection: int, peer: Link | Session | None, parcel: Parcel
    ) -> None:
        if isinstance(parcel, Ack) and peer is not None:
            peer.channel.acknowledged(parcel)
            if isinstance(peer, Link):
                self.pausing.room_again(peer)
            else:
                self.patience.heard(peer)
                if connection in self.pausing.held:
                    self.hosted.heard(peer, connection)
            if peer.channel.data.spilled:
                self.flow.refill(peer)
        elif isinstance(parcel, AttachRefused):
            if isinstance(peer, Link):
                self.linked.turned_away(peer, parcel.reason)
            self.peers.drop(connection, parcel.reason)
        elif peer is not None and (isinstance(peer, Session) or peer.greeted):
            raise RemoteProtocolError(f"{type(parcel).__name__} came after a greeting")
        elif isinstance(parcel, LinkHello):
            self.linked.greet(connection, parcel)
        elif isinstance(parcel, Attach):
            self.hosted.attach(connection, parcel)
        elif isinstance(parcel, Ping):
            self.work.command(Send(connection, Pong(parcel.number)))
        else:
            raise RemoteProtocolError(f"{type(parcel).__name__} came where a greeting was expected")

    def _heard(self, peer: Link | Session, message: Message) -> None:
        listeners = self._link_messages if peer.is_link else self._session_messages
        listener = listeners.get(type(message))
        if listener is None:
            raise RemoteProtocolError(f"{type(message).__name__} is not for a broker to hear")
        listener(peer, message)

    def take_ack(self, connection: int, ack: Ack) -> bool:
        """The short way for a client's acknowledgement; False: it was not that simple, `handle` it."""
        peer = self.peers.on.get(connection)
        if not isinstance(peer, Session) or self.work.journal is not None:
            return False
        waited = self._waited
        if peer.congested or (waited and peer in waited):
            return False
        data = peer.channel.data
        if ack.control > peer.channel.control.acked or ack.data > data.sent:
            return False
        data.acknowledged(ack.data)
        return True

    def take(self, connection: int, frame: Frame, now: float) -> list[Command] | None:
        """The short way for most of a server's work: a neighbour's next publication, and no more.

        None: it was not that simple, `handle` it. The two ways end in the same state.
        """
        peer = self.peers.on.get(connection)
        message = frame.message
        if not isinstance(peer, Link) or type(message) is not Publication:
            return None
        lane = peer.channel.data
        number = frame.sequence
        work = self.work
        if (
            work.journal is not None
            or frame.priority != DATA
            or number != lane.received + 1
            or number - lane.reported >= self._ack_every
            or peer not in self.owed
        ):
            return None
        lane.received = number
        commands: list[Command] = []
        work.commands = commands  # what `begin` would do; this way is for speed
        work.now = now
        self._from_link(peer, message, frame.hops)
        return commands

    # --- timers, and the beginning --------------------------------------------------------------------

    def timer(self, kind: str, name: str) -> bool:
        """Whether it was one of the node's."""
        if kind == ACKS:
            self.acknowledging.timer()
        elif kind == DIAL:
            self.linked.timer(name)
        elif kind == LINGER:
            self.hosted.timer(name)
        elif kind == FLOW:
            self.flow.timer(name)
        elif kind == PATIENCE:
            self.patience.timer(name)
        else:
            return False
        return True

    def start(self) -> None:
        """Everything that it remembers is away."""
        self.identity.begin(self.work.journal)
        for link in self.links.values():
            self.linked.dial(link)
        for session in self.sessions.values():
            self.hosted.linger(session)
