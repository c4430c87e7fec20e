"""Sessions of clients: attached, away, resumed, taken over, permitted less, ended.

A session belongs to one client and has at most one connection: a newer one takes over. A client that is
away is remembered for a while, and what is for it is kept, within bounds. What a client may do is checked
against its permission, here when that changes and in `requests` when it asks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from roost.broker import events as ev
from roost.broker.commands import CancelTimer, Report, Send, SetTimer
from roost.broker.config import BrokerConfig
from roost.broker.epochs import Epochs
from roost.broker.flow import Flow, size_in_memory
from roost.broker.hops import Hop, Session
from roost.broker.identity import Identity
from roost.broker.messages import (
    ASKS_BACK,
    PROTOCOL_VERSION_MIN,
    Attach,
    Attached,
    AttachRefused,
    Delivery,
    Done,
    Dropped,
    Publication,
    Refused,
    SessionEnded,
)
from roost.broker.names import Address
from roost.broker.pausing import Pausing
from roost.broker.peers import Peers
from roost.broker.permissions import NAME_SEPARATOR, NOBODY, Permission
from roost.broker.quotas import Quotas, owner_of
from roost.broker.work import Work

# Names of clients and sessions get into causes and ids, which neighbours read within limits of their own.
NAME_LENGTH_MAX = 300
# The process that has a session which came from a backup: nobody can go on with its numbers.
RESTORED = "restored:"
TIMER = "linger"
# At this part of the answers at which it is over, a session's data is read no further.
PAUSE_PART = 4


class Interests(Protocol):
    """Where what sessions have asked for is withdrawn: the router."""

    def unsubscribe(self, hop: Hop, id_: str, cause: str) -> None: ...

    def unadvertise(self, hop: Hop, id_: str, cause: str) -> None: ...

    def forget(self, hop: Hop, cause: str) -> None: ...


class Sessions:
    """The sessions of a node. `place(client)`: the address at which a new client had better be, if any."""

    def __init__(
        self,
        config: BrokerConfig,
        identity: Identity,
        work: Work,
        sessions: dict[str, Session],
        peers: Peers,
        flow: Flow,
        pausing: Pausing,
        router: Interests,
        place: Callable[[str], Address | None],
        *,
        arriving: Callable[[str], None],
        over: Callable[[str], None],
        left: Callable[[Session], None],
    ) -> None:
        self._config = config
        self._identity = identity
        self._epochs = Epochs(identity, work)
        self._work = work
        self._sessions = sessions
        self._peers = peers
        self._flow = flow
        self._pausing = pausing
        self._router = router
        self._place = place
        self._arriving = arriving  # a client is moved here
        self._over = over  # the session of this name
        self._left = left  # this was the last session of its client here
        self.quotas = Quotas(config)
        self.store_is_full = False
        self.unheard = 0  # deliveries that nobody waits for any more, or that did not fit

    def attach(self, connection: int, greeting: Attach) -> None:
        speaks = self._config.session_version
        if not PROTOCOL_VERSION_MIN <= greeting.version <= speaks:
            # Of a later version it will try again, in our words.
            reason = f"protocol version {greeting.version}; {self._config.broker} speaks {speaks}"
            self._refuse(connection, AttachRefused(reason))
            return
        superseded = self._epochs.objection_to_client(greeting)
        if superseded:
            self._refuse(connection, AttachRefused(superseded, transient=True))
            return
        permission = self._peers.permissions.get(connection)
        session = self._sessions.get(greeting.session)
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
                # Or the one that began it did not live to hear that, and the next would never know.
                is_new = session.is_blank and greeting.version >= ASKS_BACK
                self._take_over(session, greeting.process)
            else:
                self.forget(session, "it was left behind")
                session = None
        resumed = session is not None and greeting.resume
        if session is None and greeting.resume:
            # Not one under the same name: if this answer is lost, the client would take it for its own.
            unknown = Attached(greeting.session, False, 0, 0, 0, "", 0, False, *self._who_answers())
            self._work.command(Send(connection, unknown))
            return
        was_there = session is not None
        if session is None:
            # Of a durable publisher there is none: this is where its next process will ask.
            better = None if greeting.publisher else self._place(greeting.client)
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
            if greeting.cause:
                self._arriving(greeting.client)
        session.version = greeting.version
        self._peers.own(session, connection)
        if was_there:
            self._work.command(CancelTimer(f"{TIMER}:{session.name}"))
        channel = session.channel
        if resumed:
            channel.resume(greeting.control_received, greeting.data_received)
        counted = ("", 0) if session.published is None else (session.publisher, session.published)
        answer = Attached(
            session.name,
            resumed,
            channel.control.received,
            channel.data.received,
            0 if resumed else channel.data.acked,
            counted[0],
            counted[1],
            is_new,
            *self._who_answers(),
        )
        self._work.command(Send(connection, answer))
        taken_over = "session taken over" if was_there and not is_new else "session begun"
        how = "session resumed" if resumed else taken_over
        level = "info" if session.durable else "debug"
        self._work.command(Report(level, how, session.name, session.client))
        # What it may not have any more is withheld before anything is sent, and refused after.
        session.permission = permission
        self.withhold(session, channel.data.waiting)
        self._flow.begin(session)
        if permission is not None:
            self.permit(session, permission)

    def _who_answers(self) -> tuple[str, int, str]:
        """Said only where there are two who might."""
        here = self._identity
        return (here.name, here.epoch, here.beside) if here.epoch else ("", 0, "")

    def _objection_to(
        self, greeting: Attach, session: Session | None, permission: Permission | None
    ) -> str:
        if permission is not None:
            objection = permission.objection_to_client(greeting.client)
            objection = objection or permission.objection_to_name(greeting.session)
            if objection:
                return objection
        elif self._config.secured:
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

    def _take_over(self, session: Session, process: str) -> None:
        """Another process goes on with a durable session, and knows nothing of what was said in it.

        What it is to get, and its numbers, stay as they are: there may be more of it than fits in memory.
        """
        session.channel.begin_again()
        session.process = process
        session.barred = 0
        session.keep()

    def permit(self, session: Session, permission: Permission) -> None:
        """From now on it may do this: what it has and what waits for it, but may not have, goes."""
        session.permission = permission
        cause = f"{permission.principal} may do less than before"
        for id_, entry in list(session.subscriptions.items()):
            objection = permission.objection_to_subscription(entry.interest)  # type: ignore[arg-type]
            if objection:
                self._router.unsubscribe(session, id_, cause)
                self._flow.tell(session, Refused(id_, objection))
        for id_, entry in list(session.advertisements.items()):
            objection = permission.objection_to_advertisement(entry.interest)  # type: ignore[arg-type]
            if objection:
                self._router.unadvertise(session, id_, cause)
                self._flow.tell(session, Refused(id_, objection))
        self.withhold(session, session.channel.data.waiting)

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
            self._work.say_instead(session.connection, lane)

    def done(self, session: Session, message: Done) -> None:
        """These need not come again, whoever has the session next.

        What is in the store only has not been with the client, so it can't be done with it.
        """
        lane = session.channel.data
        looked_at, end = lane.acked, lane.acked + len(lane.outbox)
        for first, last in message.spans if session.durable else ():
            for number in range(max(first, looked_at + 1), min(last, end) + 1):
                looked_at = number  # so that each is looked at once, whatever is said
                place = number - lane.acked - 1
                if type(lane.outbox[place].message) is Delivery:
                    lane.replace(place, Dropped(0))

    def _refuse(self, connection: int, answer: AttachRefused) -> None:
        self._work.command(Send(connection, answer))
        self._peers.drop(connection, answer.reason)

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
        session = Session(name, client, self._work.journal)
        session.owner = owner or client
        session.ending = ending
        session.durable = durable
        session.process = process
        if publisher:
            session.publisher = publisher
            session.count(published)
        if durable and self._work.journal is not None:
            session.channel.data.memory_max = self._config.session_memory_max
        self._sessions[name] = session
        self.quotas.begun(session)
        session.keep()
        return session

    def linger(self, session: Session) -> None:
        """It is away: wait for it, but not for ever."""
        config = self._config
        delay_s = config.durable_linger_s if session.durable else config.linger_s
        self._work.command(SetTimer(f"{TIMER}:{session.name}", delay_s))

    def closed(self, session: Session) -> None:
        """Its connection is gone."""
        lane = session.channel.data
        if session.ended and lane.acked == lane.sent:
            self.forget(session, "it has left")
        else:
            self.linger(session)

    def timer(self, name: str) -> None:
        session = self._sessions.get(name)
        if session is not None and session.connection is None:
            self._give_up(session, "it stayed away too long")

    def _give_up(self, session: Session, reason: str) -> None:
        """It is over, without its having said so."""
        self._mark_given_up(session)
        self.forget(session, reason)

    def _mark_given_up(self, session: Session) -> None:
        if not session.leaving and not session.ending:
            session.departure = "given up"

    def forget(self, session: Session, reason: str) -> None:
        """It is over: nothing of it stays behind."""
        lane = session.channel.data
        unheard = lane.sent - lane.acked
        if unheard:
            self._unheard(unheard)
        if unheard or session.durable:
            detail = f"{reason}; {unheard:,} deliveries were waiting"
            level = "warning" if session.durable else "info"
            self._work.command(Report(level, "session over", session.name, detail))
        del self._sessions[session.name]
        self.quotas.over(session)
        self._router.forget(session, f"session of {session.client} is over: {reason}")
        self._over(session.name)
        session.forget()
        self._work.command(CancelTimer(f"{TIMER}:{session.name}"))
        self._peers.disown(session, reason)
        if not self.quotas.has(session):
            self._left(session)

    def is_deaf(self, session: Session) -> bool:
        """Whether it asks, and doesn't listen to the answers: it is over then.

        Before that its data is read no further until it has heard what there is: many events that were on the
        way together may be refused together.
        """
        waiting, bound = len(session.channel.control.outbox), self._config.quotas.answers
        if waiting <= bound // PAUSE_PART or session.connection is None:
            return False
        if session.connection not in self._pausing.held:
            # Of what came together with the one too many, all was answered: that is no fault of its own.
            session.answers_held = waiting
            self._pausing.hold(session.connection)
            return False
        if waiting <= max(bound, session.answers_held + bound // PAUSE_PART):
            return False
        self._give_up(session, "it acknowledges nothing")
        return True

    def heard(self, session: Session, connection: int) -> None:
        """It has acknowledged something."""
        if len(session.channel.control.outbox) * 2 <= self._config.quotas.answers // PAUSE_PART:
            self._pausing.release(connection)

    def dismiss(self, event: ev.SessionDismissed) -> None:
        """The operator has enough of a session."""
        session = self._sessions.get(event.session)
        if session is None or session.ending:
            return
        if session.connection is None:
            self._give_up(session, event.reason)
        else:
            self._mark_given_up(session)
            self.mark_ending(session, event.reason)
            self.say_ended(session, event.reason)

    def mark_ending(self, session: Session, cause: str) -> None:
        """Nothing is for it any more, except what is on the way."""
        self._router.forget(session, cause)
        session.ending = True
        session.keep()

    def say_ended(self, session: Session, reason: str) -> None:
        session.ended = True
        if session.dropped:  # there will be no delivery ahead of which it could be told
            self._flow.tell(session, Dropped(session.dropped))
            session.drop(0)
        self._flow.tell(session, SessionEnded(reason))

    def filled(self, event: ev.StoreFilled) -> None:
        """The store has no room, or has room again."""
        self.store_is_full = event.is_full

    # --- queues that are full ------------------------------------------------------------------------

    def room(self, session: Session, publication: Publication) -> bool:
        """Whether one more delivery fits, for a client that is behind; it is counted then."""
        if self.store_is_full:
            return False
        lane, config = session.channel.data, self._config
        size = size_in_memory(publication)
        if lane.memory_max:
            return not self.quotas.objection_to_keeping(session, size)
        if (
            lane.sent - lane.acked >= config.session_outbox_max
            or session.held_bytes + size > config.session_outbox_bytes_max
        ):
            return False
        session.held_bytes += size
        return True

    def overflow(self, session: Session) -> None:
        self._unheard(1)
        config = self._config
        if config.session_outbox_policy == "drop" or self.store_is_full:
            session.drop(session.dropped + 1)
        elif not session.ending and session.channel.data.memory_max:
            reason = f"more than {config.quotas.kept_bytes:,} bytes wait for {session.owner!r}"
            if session.connection is None:
                self._give_up(session, reason)  # what waits for nobody takes the room of others
            else:
                self._end(session, reason)
        elif not session.ending:
            lane = session.channel.data
            if lane.sent - lane.acked >= config.session_outbox_max:
                what = f"{config.session_outbox_max:,} deliveries"
            else:
                what = f"{config.session_outbox_bytes_max:,} bytes"
            self._end(session, f"more than {what} were waiting")

    def _unheard(self, count: int) -> None:
        self.unheard += count
        if self._work.journal is not None:
            self._work.journal.put("unheard", value=self.unheard)

    def _end(self, session: Session, reason: str) -> None:
        """The broker has enough of it."""
        self._work.command(Report("warning", "session ended", session.name, reason))
        self._mark_given_up(session)
        self.mark_ending(session, f"{session.client} is too slow")
        self.say_ended(session, reason)
