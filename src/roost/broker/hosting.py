"""Sessions of clients: attached, away, resumed, taken over, sent elsewhere, ended.

A session belongs to one client and has at most one connection: a newer one takes over. A client that is
away is remembered for a while, and what is for it is kept. What a client asks for is checked here; all that
passes is routed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from roost.broker.commands import CancelTimer, Close, Send
from roost.broker.hops import Session
from roost.broker.messages import (
    DATA,
    PROTOCOL_VERSION,
    Advertise,
    Attach,
    Attached,
    AttachRefused,
    EndSession,
    Publication,
    Redirect,
    Refused,
    SessionEnded,
    Subscribe,
)

if TYPE_CHECKING:
    from roost.broker.core import Broker


class Hosting:
    """The sessions of a broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def attach(self, connection: int, greeting: Attach) -> None:
        if greeting.version != PROTOCOL_VERSION:
            reason = (
                f"protocol version {greeting.version};"
                f" {self._broker.config.broker} speaks {PROTOCOL_VERSION}"
            )
            self._refuse(connection, AttachRefused(reason))
            return
        session = self._broker.sessions.get(greeting.session)
        if session is not None and session.client != greeting.client:
            self._refuse(connection, AttachRefused("the session is somebody else's"))
            return
        if session is not None and not greeting.resume:
            self.forget(session, "it was left behind")
            session = None
        resumed = session is not None
        if session is None and greeting.resume:
            # Not one under the same name: if this answer is lost, the client would take it for its own.
            self._broker.command(Send(connection, Attached(greeting.session, False, 0, 0)))
            return
        if session is None:
            better = self._broker.modules.place(greeting.client, self._broker.now)
            if better is not None:
                self._refuse(connection, AttachRefused("please attach there", better))
                return
            session = self.new(greeting.session, greeting.client)
        self._broker.own(session, connection)
        self._broker.command(CancelTimer(f"linger:{session.name}"))
        channel = session.channel
        missing = (
            channel.resume(greeting.control_received, greeting.data_received) if resumed else []
        )
        answer = Attached(session.name, resumed, channel.control.received, channel.data.received)
        self._broker.command(Send(connection, answer))
        for frame in missing:
            self._broker.command(Send(connection, frame))
        self._broker.set_pauses()

    def _refuse(self, connection: int, answer: AttachRefused) -> None:
        self._broker.command(Send(connection, answer))
        self._broker.drop(connection, answer.reason)

    def new(self, name: str, client: str, *, ending: bool = False) -> Session:
        session = Session(name, client, self._broker.journal)
        session.ending = ending
        self._broker.sessions[name] = session
        if self._broker.journal is not None:
            self._broker.journal.put("session", name, value=(client, ending))
        return session

    def forget(self, session: Session, reason: str) -> None:
        """It is over: nothing of it stays behind."""
        self._broker.unheard += len(session.channel.data.outbox)
        del self._broker.sessions[session.name]
        self._broker.routing.forget(session, f"session of {session.client} is over: {reason}")
        session.channel.forget()
        self._broker.unacked.pop(session, None)
        self._broker.command(CancelTimer(f"linger:{session.name}"))
        if session.connection is not None:
            self._broker.command(Close(session.connection, reason))
            del self._broker.peers[session.connection]
            session.connection = None
        if self._broker.journal is not None:
            self._broker.journal.delete("session", session.name)

    def subscribes(self, session: Session, message: Subscribe) -> None:
        if session.ending or self._taken(session, self._broker.routing.subscriptions, message.id):
            return
        self._broker.routing.subscribe(session, message.id, message.subscription, message.cause)

    def advertises(self, session: Session, message: Advertise) -> None:
        if session.ending or self._taken(session, self._broker.routing.advertisements, message.id):
            return
        self._broker.routing.advertise(session, message.id, message.advertisement, message.cause)

    def _taken(self, session: Session, table: Mapping[str, object], id_: str) -> bool:
        if id_ in table:
            self._broker.tell(session, Refused(id_, f"the id {id_!r} is in use"))
        return id_ in table

    def ends(self, session: Session, message: EndSession) -> None:
        self._mark_ending(session, message.cause)
        if message.drain:
            broker = self._broker
            broker.drains += 1
            if broker.journal is not None:
                broker.journal.put("drains", value=broker.drains)
            # The incarnation keeps it apart from the markers of an earlier life.
            life = f"{broker.config.broker}/{broker.incarnation}"
            broker.draining.begin(f"{life}/{broker.drains}/{session.name}", message.cause)
        else:
            self._say_ended(session, "goodbye")

    def _mark_ending(self, session: Session, cause: str) -> None:
        """Nothing is for it any more, except what is on the way."""
        self._broker.routing.forget(session, cause)
        session.ending = True
        if self._broker.journal is not None:
            self._broker.journal.put("session", session.name, value=(session.client, True))

    def drained(self, id_: str) -> None:
        session = self._broker.sessions.get(id_.split("/", 3)[3])
        if session is not None:
            self._say_ended(session, "everything that you published has passed")

    def _say_ended(self, session: Session, reason: str) -> None:
        session.ended = True
        self._broker.tell(session, SessionEnded(reason))

    def redirect(self, client: str, broker: str, cause: str) -> None:
        """Ask every session of a client to move to another broker."""
        for session in self._broker.sessions.values():
            if session.client == client and not session.ending:
                self._broker.tell(session, Redirect(broker, cause))

    def publishes(self, session: Session, publication: Publication) -> None:
        """From a client: only what it may publish, and has advertised."""
        reason = self._objection(session, publication)
        if reason:
            self._broker.tell(session, Refused(publication.id, reason))
        else:
            self._broker.publish(session, publication, 0)

    def _objection(self, session: Session, publication: Publication) -> str:
        if publication.publisher != session.client:
            return f"it is in the name of {publication.publisher!r}, not of {session.client!r}"
        if publication.priority != DATA or self._broker.modules.reserves(publication.event):
            return "its class is reserved for the brokers themselves"
        if self._broker.config.routing == "flooding":
            return ""
        if not self._broker.routing.offered(session, publication.event):
            return "no advertisement of this client covers it"
        return ""

    def overflow(self, session: Session) -> None:
        self._broker.unheard += 1
        if self._broker.config.session_outbox_policy == "drop":
            session.dropped += 1
        elif not session.ending:
            self._mark_ending(session, f"{session.client} is too slow")
            bound = self._broker.config.session_outbox_max
            self._say_ended(session, f"more than {bound:,} deliveries were waiting")
