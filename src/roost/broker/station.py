"""A machine of one's own: a node, and what it is to do when somebody says something.

Derive from `Station`, and say what becomes of what neighbours and clients say. That a message arrives once
and in order, is sent again after a cut or a crash, and waits for the store if there is one, is the node's
business. Everything may be left out: a station that adds nothing refuses what clients ask for, and does not
listen to neighbours.

    neighbours   are dialled by name, as the settings say. They form no overlay: any may be linked with any,
                 in circles too, and nothing is passed on unless the machine does it
    clients      attach as to a broker (`clientele`), and subscribe if the station lets them
    messages     publications (`from_link`, `from_session`), which it sends on (`route`); those of
                 `link_messages` and `session_messages`; and what stations of one kind tell each other in
                 notes (`note`, `told`)
    time         `set_timer`, `timer`; `now`
    memory       `keep` writes a record, in the transaction of what is being handled; `restored` gets them

Drivers run it live (`machine` in the settings) and simulated (`broker add ... package.module:Class`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Sized
from typing import Any

from msgspec import Struct

from roost.broker import events as ev
from roost.broker.clientele import Clientele
from roost.broker.commands import Answered, Command, Deliver, SetTimer, StoreKey
from roost.broker.config import BrokerConfig
from roost.broker.exchange import parts_of
from roost.broker.hops import Entry, Link, Session
from roost.broker.machine import Happening
from roost.broker.messages import (
    Delivery,
    Dropped,
    Frame,
    Note,
    Publication,
    Redirect,
    Refused,
)
from roost.broker.module import Module, ModuleState, Visit
from roost.broker.node import Listeners, Node
from roost.broker.restoring import restore_node
from roost.broker.server import Costs

TIMER = "own"
# The first word of the keys of its records.
RECORD = "own"


class Tally:
    """The publications that have passed a station: see `server.Traffic`."""

    def __init__(self, seen_max: int) -> None:
        self.routed = 0
        self.duplicates = 0
        self.last_route = (0, 0)
        self._seen: dict[str, int] = {}  # publisher -> its highest sequence number so far
        self._seen_max = seen_max

    def is_new(self, publication: Publication) -> bool:
        """Whether it has not been here before, which it then has."""
        last = self._seen.get(publication.publisher)
        if last is not None and publication.sequence <= last:
            self.repeated()
            return False
        if last is None and len(self._seen) >= self._seen_max:
            del self._seen[next(iter(self._seen))]
        self._seen[publication.publisher] = publication.sequence
        return True

    def repeated(self) -> None:
        """One has come a second time."""
        self.duplicates += 1
        self.last_route = (0, 0)


class Station:
    """A machine on a node. `modules` are the driver's own, and hear of what is routed; no others do."""

    # Names its kind, in notes.
    name: str = ""
    # What it is made with, if it has settings that people can say; see `registry`.
    Config: type[Struct] | None = None
    costs = Costs()
    # Whether its clients may subscribe; `clientele.match` then says for whom an event is.
    takes_subscriptions: bool = False

    def __init__(
        self, config: BrokerConfig, modules: Sequence[Module] = (), settings: Any = None
    ) -> None:
        self.config = config
        self.settings = settings
        self.node = node = Node(config)
        # The short ways, for a client's acknowledgement and a neighbour's publication.
        self.take_ack, self.take = node.take_ack, node.take
        self.identity, self.links, self.sessions = node.identity, node.links, node.sessions
        self.tell = node.flow.tell
        self.traffic = Tally(config.watermarks_max)
        self.load: ev.LoadIndices | None = None
        self._work = node.work
        self._modules = {module.name: module for module in modules}
        self._listening: dict[str, Module] = {}
        self._first_words: list[Note] = []  # between `clear` and `begin`
        self.clientele = Clientele(
            node,
            self.from_session,
            self.traffic.repeated,
            subscribe=self.takes_subscriptions,
            subscribed=self.subscribed,
            unsubscribed=self.unsubscribed,
        )
        self.table: Sized = self.clientele.subscriptions
        node.host(neighbourhood=self, interests=self.clientele, place=lambda _: None)
        node.listen(
            from_link=self.from_link,
            from_session=self.clientele.publishes,
            link_messages={Note: self._note, **self.link_messages()},
            session_messages={**self.clientele.messages(), **self.session_messages()},
        )
        self._handlers: dict[type, Callable[[Any], object]] = {
            **node.events(),
            ev.TimerFired: self._timer,
            ev.Started: self._started,
            ev.LoadSampled: self._sampled,
            ev.ModuleSwitched: self._switched,
            ev.ClientRedirected: self._redirected,
            ev.Asked: lambda event: self._work.command(Answered(event.id, {}, {})),
        }

    # --- to be said by whoever derives from it --------------------------------------------------------

    def link_messages(self) -> Listeners:
        """Who listens to which messages of neighbours: `listener(link, message)`."""
        return {}

    def session_messages(self) -> Listeners:
        """Who listens to which messages of clients: `listener(session, message)`."""
        return {}

    def from_link(self, link: Link, publication: Publication, hops: int) -> None:
        """A neighbour has sent a publication."""

    def from_session(self, session: Session, publication: Publication) -> None:
        """A client publishes something that it may."""
        self.tell(session, Refused(publication.id, f"{self.identity.name} takes no events"))

    def subscribed(self, entry: Entry) -> None:
        """A client has subscribed, or has been subscribed when the machine starts."""

    def unsubscribed(self, entry: Entry) -> None:
        """It is no longer, or has left."""

    def told(self, link: Link, body: bytes) -> None:
        """A neighbour of the same kind has sent a note."""

    def timer(self, name: str) -> None:
        """A timer has run out."""

    def restored(self, records: Mapping[StoreKey, Any]) -> None:
        """It begins, with what it had kept."""

    def figures(self) -> Mapping[str, Any]:
        return {"routing": "", "subscriptions": len(self.table), "advertisements": 0}

    def unfinished(self) -> Sequence[str]:
        return ()

    def handled(self) -> None:
        """All that has come at once has been handled: what was put off until then is due."""

    def added(self, link: Link, *, joins: bool) -> None:
        """A neighbour from now on, there or not."""

    def removed(self, link: Link, cause: str) -> None:
        """A neighbour no longer."""

    def greeted(self, link: Link) -> None:
        """A neighbour is there."""

    def lost(self, link: Link) -> None:
        """It is away. What is said to it waits."""

    def begun(self, link: Link) -> None:
        """They meet for the first time, or one of the two has lost its memory: tell it what it should know.

        Events that it has not had are on their way. Notes that it may have had or not are gone.
        """

    # --- what it can do, besides `tell` ---------------------------------------------------------------

    @property
    def now(self) -> float:
        return self._work.now

    def set_timer(self, name: str, delay_s: float) -> None:
        """`timer(name)` after so long; one of that name that runs is replaced."""
        self._work.command(SetTimer(f"{TIMER}:{name}", delay_s))

    def note(self, link: Link, body: bytes, *, cause: str, behind: bool = False) -> None:
        """Say something to a neighbour of the same kind, ahead of all data or behind it."""
        self.tell(link, Note(self.name, body, cause, behind))

    def keep(self, *key: str | int, value: object) -> None:
        """Write a record, if there is a store; None deletes it."""
        if self._work.journal is not None:
            self._work.journal.put(RECORD, *key, value=value)

    def route(
        self,
        source: Link | Session,
        publication: Publication,
        hops: int,
        links: Sequence[Link],
        matches: Mapping[Session, Sequence[str]],
    ) -> None:
        """Send a publication on: to these neighbours, and to these clients for those subscriptions of theirs.

        Within the bounds of their queues: whoever could add to one that is full is read no further, or a
        policy says what becomes of a delivery. `hops` are the links that it has passed.
        """
        for link in links:
            self.tell(link, publication, hops + 1)
            lane = link.channel.data
            if lane.sent - lane.acked >= self.config.link_outbox_max:
                self.node.pausing.block(source, link)
        self.deliver(publication, matches, hops)
        self.traffic.routed += 1
        self.traffic.last_route = (len(links), len(matches))
        if self._listening:
            self._report(source, publication, hops, links, matches)

    def deliver(
        self, publication: Publication, matches: Mapping[Session, Sequence[str]], hops: int = 0
    ) -> None:
        """Send a publication to these clients, and tell nobody."""
        frames = [
            (session.connection, frame)
            for session, ids in matches.items()
            if (frame := self._delivered_to(session, publication, ids, hops)) is not None
        ]
        if frames:
            self._work.command(Deliver(publication, frames))  # type: ignore[arg-type]

    def _delivered_to(
        self, session: Session, publication: Publication, ids: Sequence[str], hops: int
    ) -> Frame | None:
        """The frame that is to be written now; None if there is none, or it waits for its client."""
        lane, hosted = session.channel.data, self.node.hosted
        is_behind = not session.open or lane.sent - lane.acked >= self.config.session_outbox_max
        if is_behind and not hosted.room(session, publication):
            hosted.overflow(session)
            return None
        if session.dropped:
            self.tell(session, Dropped(session.dropped))
            session.drop(0)
        *others, last = parts_of(ids, self.config.delivery_ids_bytes_max)
        for part in others:
            self.tell(session, Delivery(publication, part), hops)
        frame = lane.push(Delivery(publication, last), hops)
        if lane.spilled:
            self.node.flow.spilled(session)
            return None
        return frame if session.open else None

    def _report(
        self,
        source: Link | Session,
        publication: Publication,
        hops: int,
        links: Sequence[Link],
        matches: Mapping[Session, Sequence[str]],
    ) -> None:
        visit = Visit(
            publication,
            hops,
            source.client if isinstance(source, Session) else source.name,
            source.is_session,
            [link.name for link in links],
            {session.client: ids for session, ids in matches.items()},
        )
        for module in self._listening.values():
            if module.tap is not None:
                for session, ids in matches.items():
                    session.matched = tuple(ids)
                module.tap(source, publication, hops, links, [*matches], self.now)
            else:
                module.routed(visit, self.now)

    # --- the one verb -------------------------------------------------------------------------------

    def handle(self, event: Happening, now: float) -> list[Command]:
        """What there is to do now that this has happened."""
        work = self._work
        if type(event) is ev.Persisted:
            return work.released(event.token)
        work.begin(now)
        self._handlers[type(event)](event)
        self.handled()
        return work.commit()

    # --- neighbours; see `links.Neighbourhood` --------------------------------------------------------

    def objection_to(self, link: Link) -> str:  # noqa: ARG002
        return ""

    def refused(self, link: Link) -> None:
        """Only brokers do that."""

    def turned_away(self, link: Link) -> None:
        """Who dials it has been told so by its settings: it goes on trying."""

    def clear(self, link: Link, cause: str) -> None:  # noqa: ARG002
        if not link.peer_life:  # they have never met: what waits can't have arrived
            waiting = (frame.message for lane in link.channel.lanes for frame in lane.outbox)
            self._first_words = [message for message in waiting if type(message) is Note]

    def begin(self, link: Link, cause: str, *, undelivered: bool, again: list[Frame]) -> None:  # noqa: ARG002
        first_words, self._first_words = self._first_words, []
        for note in first_words:
            self.tell(link, note)
        self.begun(link)

    # --- what happens -------------------------------------------------------------------------------

    def _timer(self, event: ev.TimerFired) -> None:
        kind, _, name = event.name.partition(":")
        if kind == TIMER:
            self.timer(name)
        else:
            self.node.timer(kind, name)

    def _started(self, event: ev.Started) -> None:
        restore_node(event.records, self.node)
        self.clientele.restore(event.records)
        self.restored({key[1:]: value for key, value in event.records.items() if key[0] == RECORD})
        self.node.start()

    def _sampled(self, event: ev.LoadSampled) -> None:
        self.load = event.load

    def _switched(self, event: ev.ModuleSwitched) -> None:
        module = self._modules.get(event.module)
        if module is None or event.state == ModuleState.OFF.value:
            self._listening.pop(event.module, None)
        else:
            self._listening[event.module] = module

    def _redirected(self, event: ev.ClientRedirected) -> None:
        for session in self.sessions.values():
            if session.client == event.client and not session.ending and session.published is None:
                self.tell(session, Redirect(event.address, event.cause))

    def _note(self, link: Link, note: Note) -> None:
        if note.module == self.name:  # else it stands for what has lost its meaning; see `links`
            self.told(link, note.body)
