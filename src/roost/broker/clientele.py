"""The clients of a station: what they may do, what they are subscribed to, and their goodbyes.

A station's clients say the same as a broker's, and what they may do is checked in the same way: by the
permission of whoever is on the connection, quotas, and a store that is full. Subscriptions stay where they
are: a station that wants others to know of them has to tell them. Advertisements are heard, and not needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from roost.broker.accepting import is_next
from roost.broker.commands import StoreKey
from roost.broker.handles import Handles
from roost.broker.hops import Entry, Hop, Session
from roost.broker.messages import (
    DATA,
    GOODBYE,
    Advertise,
    Arrived,
    Done,
    EndSession,
    HandOver,
    Message,
    Migrate,
    MigrationFailed,
    Paused,
    Probed,
    Publication,
    Refused,
    Settle,
    Settled,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from roost.broker.node import Listeners, Node
from roost.language import Event, Subscription
from roost.matching import Index

RECORD = "sub"


class Clientele:
    """Of one station. `publish(session, publication)`: what may be published; see `sessions.Interests`."""

    def __init__(
        self,
        node: Node,
        publish: Callable[[Session, Publication], None],
        duplicate: Callable[[], None],
        *,
        subscribe: bool,
        subscribed: Callable[[Entry], None] = lambda _: None,
        unsubscribed: Callable[[Entry], None] = lambda _: None,
    ) -> None:
        self._node = node
        self._tell = node.flow.tell
        self._publish = publish
        self._duplicate = duplicate
        self._subscribe = subscribe  # whether they may
        self._subscribed = subscribed
        self._unsubscribed = unsubscribed
        self.subscriptions: dict[str, Entry] = {}
        self._handles = Handles()
        self._index = Index()

    def messages(self) -> Listeners:
        """Who listens to what clients say."""
        return {
            Subscribe: self._subscribes,
            Unsubscribe: self._unsubscribes,
            Advertise: self._nods,
            Unadvertise: self._nods,
            Settle: self._settles,
            Done: self._node.hosted.done,
            EndSession: self._ends,
            HandOver: self._ends,
            Migrate: self._stays,
            Paused: self._stays,
            Arrived: self._nods,
            Probed: self._nods,
        }

    def match(self, event: Event) -> dict[Session, tuple[str, ...]]:
        """The clients that an event is for, each with its subscriptions that it matches."""
        found: dict[Session, tuple[str, ...]] = {}
        for handle in self._index.match(event).tolist():
            entry = self._handles.entries[handle]
            assert isinstance(entry.hop, Session)
            found[entry.hop] = (*found.get(entry.hop, ()), entry.id)
        return found

    # --- events -------------------------------------------------------------------------------------

    def publishes(self, session: Session, publication: Publication) -> None:
        objection = self._objection_to(session, publication)
        if session.published is not None:
            new = is_next(session, session.published, publication, objection, self._tell)
            if new is None:
                self._duplicate()
            if not new:
                return
        elif objection:
            self._tell(session, Refused(publication.id, objection))
            return
        self._publish(session, publication)

    def _objection_to(self, session: Session, publication: Publication) -> str:
        node = self._node
        if node.hosted.store_is_full and node.config.store_full_policy == "refuse":
            return f"the store of {node.identity.name} is full"
        if publication.publisher != session.publisher:
            return f"it is in the name of {publication.publisher!r}, not of {session.publisher!r}"
        if publication.priority != DATA or publication.traced:
            return "only brokers say that of an event"
        if session.permission is not None:
            return session.permission.objection_to_event(publication.event)
        return ""

    # --- subscriptions ------------------------------------------------------------------------------

    def _subscribes(self, session: Session, message: Subscribe) -> None:
        if session.ending:
            return
        there = self.subscriptions.get(message.id)
        if there is not None and there.hop is session and session.durable:
            self.unsubscribe(session, message.id, message.cause)  # its next process says it again
        objection = self._objection_to_subscription(session, message)
        if objection:
            self._tell(session, Refused(message.id, objection))
            return
        self._add(session, message.id, message.subscription)
        if (journal := self._node.work.journal) is not None:
            journal.put(RECORD, message.id, value=(*session.key, message.subscription, 0))

    def _objection_to_subscription(self, session: Session, message: Subscribe) -> str:
        if not self._subscribe:
            return f"nobody subscribes at {self._node.identity.name}"
        permission = session.permission
        if permission is not None and (objection := permission.objection_to_name(message.id)):
            return objection
        if message.id in self.subscriptions:
            return f"the id {message.id!r} is in use"
        objection = self._node.hosted.quotas.objection_to_subscription(session)
        if objection or permission is None:
            return objection
        return permission.objection_to_subscription(message.subscription)

    def _add(self, session: Session, id_: str, subscription: Subscription) -> None:
        entry = self._handles.new(id_, subscription, session)
        self.subscriptions[id_] = session.subscriptions[id_] = entry
        self._index.add(entry.handle, subscription)
        self._subscribed(entry)

    def _unsubscribes(self, session: Session, message: Unsubscribe) -> None:
        self.unsubscribe(session, message.id, message.cause)

    def unsubscribe(self, hop: Hop, id_: str, cause: str) -> None:  # noqa: ARG002
        entry = hop.subscriptions.pop(id_, None)
        if entry is not None:
            del self.subscriptions[id_]
            self._index.remove(entry.handle)
            self._unsubscribed(entry)
            self._handles.free(entry)
            if (journal := self._node.work.journal) is not None:
                journal.delete(RECORD, id_)

    def unadvertise(self, hop: Hop, id_: str, cause: str) -> None:
        """Advertisements are not kept."""

    def forget(self, hop: Hop, cause: str) -> None:
        for id_ in list(hop.subscriptions):
            self.unsubscribe(hop, id_, cause)

    def restore(self, records: Mapping[StoreKey, Any]) -> None:
        """The subscriptions that the store has, of sessions that are there again."""
        for (kind, *id_), value in records.items():
            if kind == RECORD:
                _, session, subscription, _ = value
                self._add(self._node.sessions[session], str(id_[0]), subscription)

    # --- manners ------------------------------------------------------------------------------------

    def _nods(self, session: Session, message: Message) -> None:
        """It is all the same to us."""

    def _settles(self, session: Session, message: Settle) -> None:
        """What a client asks for is in effect as soon as it is heard."""
        self._tell(session, Settled(message.id))

    def _ends(self, session: Session, message: EndSession | HandOver) -> None:
        if not session.leaving:
            session.leaving = True
            self._node.hosted.mark_ending(session, message.cause)
            self._node.hosted.say_ended(session, GOODBYE)

    def _stays(self, session: Session, message: Migrate | Paused) -> None:  # noqa: ARG002
        self._tell(session, MigrationFailed("advertisements do not migrate here"))
