"""Bugs to plant in brokers and clients: each a context manager under a name, small and believable.

What hides a bug is said where it is planted. A planted bug replaces functions of the protocol, so it has
to be replanted when they move: monkeypatch says so, by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from roost.broker import attachment as attachment_module
from roost.broker import flow, restoring
from roost.broker.absence import Absence
from roost.broker.advertisements import AdvertisementBased
from roost.broker.attachment import Attachment
from roost.broker.channel import Channel, Lane
from roost.broker.client import Client
from roost.broker.commands import Command, Persist, Send
from roost.broker.core import Broker
from roost.broker.draining import Drain, Draining
from roost.broker.exchange import Exchange
from roost.broker.flow import Flow
from roost.broker.hops import Entry, Hop, Link, Peer, Session
from roost.broker.links import Links
from roost.broker.messages import (
    CONTROL,
    Ack,
    Answer,
    Delivery,
    Done,
    DrainEcho,
    EndSession,
    HandOver,
    Inquiry,
    LinkHello,
    Message,
    MigrationComplete,
    Priority,
    Publication,
    Redirect,
    Unadvertise,
    Unsubscribe,
    priority_of,
)
from roost.broker.moving import Move
from roost.broker.node import Node
from roost.broker.pausing import Pausing
from roost.broker.permissions import Permission
from roost.broker.requests import Requests
from roost.broker.router import Flooding
from roost.broker.sessions import Sessions
from roost.broker.told import Told
from roost.broker.work import Work
from roost.language import Interest

Plant = Callable[[pytest.MonkeyPatch], None]
BUGS: dict[str, Callable[[], AbstractContextManager[None]]] = {}


def bug(plant: Plant) -> Callable[[], AbstractContextManager[None]]:
    """A bug that is there as long as its context is open."""

    @contextmanager
    def planted() -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            plant(patch)
            yield

    BUGS[plant.__name__] = planted
    return planted


# --- covering ---------------------------------------------------------------------------------------


@bug
def withdraws_before_it_announces(patch: pytest.MonkeyPatch) -> None:
    """The unsubscription goes ahead of the subscriptions that it uncovers (001 section 2.1.3)."""
    original = Flooding._say_subscriptions

    def say(
        self: Flooding, link: Link, add: Sequence[Entry], remove: Sequence[Entry], cause: str
    ) -> None:
        said: list[tuple[Link, Message]] = []
        tell = self._tell
        self._tell = lambda to, message: said.append((to, message))
        original(self, link, add, remove, cause)
        self._tell = tell
        for to, message in sorted(said, key=lambda item: type(item[1]) is not Unsubscribe):
            tell(to, message)

    patch.setattr(Flooding, "_say_subscriptions", say)


@bug
def forgets_to_uncover(patch: pytest.MonkeyPatch) -> None:
    """What a removed subscription had covered is never announced."""
    original = Told.change

    def change(
        self: Told, add: Sequence[tuple[int, Interest]] = (), remove: Sequence[int] = ()
    ) -> tuple[list[int], list[int]]:
        announce, withdraw = original(self, add, remove)
        return (announce if not remove else []), withdraw

    patch.setattr(Told, "change", change)


@bug
def forgets_to_withdraw_the_covered(patch: pytest.MonkeyPatch) -> None:
    """What a new subscription covers stays where it was told: right events, tables too large."""
    original = Told.change

    def change(
        self: Told, add: Sequence[tuple[int, Interest]] = (), remove: Sequence[int] = ()
    ) -> tuple[list[int], list[int]]:
        announce, withdraw = original(self, add, remove)
        return announce, (withdraw if not add else [])

    patch.setattr(Told, "change", change)


# --- advertisements ---------------------------------------------------------------------------------


@bug
def unadvertises_ahead_of_events(patch: pytest.MonkeyPatch) -> None:
    """Unadvertise in the control class: it overtakes the last events."""
    overtakes(patch, Unadvertise)


def overtakes(patch: pytest.MonkeyPatch, kind: type[Message]) -> None:
    """Messages of this kind are of the control class."""

    def class_of(message: Message) -> Priority:
        return CONTROL if type(message) is kind else priority_of(message)

    patch.setattr(flow, "priority_of", class_of)
    patch.setattr(attachment_module, "priority_of", class_of)


@bug
def takes_any_withdrawal(patch: pytest.MonkeyPatch) -> None:
    """A late withdrawal undoes a newer announcement: its number is not looked at."""

    def unadvertise(self: Broker, hop: Hop, message: Unadvertise) -> None:
        entry = self.router.advertisements.get(message.id)
        if entry is not None and entry.hop is hop:
            self.router.unadvertise(hop, message.id, message.cause, entry.announcement)

    patch.setattr(Broker, "_unadvertise", unadvertise)


@bug
def leaves_subscriptions_behind(patch: pytest.MonkeyPatch) -> None:
    """When an advertisement goes, the subscriptions that followed it stay."""
    patch.setattr(AdvertisementBased, "_recall", lambda *_: None)


# --- channels ---------------------------------------------------------------------------------------


@bug
def resumes_with_nothing(patch: pytest.MonkeyPatch) -> None:
    """After a broken connection, what had not arrived is not sent again."""

    def begin(_: Flow, peer: Peer) -> None:
        peer.open = True

    patch.setattr(Flow, "begin", begin)


@bug
def opens_before_all_is_out(patch: pytest.MonkeyPatch) -> None:
    """A peer that is back gets what comes now ahead of what has waited."""
    original = Flow.go_on

    def go_on(self: Flow, peer: Link | Session) -> None:
        original(self, peer)
        peer.open = peer.connection is not None and not peer.congested

    patch.setattr(flow, "AT_A_TIME", 2)
    patch.setattr(Flow, "go_on", go_on)


@bug
def forgets_what_waited(patch: pytest.MonkeyPatch) -> None:
    """A neighbour that reads again gets only what comes from now on."""

    def relieved(_: Flow, peer: Peer) -> None:
        peer.congested = False
        peer.open = peer.connection is not None

    patch.setattr(Flow, "relieved", relieved)


@bug
def takes_what_came_before(patch: pytest.MonkeyPatch) -> None:
    """No duplicate is known as one. Three lines of defence, each enough alone: the numbers of a channel,
    the watermarks of brokers, and those of clients."""
    accept, publish, delivered = Lane.accept, Exchange.publish, Client.delivered

    def accept_all(self: Lane, sequence: int) -> bool:
        return sequence <= self.received or accept(self, sequence)

    def publish_all(self: Exchange, source: Hop, publication: Publication, hops: int) -> None:
        self._seen.clear()
        publish(self, source, publication, hops)

    def take_all(self: Client, attachment: Attachment, delivery: Delivery, number: int) -> None:
        self._seen.clear()
        delivered(self, attachment, delivery, number)

    patch.setattr(Lane, "accept", accept_all)
    patch.setattr(Exchange, "publish", publish_all)
    patch.setattr(Client, "delivered", take_all)


@bug
def acknowledges_one_too_many(patch: pytest.MonkeyPatch) -> None:
    """An acknowledgement of data names the next message, not the last."""
    original = Channel.ack

    def ack(self: Channel, data: int | None = None) -> Ack:
        right = original(self, data)
        return Ack(right.control, right.data + 1)

    patch.setattr(Channel, "ack", ack)


# --- the store --------------------------------------------------------------------------------------


@bug
def acknowledges_before_it_is_safe(patch: pytest.MonkeyPatch) -> None:
    """Acknowledgements do not wait for the store."""
    original = Work.commit

    def commit(self: Work) -> list[Command]:
        acks = [c for c in self.commands if type(c) is Send and type(c.parcel) is Ack]
        self.commands = [c for c in self.commands if c not in acks]
        return [*acks, *original(self)]

    patch.setattr(Work, "commit", commit)


@bug
def speaks_before_it_is_safe(patch: pytest.MonkeyPatch) -> None:
    """Nothing waits for the store."""

    def commit(self: Work) -> list[Command]:
        if self.journal is None:
            return self.commands
        self._token += 1
        return [Persist(self._token, self.journal.take()), *self.commands]

    patch.setattr(Work, "commit", commit)


@bug
def restores_no_outbox(patch: pytest.MonkeyPatch) -> None:
    """Back from its store, a broker has nothing to send again."""
    original = restoring.restore_channels

    def restore(node: Node, kinds: Mapping[str | int, Mapping[Any, Any]]) -> None:
        original(node, {kind: what for kind, what in kinds.items() if kind != "out"})

    patch.setattr(restoring, "restore_channels", restore)


@bug
def restores_nothing_told(patch: pytest.MonkeyPatch) -> None:
    """Back from its store, a broker does not know what its neighbours know."""
    patch.setattr(Flooding, "restore_told", lambda *_: None)


@bug
def restores_no_numbers_received(patch: pytest.MonkeyPatch) -> None:
    """Back from its store, a broker takes what is sent again for the first of all."""
    original = restoring.restore_channels

    def restore(node: Node, kinds: Mapping[str | int, Mapping[Any, Any]]) -> None:
        original(node, {kind: what for kind, what in kinds.items() if kind != "received"})

    patch.setattr(restoring, "restore_channels", restore)


# --- links, sessions, moving ------------------------------------------------------------------------


@bug
def keeps_what_a_lost_neighbour_said(patch: pytest.MonkeyPatch) -> None:
    """A link that begins anew keeps the entries that it had."""
    original = Flooding.forget

    def forget(self: Flooding, hop: Hop, cause: str) -> None:
        if not hop.is_link:
            original(self, hop, cause)

    patch.setattr(Flooding, "forget", forget)


@bug
def forgets_to_unsubscribe_for_the_lost(patch: pytest.MonkeyPatch) -> None:
    """The session of a client that stays away too long goes, and what it asked for stays."""
    original = Sessions.forget

    def forget(self: Sessions, session: Session, reason: str) -> None:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(Flooding, "forget", lambda *_: None)
            original(self, session, reason)

    patch.setattr(Sessions, "forget", forget)


@bug
def moves_without_a_drain(patch: pytest.MonkeyPatch) -> None:
    """The first session ends at once, whatever is on the way from there, or to there."""

    def ends(self: Requests, session: Session, message: HandOver) -> None:
        self.ends(session, EndSession(message.cause))

    patch.setattr(Requests, "hands_over", ends)


@bug
def drains_the_way_there_only(patch: pytest.MonkeyPatch) -> None:
    """The echo of a marker overtakes the last events for the session that is handed over."""
    overtakes(patch, DrainEcho)


@bug
def migrates_ahead_of_events(patch: pytest.MonkeyPatch) -> None:
    """The target takes over before the last events that come the old way."""
    overtakes(patch, MigrationComplete)


@bug
def hands_out_what_is_held(patch: pytest.MonkeyPatch) -> None:
    """What the second session gets goes to the application at once, ahead of the last of the first."""
    original = Move.__init__

    def init(self: Move, client: Client, redirect: Redirect) -> None:
        original(self, client, redirect)
        self.target.deliveries = "handed"

    patch.setattr(Move, "__init__", init)


@bug
def tells_the_target_nothing(patch: pytest.MonkeyPatch) -> None:
    """An advertisement migrates, and the subscriptions that it concerns do not follow (operation 3)."""
    original = AdvertisementBased.expect

    def expect(
        self: AdvertisementBased, entry: Entry, hop: Hop, announcement: int, cause: str
    ) -> None:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(AdvertisementBased, "_follow", lambda *_: None)
            original(self, entry, hop, announcement, cause)

    patch.setattr(AdvertisementBased, "expect", expect)


@bug
def echoes_without_waiting(patch: pytest.MonkeyPatch) -> None:
    """The first neighbour to echo a marker is taken for all."""
    original = Draining._heard

    def heard(self: Draining, drain: Drain, name: str, missing: tuple[str, ...] = ()) -> None:
        original(self, Drain(drain.id, drain.cause, drain.parent, (name,)), name, missing)

    patch.setattr(Draining, "_heard", heard)


@bug
def loses_what_it_kept_back(patch: pytest.MonkeyPatch) -> None:
    """What a client publishes while it moves is gone."""
    original = Move._go_on

    def go_on(self: Move) -> None:
        self._client.kept_back.clear()
        original(self)

    patch.setattr(Move, "_go_on", go_on)


@bug
def never_reads_again(patch: pytest.MonkeyPatch) -> None:
    """A neighbour that was paused, because a queue was full, stays paused."""
    patch.setattr(Pausing, "room_again", lambda *_: None)


@bug
def begins_anew_without_subscriptions(patch: pytest.MonkeyPatch) -> None:
    """A client whose session is gone does not say again what it wants."""
    original = Client.say_all_anew

    def say_all_anew(self: Client, attachment: Attachment) -> None:
        kept, self._subscriptions = self._subscriptions, {}
        original(self, attachment)
        self._subscriptions = kept

    patch.setattr(Client, "say_all_anew", say_all_anew)


# --- at the edges: who begins and ends while others are away (profile "edges") --------------------------


@bug
def settles_without_the_absent(patch: pytest.MonkeyPatch) -> None:
    """What a client asks for settles at once without those who are away: they may not have noticed yet."""
    original = Absence.away

    def away(self: Absence, link: Link, now: float) -> None:
        original(self, link, now)
        link.excused = True
        self._excused(link)

    patch.setattr(Absence, "away", away)


@bug
def keeps_nothing_for_the_absent(patch: pytest.MonkeyPatch) -> None:
    """Of one that is away only what it had asked for is kept."""
    patch.setattr(Broker, "_set_greedy", lambda *_: None)


@bug
def tells_nobody_who_is_away(patch: pytest.MonkeyPatch) -> None:
    """Brokers further away do not send everything."""
    patch.setattr(Absence, "wants", lambda *_: None)


@bug
def presumes_nothing(patch: pytest.MonkeyPatch) -> None:
    """Events go out only where somebody has asked for them, also while nobody has had the time to."""
    patch.setattr(AdvertisementBased, "_presume", lambda *_: None)


@bug
def greets_and_is_present(patch: pytest.MonkeyPatch) -> None:
    """Whoever has greeted is taken to have said all that it wants."""
    patch.setattr(Absence, "_inquire", lambda self, link, _: self._present(link, link.number))


@bug
def answers_at_once(patch: pytest.MonkeyPatch) -> None:
    """A broker does not wait for the answers of those behind it."""

    def inquiry(self: Absence, link: Link, message: Inquiry) -> None:
        self._tell(link, Answer(message.number, message.cause))

    patch.setattr(Absence, "inquiry", inquiry)


@bug
def forgets_the_outbox_of_the_absent(patch: pytest.MonkeyPatch) -> None:
    """A broker that begins anew with its neighbour sends it nothing of what had waited."""
    original = Links._begin

    def begin(self: Links, link: Link, hello: LinkHello, had: int) -> None:
        for frame in list(link.channel.data.outbox):
            link.channel.data.acknowledged(frame.sequence)
        original(self, link, hello, had)

    patch.setattr(Links, "_begin", begin)


@bug
def takes_over_an_empty_session(patch: pytest.MonkeyPatch) -> None:
    """What the last process of a durable session has not acknowledged is gone with it."""
    original = Sessions._take_over

    def take_over(self: Sessions, session: Session, process: str) -> None:
        session.channel.data.acknowledged(session.channel.data.sent)
        original(self, session, process)

    patch.setattr(Sessions, "_take_over", take_over)


@bug
def takes_over_without_its_numbers(patch: pytest.MonkeyPatch) -> None:
    """The next process of a durable session is told that nothing has gone out yet."""
    patch.setattr(Channel, "begin_again", lambda _: None)


@bug
def loses_events_in_a_full_store(patch: pytest.MonkeyPatch) -> None:
    """An event that does not fit into the store is acknowledged, and dropped."""
    original = Requests.publishes

    def publishes(self: Requests, session: Session, publication: Publication) -> None:
        if not self._hosted.store_is_full:
            original(self, session, publication)

    patch.setattr(Requests, "publishes", publishes)


@bug
def restores_no_spare(patch: pytest.MonkeyPatch) -> None:
    """A broker that has heard of an id from two sides knows one of them after a crash."""
    patch.setattr(Flooding, "restore_spare", lambda *_: None)


@bug
def narrows_in_silence(patch: pytest.MonkeyPatch) -> None:
    """A client that may have less than before loses what it may have, too."""
    original = Sessions.permit

    def permit(self: Sessions, session: Session, permission: Permission) -> None:
        original(self, session, permission)
        for id_ in list(session.subscriptions):
            self._router.unsubscribe(session, id_, "")

    patch.setattr(Sessions, "permit", permit)


@bug
def takes_those_ahead_for_done(patch: pytest.MonkeyPatch) -> None:
    """What is done with behind a gap counts for the gap as well."""
    done = Sessions.done

    def fill(self: Sessions, session: Session, message: Done) -> None:
        done(self, session, Done(tuple((first - 1, last) for first, last in message.spans)))

    patch.setattr(Sessions, "done", fill)


AT_THE_EDGES = (
    "takes_those_ahead_for_done",
    "takes_over_an_empty_session",
    "takes_over_without_its_numbers",
    "loses_events_in_a_full_store",
    "settles_without_the_absent",
    "keeps_nothing_for_the_absent",
    "tells_nobody_who_is_away",
    "presumes_nothing",
    "greets_and_is_present",
    "answers_at_once",
    "forgets_the_outbox_of_the_absent",
)
