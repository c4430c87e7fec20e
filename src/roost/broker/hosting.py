"""Sessions of clients: attached, away, resumed, taken over, sent elsewhere, ended.

A session belongs to one client and has at most one connection: a newer one takes over. A client that is
away is remembered for a while, and what is for it is kept. What a client asks for is checked here; all that
passes is routed.

The session of a *durable publisher* knows the number of the last event that it has accepted, whichever
process it came from, and tells it to the next one. It accepts the next number and no other: what came before
is not routed again, and where one was refused none behind it gets past. The number is part of the same
transaction as the event.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from roost.broker import events as ev
from roost.broker.commands import CancelTimer, Close, Report, Send, SetTimer
from roost.broker.draining import HAND_OVER, SETTLE, marker_id, read_marker_id
from roost.broker.hops import Session
from roost.broker.messages import (
    ASKS_BACK,
    DATA,
    PROTOCOL_VERSION_MIN,
    Advertise,
    Attach,
    Attached,
    AttachRefused,
    Delivery,
    Dropped,
    EndSession,
    HandOver,
    Publication,
    Redirect,
    Refused,
    SessionEnded,
    Settle,
    Settled,
    Subscribe,
)
from roost.broker.permissions import NAME_SEPARATOR, NOBODY, Permission
from roost.broker.quotas import Quotas, owner_of
from roost.broker.restoring import RESTORED
from roost.language import Subscription

if TYPE_CHECKING:
    from roost.broker.core import Broker
    from roost.broker.routing import Entry


# Names of clients and sessions get into causes and ids, which neighbours read within limits of their own.
NAME_LENGTH_MAX = 300
SETTLE_ID_LENGTH_MAX = 100


class Hosting:
    """The sessions of a broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.quotas = Quotas(broker.config)

    def attach(self, connection: int, greeting: Attach) -> None:
        speaks = self._broker.config.version
        if not PROTOCOL_VERSION_MIN <= greeting.version <= speaks:
            # Of a later version it will try again, in our words.
            reason = (
                f"protocol version {greeting.version}; {self._broker.config.broker} speaks {speaks}"
            )
            self._refuse(connection, AttachRefused(reason))
            return
        permission = self._broker.permissions.get(connection)
        session = self._broker.sessions.get(greeting.session)
        objection = self._objection_to(greeting, session, permission)
        if objection:
            self._refuse(connection, AttachRefused(objection))
            return
        is_new = False
        if session is not None and greeting.resume and session.process.startswith(RESTORED):
            # It is older than what its client knows: that is to take it over, as another process would.
            session = None
        if session is not None and not greeting.resume:
            if session.durable and greeting.durable and not session.ending:
                self._take_over(session, greeting.process)
            else:
                self.forget(session, "it was left behind")
                session = None
        resumed = session is not None and greeting.resume
        if session is None and greeting.resume:
            # Not one under the same name: if this answer is lost, the client would take it for its own.
            self._broker.command(Send(connection, Attached(greeting.session, False, 0, 0)))
            return
        if session is None:
            better = self._better_place(greeting)
            if better is not None:
                self._refuse(connection, AttachRefused("please attach there", better))
                return
            objection = self.quotas.objection_to_session(greeting.client, permission)
            if objection:
                self._refuse(connection, AttachRefused(objection))
                return
            session = self.new(
                greeting.session,
                greeting.client,
                durable=greeting.durable,
                process=greeting.process,
                publisher=greeting.publisher,
                published=greeting.published,
                owner=owner_of(greeting.client, permission),
            )
            is_new = greeting.version >= ASKS_BACK
        session.version = greeting.version
        self._broker.own(session, connection)
        self._broker.command(CancelTimer(f"linger:{session.name}"))
        channel = session.channel
        if resumed:
            channel.resume(greeting.control_received, greeting.data_received)
        received = (channel.control.received, channel.data.received)
        data_from = 0 if resumed else channel.data.acked
        counted = ("", 0) if session.published is None else (session.publisher, session.published)
        answer = Attached(session.name, resumed, *received, data_from, *counted, is_new)
        self._broker.command(Send(connection, answer))
        how = "session begun" if is_new else "session resumed" if resumed else "session taken over"
        level = "info" if session.durable else "debug"
        self._broker.command(Report(level, how, session.name, session.client))
        # What it may not have any more is withheld before anything is sent, and refused after.
        session.permission = permission
        self.withhold(session, len(channel.data.outbox))
        self._broker.flow.begin(session)
        if permission is not None:
            self.permit(session, permission)

    def _objection_to(
        self, greeting: Attach, session: Session | None, permission: Permission | None
    ) -> str:
        if permission is not None:
            objection = permission.objection_to_client(greeting.client)
            objection = objection or permission.objection_to_name(greeting.session)
            if objection:
                return objection
        elif self._broker.config.secured:
            return NOBODY
        names = (greeting.client, greeting.session, greeting.publisher)
        if max(map(len, names)) > NAME_LENGTH_MAX:
            return f"a name has more than {NAME_LENGTH_MAX} characters"
        stem = greeting.client + NAME_SEPARATOR
        if greeting.publisher and not (greeting.durable and greeting.publisher.startswith(stem)):
            return (
                f"a durable publisher has a durable session, and a name that begins with {stem!r}"
            )
        if session is None:
            return ""
        if session.client != greeting.client:
            return "the session is somebody else's"
        if (session.published is None) == bool(greeting.publisher):
            return "one session is of a durable publisher, the other one not"
        restored = session.process.startswith(RESTORED)
        if greeting.resume and session.process != greeting.process and not restored:
            return "another process of this client has taken over the session"
        return ""

    def _better_place(self, greeting: Attach) -> str | None:
        """Of a durable publisher there is none: this is where its next process will ask."""
        if greeting.publisher:
            return None
        return self._broker.modules.place(greeting.client, self._broker.now)

    def _take_over(self, session: Session, process: str) -> None:
        """Another process goes on with a durable session, and knows nothing of what was said in it.

        What it is to get, and its numbers, stay as they are: there may be more of it than fits in memory.
        """
        session.channel.begin_again()
        session.process = process
        self._keep(session)

    def permit(self, session: Session, permission: Permission) -> None:
        """From now on it may do this: what it has and what waits for it, but may not have, goes."""
        session.permission = permission
        routing = self._broker.routing
        cause = f"{permission.principal} may do less than before"
        for id_, entry in list(session.subscriptions.items()):
            objection = permission.objection_to_subscription(entry.interest)  # type: ignore[arg-type]
            if objection:
                routing.unsubscribe(session, id_, cause)
                self._broker.tell(session, Refused(id_, objection))
        for id_, entry in list(session.advertisements.items()):
            objection = permission.objection_to_advertisement(entry.interest)  # type: ignore[arg-type]
            if objection:
                routing.unadvertise(session, id_, cause)
                self._broker.tell(session, Refused(id_, objection))
        self.withhold(session, len(session.channel.data.outbox))

    def withhold(self, session: Session, count: int) -> None:
        """Of the last so many messages that wait for it, keep back what it may not have."""
        permission, lane = session.permission, session.channel.data
        if permission is None:
            return
        replaced = False
        for place in range(len(lane.outbox) - count, len(lane.outbox)):
            message = lane.outbox[place].message
            if type(message) is Delivery and not (
                permission.subscribe is not None
                and permission.subscribe.matches(message.publication.event)
            ):
                lane.replace(place, Dropped(1))
                replaced = True
        if replaced and session.connection is not None:
            self._broker.say_instead(session.connection, lane)

    def _refuse(self, connection: int, answer: AttachRefused) -> None:
        self._broker.command(Send(connection, answer))
        self._broker.drop(connection, answer.reason)

    def new(
        self,
        name: str,
        client: str,
        *,
        durable: bool,
        process: str,
        ending: bool = False,
        publisher: str = "",
        published: int = 0,
        owner: str = "",
    ) -> Session:
        session = Session(name, client, self._broker.journal)
        session.owner = owner or client
        session.ending = ending
        session.durable = durable
        session.process = process
        if publisher:
            session.publisher = publisher
            self._count(session, published)
        if durable and self._broker.journal is not None:
            session.channel.data.memory_max = self._broker.config.session_memory_max
        self._broker.sessions[name] = session
        self.quotas.begun(session)
        self._keep(session)
        return session

    def _keep(self, session: Session) -> None:
        if self._broker.journal is not None:
            record = (
                session.client,
                session.ending,
                session.durable,
                session.process,
                session.owner,
            )
            self._broker.journal.put("session", session.name, value=record)

    def _count(self, session: Session, number: int) -> None:
        """The last event that it has accepted."""
        session.published = number
        if self._broker.journal is not None:
            record = (session.publisher, number)
            self._broker.journal.put("published", session.name, value=record)

    def linger(self, session: Session) -> None:
        """It is away: wait for it, but not for ever."""
        config = self._broker.config
        delay_s = config.durable_linger_s if session.durable else config.linger_s
        self._broker.command(SetTimer(f"linger:{session.name}", delay_s))

    def forget(self, session: Session, reason: str) -> None:
        """It is over: nothing of it stays behind."""
        lane = session.channel.data
        unheard = lane.sent - lane.acked
        if unheard:
            self._unheard(unheard)
        if unheard or session.durable:
            detail = f"{reason}; {unheard:,} deliveries were waiting"
            level = "warning" if session.durable else "info"
            self._broker.command(Report(level, "session over", session.name, detail))
        del self._broker.sessions[session.name]
        self.quotas.over(session)
        self._broker.routing.forget(session, f"session of {session.client} is over: {reason}")
        session.channel.forget()
        self._broker.unacked.pop(session, None)
        self._broker.command(CancelTimer(f"linger:{session.name}"))
        if session.connection is not None:
            self._broker.command(Close(session.connection, reason))
            del self._broker.peers[session.connection]
            self._broker.permissions.pop(session.connection, None)
            session.connection = None
        if self._broker.journal is not None:
            self._broker.journal.delete("session", session.name)
            if session.dropped:
                self._broker.journal.delete("dropped", session.name)
            if session.published is not None:
                self._broker.journal.delete("published", session.name)

    def subscribes(self, session: Session, message: Subscribe) -> None:
        if session.ending or self._taken(session, self._broker.routing.subscriptions, message.id):
            return
        objection = self._objection_to_subscription(session, message.subscription)
        if objection:
            self._broker.tell(session, Refused(message.id, objection))
            return
        self._broker.routing.subscribe(session, message.id, message.subscription, message.cause)

    def _objection_to_subscription(self, session: Session, subscription: Subscription) -> str:
        objection = self.quotas.objection_to_subscription(session)
        if objection or session.permission is None:
            return objection
        return session.permission.objection_to_subscription(subscription)

    def advertises(self, session: Session, message: Advertise) -> None:
        if session.ending or self._taken(session, self._broker.routing.advertisements, message.id):
            return
        objection = self.quotas.objection_to_advertisement(session)
        if not objection and session.permission is not None:
            objection = session.permission.objection_to_advertisement(message.advertisement)
        if objection:
            self._broker.tell(session, Refused(message.id, objection))
            return
        self._broker.routing.advertise(session, message.id, message.advertisement, message.cause)

    def _taken(self, session: Session, table: Mapping[str, Entry], id_: str) -> bool:
        objection = "" if session.permission is None else session.permission.objection_to_name(id_)
        if objection:
            self._broker.tell(session, Refused(id_, objection))
            return True
        there = table.get(id_)
        if there is None or (there.hop is session and session.durable):
            return False  # the next process of a durable session says again what it wants
        self._broker.tell(session, Refused(id_, f"the id {id_!r} is in use"))
        return True

    def ends(self, session: Session, message: EndSession) -> None:
        if session.leaving:
            return  # it has said so before
        session.leaving = True
        self._mark_ending(session, message.cause)
        self._say_ended(session, "goodbye")

    def dismiss(self, event: ev.SessionDismissed) -> None:
        """The operator has enough of a session."""
        session = self._broker.sessions.get(event.session)
        if session is None or session.ending:
            return
        if session.connection is None:
            self.forget(session, event.reason)
        else:
            self._mark_ending(session, event.reason)
            self._say_ended(session, event.reason)

    def hands_over(self, session: Session, message: HandOver) -> None:
        if not session.leaving:
            session.leaving = True
            self._drain(session, HAND_OVER, "", message.cause)

    def settles(self, session: Session, message: Settle) -> None:
        links = self._broker.links.values()
        waiting = [link.channel.data for link in links if not link.excused]
        bound = self._broker.config.link_outbox_max
        if "/" in message.id or len(message.id) > SETTLE_ID_LENGTH_MAX:
            reason = f"an id to settle has at most {SETTLE_ID_LENGTH_MAX} characters, and no '/'"
            self._broker.tell(session, Refused(message.id, reason))
        elif any(lane.sent - lane.acked >= bound for lane in waiting):
            self._broker.tell(session, Refused(message.id, "too much waits for a neighbour"))
        else:
            self._drain(session, SETTLE, message.id, message.cause)

    def _drain(self, session: Session, purpose: str, argument: str, cause: str) -> None:
        broker = self._broker
        broker.drains += 1
        if broker.journal is not None:
            broker.journal.put("drains", value=broker.drains)
        life = f"{broker.config.broker}/{broker.incarnation}"
        id_ = marker_id(life, broker.drains, purpose, argument, session.name)
        broker.draining.begin(id_, cause)

    def _mark_ending(self, session: Session, cause: str) -> None:
        """Nothing is for it any more, except what is on the way."""
        self._broker.routing.forget(session, cause)
        session.ending = True
        self._keep(session)

    def drained(self, id_: str, missing: tuple[str, ...]) -> None:
        purpose, argument, name = read_marker_id(id_)
        session = self._broker.sessions.get(name)
        if session is None:
            return
        if purpose == SETTLE:
            known = session.version >= ASKS_BACK
            self._broker.tell(session, Settled(argument, missing if known else ()))
        else:
            self._mark_ending(session, f"{session.client} is elsewhere")
            self._say_ended(session, "all that was on the way has passed")

    def _say_ended(self, session: Session, reason: str) -> None:
        session.ended = True
        if session.dropped:  # there will be no delivery ahead of which it could be told
            self._broker.tell(session, Dropped(session.dropped))
            self.drop(session, 0)
        self._broker.tell(session, SessionEnded(reason))

    def redirect(self, client: str, broker: str, cause: str) -> None:
        """Ask every session of a client to move to another broker; a durable publisher stays."""
        for session in self._broker.sessions.values():
            if session.client == client and not session.ending and session.published is None:
                self._broker.tell(session, Redirect(broker, cause))
                self._broker.command(Report("info", "client redirected", client, broker))

    def publishes(self, session: Session, publication: Publication) -> None:
        """From a client: only what it may publish, and has advertised."""
        reason = self._objection(session, publication)
        if session.published is not None:
            self._publishes_next(session, session.published, publication, reason)
        elif reason:
            self._broker.tell(session, Refused(publication.id, reason))
        else:
            modules = self._broker.modules
            if modules.tracing:
                publication = modules.traced(publication, self._broker.now)
            self._broker.publish(session, publication, 0)

    def _publishes_next(
        self, session: Session, last: int, publication: Publication, reason: str
    ) -> None:
        """From a durable publisher: the next number, and none twice."""
        number = publication.sequence
        if number <= last and publication.publisher == session.publisher:
            self._broker.duplicates += 1
        elif reason or number != last + 1:
            reason = reason or f"number {last + 1} has to come first"
            self._broker.tell(session, Refused(publication.id, reason))
        else:
            self._count(session, number)
            self._broker.publish(session, publication, 0)

    def _objection(self, session: Session, publication: Publication) -> str:
        if self._broker.store_is_full and self._broker.config.store_full_policy == "refuse":
            return "the store of this broker is full"
        if publication.publisher != session.publisher:
            return f"it is in the name of {publication.publisher!r}, not of {session.publisher!r}"
        if publication.priority != DATA or self._broker.modules.reserves(publication.event):
            return "its class is reserved for the brokers themselves"
        if publication.traced:
            return "only brokers say what is traced"
        if self._broker.config.routing == "flooding":
            permission = session.permission
            return "" if permission is None else permission.objection_to_event(publication.event)
        if not self._broker.routing.offered(session, publication.event):
            return "no advertisement of this client covers it"
        return ""

    def overflow(self, session: Session) -> None:
        self._unheard(1)
        config = self._broker.config
        if config.session_outbox_policy == "drop" or self._broker.store_is_full:
            self.drop(session, session.dropped + 1)
        elif not session.ending and session.channel.data.memory_max:
            reason = f"more than {config.user_kept_bytes_max:,} bytes wait for {session.owner!r}"
            if session.connection is None:
                self.forget(session, reason)  # what waits for nobody takes the room of others
            else:
                self._end(session, reason)
        elif not session.ending:
            lane = session.channel.data
            if lane.sent - lane.acked >= config.session_outbox_max:
                what = f"{config.session_outbox_max:,} deliveries"
            else:
                what = f"{config.session_outbox_bytes_max:,} bytes"
            self._end(session, f"more than {what} were waiting")

    def drop(self, session: Session, count: int) -> None:
        """So many deliveries were not kept that its client has not been told of; also after a crash."""
        session.dropped = count
        if self._broker.journal is not None:
            self._broker.journal.put("dropped", session.name, value=count)

    def _unheard(self, count: int) -> None:
        self._broker.unheard += count
        if self._broker.journal is not None:
            self._broker.journal.put("unheard", value=self._broker.unheard)

    def _end(self, session: Session, reason: str) -> None:
        """The broker has enough of it."""
        self._broker.command(Report("warning", "session ended", session.name, reason))
        self._mark_ending(session, f"{session.client} is too slow")
        self._say_ended(session, reason)
