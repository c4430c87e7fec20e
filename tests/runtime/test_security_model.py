"""Every action of every role on every resource, at live brokers: what may be done, and that nothing leaks.

What is expected is said by `may`, on a page, which knows nothing of the product. All combinations are played
(`cases`), each by a raw peer that sends at once all that it would like to be heard, greeting included, with
numbers and incarnations that an attacker would have to guess. The same words in its own name are
accepted, so none of them is refused for a slip.

After each forbidden action the victim publishes and hears all of it, at both ends of the federation, and her
sessions are hers (`security_kit`); in the end she takes what has waited, and it is all there. A *leak* is
something forbidden that was not refused, anything that an attacker hears that is not for it, and anything
that the victim misses. There are none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import pytest
from msgspec.structs import replace

from roost.broker.config import BrokerConfig
from roost.broker.core import Broker
from roost.broker.messages import (
    PROTOCOL_VERSION,
    Ack,
    Advertise,
    Answer,
    Arrived,
    Attach,
    Attached,
    AttachRefused,
    Delivery,
    Done,
    DrainEcho,
    EndSession,
    HandOver,
    Inquiry,
    LinkHello,
    Login,
    Marker,
    MarkerEcho,
    Members,
    Message,
    Migrate,
    Migrated,
    MigrationComplete,
    MigrationFailed,
    MigrationUpdate,
    Note,
    Parcel,
    Paused,
    PausePlease,
    Probed,
    Publication,
    Refused,
    Rewire,
    SessionEnded,
    Settle,
    Settled,
    Subscribe,
    Unadvertise,
    Unsubscribe,
    Wants,
)
from roost.broker.permissions import Permission
from roost.language import Event, parse_advertisement, parse_subscription
from roost.runtime.plain_peer import PlainPeer
from tests.runtime.security_kit import (
    DURABLE,
    NEIGHBOURS,
    ORDERS,
    OUTBOX,
    PUBLIC,
    SECRET,
    UNMARKED,
    VICTIM,
    Trio,
    Victim,
    said,
    settled,
    token_of,
    trio,
    user,
    wants,
)

# --- the model ------------------------------------------------------------------------------------


class Role(NamedTuple):
    """Somebody, and what was granted to it."""

    name: str  # of the user that it logs in as, or says that it is
    publishes: tuple[str, ...] = ()  # classes
    subscribes: tuple[str, ...] = ()
    broker: str = ""  # of the federation that it is
    administers: bool = False
    monitors: bool = False
    token: str | None = ""  # "": the right one; None: it does not log in

    @property
    def is_in(self) -> bool:
        return self.token == ""


ROLES = {
    "nobody": Role("nobody", token=None),
    "nobody, under the victim's name": Role(VICTIM, token=None),
    "a wrong token": Role(VICTIM, token="guessed"),
    "nothing granted": Role("idle"),
    "a narrow filter": Role("eve", (PUBLIC,), (PUBLIC,)),
    "everything granted": Role("bob", (PUBLIC, SECRET), (PUBLIC, SECRET)),
    "a name that begins like the victim's": Role("alic", (PUBLIC,), (PUBLIC,)),
    "a name that goes on behind the victim's": Role("alicea", (PUBLIC,), (PUBLIC,)),
    "publishes only": Role("pub", (PUBLIC, SECRET)),
    "subscribes only": Role("sub", (), (PUBLIC,)),
    "another neighbour": Role("M", broker="M"),
    "the neighbour": Role("N", broker="N"),
    "an administrator": Role("root", administers=True),
    "a monitor": Role("watch", monitors=True),
}


class Case(NamedTuple):
    """An action on a resource."""

    action: str
    at: str  # the broker where it is tried
    owner: str = ""  # of the resource, by its name
    name: str = ""
    class_: str = ""
    claim: str = ""  # who it says that it is, as a client


SESSIONS = ("attach", "resume", "take over", "acknowledge", "end")
PAGES = {
    "/status": None,
    "/metrics": None,
    "/sessions": None,
    "/decisions": None,
    "/sessions/end": {"session": "alice~live"},
    "/trace": {"on": True, "folder": "TRACES"},
    "/redirect": {"client": "alice~live", "broker": "127.0.0.1:9"},
    "/module": {"module": "grape", "state": "acting"},
}


def may(role: Role, case: Case) -> bool:
    """Whether that is allowed: the whole of it."""
    if not role.is_in:
        return False
    is_mine = case.owner == role.name
    if case.action in SESSIONS:
        return is_mine and case.claim == role.name
    if case.action in ("subscribe", "unsubscribe"):
        return is_mine and case.class_ in role.subscribes
    if case.action in ("advertise", "unadvertise", "publish", "migrate"):
        return is_mine and case.class_ in role.publishes
    if case.action == "greet":
        return case.name == role.broker and case.name in NEIGHBOURS[case.at]
    if case.action in PAGES:
        return role.administers or (role.monitors and PAGES[case.action] is None)
    assert case.action in BROKERS_WORDS
    return False


# --- everything that is tried -----------------------------------------------------------------------

# Words that are for brokers among each other, about what the victim has.
BROKERS_WORDS: dict[str, Message] = {
    type(word).__name__: word
    for word in (
        MigrationUpdate(VICTIM, ("alice~pub/1",), ("B2",), "", 1),
        MigrationComplete(VICTIM, ("alice~pub/1",), "", 1),
        Marker("B0/x/1/hand over//alice~live", ""),
        MarkerEcho("B0/x/1/hand over//alice~live", ""),
        DrainEcho("B0/x/1/hand over//alice~live", ""),
        Wants(("B0",), ""),
        Members(True, ("N",), ("B2",)),
        Inquiry(1, ""),
        Answer(1, ""),
        Note("grape", b"", ""),
        Rewire("B0/x/1", "ask", ("B0", "B1", "B2"), ""),
        Delivery(Publication(ORDERS, 4, Event({"class": SECRET})), ("alice~live/1",)),
        SessionEnded("over"),
    )
}


def cases(role: Role) -> Iterator[Case]:
    me = role.name if role.name != VICTIM else "mallory"
    for at, action, claim in product(("B0", "B2"), SESSIONS, (me, VICTIM)):
        for session in ("alice~live", DURABLE, OUTBOX, *([UNMARKED] if at == "B2" else ())):
            yield Case(action, at, VICTIM, session, claim=claim)
        if action in ("attach", "take over"):  # before she comes
            for session in ("alice~durable/later", "alice~outbox/later", "alice/later"):
                yield Case(action, at, VICTIM, session, claim=claim)
        if claim == me:
            for kind in ("live", "durable/d", "outbox/o"):
                yield Case(action, at, me, f"{me}~{kind}-{action}", claim=claim)
        elif action == "attach":
            yield Case(action, at, me, f"{me}~mask", claim=claim)
    hers = (
        "alice~pub/1",
        "alice~live/1",
        f"{DURABLE}/events",
        f"{ORDERS}/1",
        "alice~durable/later/1",
    )
    for at, action, class_ in product(
        ("B0", "B1", "B2"), ("subscribe", "advertise"), (PUBLIC, SECRET)
    ):
        for id_ in (*hers, f"alice~outbox/later/1-{at}"):
            yield Case(action, at, VICTIM, id_, class_)
        yield Case(action, at, me, f"{me}~{at}-{class_}/1", class_)
    for at, action in product(("B0", "B1", "B2"), ("unsubscribe", "unadvertise")):
        for id_ in hers[:-1]:
            yield Case(action, at, VICTIM, id_, SECRET)
        yield Case(action, at, me, f"{me}~{at}/gone", PUBLIC)
    for at, class_ in product(("B0", "B2"), (PUBLIC, SECRET)):
        for publisher in ("alice~pub", "alice~live", ORDERS, VICTIM):
            yield Case("publish", at, VICTIM, publisher, class_)
        yield Case("publish", at, me, f"{me}~{at}-{class_}", class_)
    for at in ("B1", "B2"):
        yield Case("migrate", at, VICTIM, "alice~pub/1", SECRET)
        yield Case("migrate", at, VICTIM, f"{ORDERS}/1", SECRET)
        yield Case("migrate", at, me, f"{me}~mover-{at}/1", PUBLIC)
    for at, name in product(NEIGHBOURS, dict.fromkeys(("B0", "B1", "B2", "N", "M", me))):
        yield Case("greet", at, name=name)
    for at, word in product(("B0", "B2"), BROKERS_WORDS):
        yield Case(word, at)
    for at, page in product(NEIGHBOURS, PAGES):
        yield Case(page, at)


# --- trying it --------------------------------------------------------------------------------------


class Outcome(NamedTuple):
    accepted: bool
    heard: list[Parcel]
    peer: PlainPeer | None = None  # if it is still connected


class Attacker:
    """Somebody of a role, at all brokers."""

    def __init__(self, role: Role, brokers: Trio, victim: Victim) -> None:
        self.role, self._brokers, self._victim = role, brokers, victim
        self._settles = 0
        self.mine = [Login(role.name, role.token or token_of(role.name))]
        if role.token is None:
            self.mine = []

    async def tries(self, case: Case) -> Outcome:
        if case.action in PAGES:
            return await self._asks_for(case)
        if case.action == "greet":
            return await self._greets(case)
        if case.action in SESSIONS:
            return await self._attaches(case)
        if case.action == "migrate":
            return await self._migrates(case)
        if case.action in ("unsubscribe", "unadvertise"):
            return await self._withdraws(case)
        return await self._requests(case)

    # --- sessions

    async def _attaches(self, case: Case) -> Outcome:
        is_outbox = "outbox" in case.name
        is_live = not is_outbox and "durable" not in case.name
        publisher = f"{case.claim}~orders" if is_outbox else ""
        if case.owner == self.role.name and case.action != "attach":
            # Its own, of which there has to be one.
            before = await self._brokers.peer(case.at)
            greeting = self._greeting(case, False, not is_live, "first", publisher)
            before.put(*self.mine, greeting)
            if self.role.is_in:
                await before.next(Attached)
                await before.close()
        session = self._brokers.session(case.at, case.name)
        if session is not None and case.claim == VICTIM:
            case = case._replace(claim=session.client)
        resume = case.action in ("resume", "acknowledge", "end")
        process = session.process if session is not None and resume else "attacker"
        durable = (not is_live and case.action != "attach") or is_outbox
        greeting = self._greeting(case, resume, durable, process, publisher)
        peer = await self._brokers.peer(case.at)
        if session is not None and resume:
            control, data = session.channel.lanes
            peer.sent = [control.received, data.received]
            if case.action == "acknowledge":
                greeting = replace(greeting, control_received=control.sent, data_received=data.sent)
        peer.put(*self.mine, greeting)
        if session is not None and case.action == "acknowledge":
            peer.put(Ack(session.channel.control.sent, session.channel.data.sent))
        if case.action == "end":
            peer.say(EndSession("attacked"))
            heard = await self._until(peer, SessionEnded)
        else:
            heard = await self.settles(peer)
        attached = [p for p in heard if isinstance(p, Attached)]
        accepted = bool(attached) and (attached[0].resumed or not resume)
        return Outcome(accepted, heard, peer if accepted else None)

    def _greeting(
        self, case: Case, resume: bool, durable: bool, process: str, publisher: str
    ) -> Attach:
        return Attach(
            PROTOCOL_VERSION, case.claim, case.name, resume, 0, 0, durable, process, publisher
        )

    # --- requests in a session of its own

    async def _requests(self, case: Case) -> Outcome:
        client = case.name if case.action == "publish" else f"{self.role.name}~asks"
        if case.owner == VICTIM or case.action in BROKERS_WORDS:
            client = f"{self.role.name}~asks"
        peer = await self._brokers.peer(case.at)
        peer.put(*self.mine, Attach(PROTOCOL_VERSION, client, client, False, 0, 0))
        request = case.name
        if case.action == "subscribe":
            peer.subscribe(case.name, wants(case.class_))
        elif case.action == "advertise":
            peer.advertise(case.name, wants(case.class_))
        elif case.action == "publish":
            peer.advertise(f"{client}/{case.class_}", wants(case.class_))
            # Behind it, nothing of the victim's would count any more.
            request = f"{case.name}:{1_000_000}"
            peer.say(Publication(case.name, 1_000_000, Event({"class": case.class_})))
        else:
            peer.say(BROKERS_WORDS[case.action])
        heard = await self.settles(peer)
        messages = [said(p) for p in heard]
        is_over = not any(isinstance(m, Settled) for m in messages)
        refused = any(isinstance(m, Refused) and m.request == request for m in messages)
        return Outcome(not (is_over or refused), heard, None if is_over else peer)

    async def _withdraws(self, case: Case) -> Outcome:
        """Nobody answers that: what counts is whether it is there any more."""
        client = f"{self.role.name}~{case.at}"
        subscribes = case.action == "unsubscribe"
        peer = await self._brokers.peer(case.at)
        peer.put(*self.mine, Attach(PROTOCOL_VERSION, client, client, False, 0, 0))
        if case.owner == self.role.name:
            if subscribes:
                peer.subscribe(case.name, wants(case.class_))
            else:
                peer.advertise(case.name, wants(case.class_))
            heard = await self.settles(peer)
        before = self._entries(case.name, subscribes)
        word: Message = Unsubscribe(case.name, "") if subscribes else Unadvertise(case.name, "")
        if self.role.is_in or case.owner == VICTIM:
            peer.say(word)
        heard = await self.settles(peer)
        accepted = before > 0 and self._entries(case.name, subscribes) == 0
        return Outcome(accepted, heard, peer if self.role.is_in else None)

    def _entries(self, id_: str, subscriptions: bool) -> int:
        """At how many brokers it is known."""
        routings = [server.shell.broker.router for server in self._brokers.servers.values()]
        tables = [r.subscriptions if subscriptions else r.advertisements for r in routings]
        return sum(id_ in table for table in tables)

    async def _migrates(self, case: Case) -> Outcome:
        client = case.name.rpartition("/")[0]
        if case.owner == VICTIM:
            client = f"{self.role.name}~mover"
        source = None
        if self.role.is_in and case.owner != VICTIM:
            source = await self._brokers.attached("B0", client)
            source.advertise(case.name, wants(case.class_))
            await settled(source)
        peer = await self._brokers.peer(case.at)
        session = f"{client}-{case.at}"
        peer.put(*self.mine, Attach(PROTOCOL_VERSION, client, session, False, 0, 0))
        peer.say(Migrate((case.name,), ""))
        if source is not None and may(self.role, case):
            await source.next(PausePlease)
            source.say(Paused(""))
        heard = await self._until(peer, Migrated, MigrationFailed)
        accepted = any(isinstance(said(p), Migrated) for p in heard)
        if self.role.is_in and accepted:
            peer.say(EndSession(""))
        return Outcome(accepted, heard, None)

    # --- links, and operators

    async def _greets(self, case: Case) -> Outcome:
        """As somebody who knows all that the neighbour knows, and has heard all that waits for it."""
        machine = self._brokers.servers[case.at].shell.machine
        greeting = LinkHello(PROTOCOL_VERSION, case.name, "i", machine.identity.incarnation, 0, 0)
        if (case.at, case.name) == ("B0", "N"):
            greeting = self._victim.n_greeting
        link = machine.links.get(case.name)
        control = data = 0
        if link is not None:
            control, data = link.channel.control.sent, link.channel.data.sent
            if not may(self.role, case):
                greeting = replace(
                    greeting,
                    incarnation=link.peer_incarnation,
                    control_received=control,
                    data_received=data,
                )
        peer = await self._brokers.peer(case.at)
        peer.put(*self.mine, greeting)
        if not may(self.role, case):
            peer.put(Ack(control, data))
            peer.say(Subscribe("N/1", parse_subscription("*"), ""))
            peer.say(Advertise("alice~pub/1", parse_advertisement("*"), "", 1))
            heard = await self._until(peer, LinkHello)
        else:
            heard = await self._until(peer, LinkHello)
            while peer.received[1] < data:
                heard += await self._until(peer, Publication)
            await peer.close()
            async with asyncio.timeout(10):
                while machine.links[case.name].greeted:
                    await asyncio.sleep(0.001)
        return Outcome(any(isinstance(p, LinkHello) for p in heard), heard, None)

    async def _asks_for(self, case: Case) -> Outcome:
        body = PAGES[case.action]
        if body is not None and may(self.role, case):  # allowed, but not to be done here
            harmless = {"session": "none", "on": False, "client": "none", "module": "none"}
            body = {key: harmless.get(key, value) for key, value in body.items()}
        login = self.mine[0] if self.mine else None
        status, answer = await self._brokers.ask(case.at, case.action, body, login)
        accepted = status not in (401, 403)
        assert accepted or status == (403 if self.role.is_in else 401)
        if not accepted:
            assert VICTIM not in answer.replace(f"'{self.role.name}'", "")
        return Outcome(accepted, [], None)

    # --- listening

    async def settles(self, peer: PlainPeer) -> list[Parcel]:
        """All that comes until what was said has come into effect, or the end."""
        self._settles += 1
        mark = f"s{self._settles}"
        peer.say(Settle(mark, ""))
        heard: list[Parcel] = []
        while (parcel := await peer.hear()) is not None:
            heard.append(parcel)
            message = said(parcel)
            if isinstance(message, Settled) and message.id == mark:
                break
        return heard

    async def _until(self, peer: PlainPeer, *kinds: type[Any]) -> list[Parcel]:
        """All that comes up to one of these, or the end."""
        heard: list[Parcel] = []
        while (parcel := await peer.hear()) is not None:
            heard.append(parcel)
            if isinstance(said(parcel), kinds):
                break
        return heard


# --- what must not be -------------------------------------------------------------------------------


def overheard(role: Role, case: Case, heard: list[Parcel]) -> list[str]:
    """What of this was not for it."""
    leaks = []
    for parcel in heard:
        message = said(parcel)
        if isinstance(message, Delivery):
            class_ = message.publication.event.attributes["class"]
            if class_ not in role.subscribes or not may(role, case):
                leaks.append(f"it has heard {message.publication.id}, {class_}")
        elif isinstance(message, Publication | LinkHello) and not may(role, case):
            leaks.append(f"it has heard {type(message).__name__}")
        elif isinstance(message, PausePlease):
            leaks.append("it was asked to pause")
        elif isinstance(message, AttachRefused | Refused):
            assert message.reason
    return leaks


GRANTED = {
    role.name: user(
        role.name,
        publish=" or ".join(map(wants, role.publishes)),
        subscribe=" or ".join(map(wants, role.subscribes)),
        link=bool(role.broker),
        administer=role.administers,
        monitor=role.monitors,
    )
    for role in ROLES.values()
    if role.is_in
}


async def leaks_of_case(attacker: Attacker, victim: Victim, case: Case) -> list[str]:
    """One of the model, and whether all is as it was if it is forbidden."""
    role = attacker.role
    expected = may(role, case)
    outcome = await attacker.tries(case)
    assert outcome.accepted or not expected, (case, outcome.heard)
    leaks = overheard(role, case, outcome.heard)
    if outcome.accepted and not expected:
        leaks.append("it was accepted")
    if not expected:
        leaks += await victim.check(role.name if role.is_in else "")
    if outcome.peer is not None and not leaks:
        leaks += overheard(role, case, await attacker.settles(outcome.peer))
        outcome.peer.put(Ack(*outcome.peer.received))
        await outcome.peer.close()
    return [f"{case}: {leak}" for leak in leaks]


async def leaks_of(
    role: Role, folder: Path, *, store: bool = False, only: tuple[str, ...] = ()
) -> list[str]:
    """Of all cases, or of these actions; up to the first."""
    async with trio(folder, GRANTED, store=store) as (brokers, victim):
        attacker = Attacker(role, brokers, victim)
        for case in cases(role):
            if not only or case.action in only:
                leaks = await leaks_of_case(attacker, victim, case)
                if leaks:
                    return leaks
        return await victim.take_back(with_n=role.broker != "N")


@pytest.mark.parametrize("who", ROLES)
def test_nothing_leaks_to(who: str, tmp_path: Path) -> None:
    assert asyncio.run(leaks_of(ROLES[who], tmp_path)) == []


@pytest.mark.parametrize(
    "who", ["a narrow filter", pytest.param("another neighbour", marks=pytest.mark.long)]
)
def test_nothing_leaks_from_a_store_to(who: str, tmp_path: Path) -> None:
    assert asyncio.run(leaks_of(ROLES[who], tmp_path, store=True)) == []


def test_the_model_has_all_that_there_is() -> None:
    """No case twice; each action is forbidden to all, or allowed to somebody and forbidden to others."""
    verdicts: dict[str, set[bool]] = {}
    count = 0
    for role in ROLES.values():
        everything = list(cases(role))
        assert len(everything) == len(set(everything))
        count += len(everything)
        for case in everything:
            verdicts.setdefault(case.action, set()).add(may(role, case))
    assert {action for action, found in verdicts.items() if True not in found} == {*BROKERS_WORDS}
    assert all(False in found for found in verdicts.values())
    assert count > 3_000
    # Nothing that brokers listen to is left out, except what speaks of a session of one's own.
    spoken = {type(word) for word in BROKERS_WORDS.values()}
    spoken |= {Subscribe, Advertise, Unsubscribe, Unadvertise, Publication, Migrate, EndSession}
    node = Broker(BrokerConfig(broker="B", incarnation="1")).node
    heard = {*node._link_messages, *node._session_messages}
    assert heard - spoken == {Settle, HandOver, Paused, Probed, Arrived, Done}


@pytest.mark.parametrize(
    ("who", "case"),
    [
        ("a narrow filter", Case("subscribe", "B2", VICTIM, f"{DURABLE}/events", PUBLIC)),
        ("a narrow filter", Case("take over", "B0", VICTIM, "alice~durable/later", claim="eve")),
        ("a narrow filter", Case("take over", "B0", VICTIM, "alice~outbox/later", claim="eve")),
        ("a narrow filter", Case("advertise", "B2", VICTIM, "alice~durable/later/1", PUBLIC)),
        ("another neighbour", Case("greet", "B0", name="N")),
        ("another neighbour", Case("greet", "B0", name="B1")),
    ],
)
def test_what_was_possible_once_is_among_it(who: str, case: Case) -> None:
    assert case in cases(ROLES[who])
    assert not may(ROLES[who], case)


# --- whether a leak would be noticed ----------------------------------------------------------------

# A check of the product that is left out, who would make use of it, and how.
LEFT_OUT = [
    ("objection_to_name", "a narrow filter", "subscribe"),
    ("objection_to_name", "a narrow filter", "advertise"),
    ("objection_to_name", "a narrow filter", "attach"),
    ("objection_to_name", "a narrow filter", "take over"),
    ("objection_to_client", "a narrow filter", "attach"),
    ("objection_to_client", "a narrow filter", "resume"),
    ("objection_to_client", "a narrow filter", "acknowledge"),
    ("objection_to_client", "a narrow filter", "end"),
    ("objection_to_link", "another neighbour", "greet"),
    ("objection_to_subscription", "publishes only", "subscribe"),
    ("objection_to_advertisement", "subscribes only", "advertise"),
    ("objection_to_advertisement", "subscribes only", "publish"),
]


@pytest.mark.parametrize(("check", "who", "action"), LEFT_OUT)
def test_a_leak_is_noticed(check: str, who: str, action: str, tmp_path: Path) -> None:
    with mock.patch.object(Permission, check, return_value=""):
        assert asyncio.run(leaks_of(ROLES[who], tmp_path, only=(action,)))
