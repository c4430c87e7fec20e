"""Who may do what: every combination through the broker's machine, some over real sockets.

What is expected is worked out here a second time, without the language: a filter is a function of a handful
of events, and covers another if it holds wherever that one does. A forbidden subscriber receives nothing,
ever: neither what was kept for it while it was away, nor by a session that it had when it might do more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.broker import commands as do
from roost.broker import events as ev
from roost.broker.messages import (
    CONTROL,
    DATA,
    PROTOCOL_VERSION,
    Ack,
    Attached,
    Delivery,
    Dropped,
    Frame,
    LinkHello,
    Login,
    Publication,
    Refused,
    Settle,
    Settled,
)
from roost.broker.permissions import Permission
from roost.language import Event, Value, parse_subscription
from roost.runtime.plain_peer import PlainPeer, RefusedError
from tests.runtime.desk import Attributes, Caller, Desk, deliveries, messages, objection
from tests.runtime.peers import Live, live, login_of, play, user

# --- filters and events, the obvious way ----------------------------------------------------------

EVENTS: list[Attributes] = [
    {name: value for name, value in (("class", class_), ("n", n)) if value is not None}
    for class_, n in product((None, "a", "b"), (None, 0, 20, 60))
]


class Filter(NamedTuple):
    """A filter in the language, and what it means."""

    text: str
    holds: Callable[[Attributes], bool]


def number(event: Attributes) -> float:
    n = event.get("n")
    return n if isinstance(n, int) else float("-inf")


NOTHING = Filter("", lambda _: False)
EVERYTHING = Filter("*", lambda _: True)
WIDE = Filter("class = 'a'", lambda e: e.get("class") == "a")
NARROW = Filter("class = 'a' and n > 10", lambda e: e.get("class") == "a" and number(e) > 10)
TWO = Filter(
    "class = 'b' or class = 'a' and n > 30",
    lambda e: e.get("class") == "b" or (e.get("class") == "a" and number(e) > 30),
)
RESOURCES = {
    "covered": Filter("class = 'a' and n > 50", lambda e: e.get("class") == "a" and number(e) > 50),
    "overlapping": Filter("n > 5", lambda e: number(e) > 5),
    "disjoint": Filter("class = 'b'", lambda e: e.get("class") == "b"),
    "everything": EVERYTHING,
}


def obviously_covers(one: Filter, other: Filter) -> bool:
    """Also where nothing was granted: then nothing at all is covered, not even what nobody asks for."""
    return one is not NOTHING and all(one.holds(event) for event in EVENTS if other.holds(event))


class Role(NamedTuple):
    publish: Filter = NOTHING
    subscribe: Filter = NOTHING
    link: bool = False
    administer: bool = False

    def permission(self, principal: str = "eve") -> Permission:
        return Permission(
            principal,
            parse_subscription(self.publish.text) if self.publish.text else None,
            parse_subscription(self.subscribe.text) if self.subscribe.text else None,
            link=self.link,
            administer=self.administer,
        )


ROLES = {
    "nothing granted": Role(),
    "publish": Role(publish=WIDE),
    "subscribe": Role(subscribe=WIDE),
    "both": Role(WIDE, WIDE),
    "both, narrower": Role(NARROW, NARROW),
    "both, two filters": Role(TWO, TWO),
    "everything": Role(EVERYTHING, EVERYTHING),
    "link": Role(link=True),
    "administer": Role(administer=True),
}
NOT_LOGGED_IN = "not logged in"


# --- every combination ----------------------------------------------------------------------------

# What a role is allowed, worked out the obvious way.
Expected = Callable[[Role, Filter], bool]
# What one does, and the objection to it.
Done = Callable[[Desk, "Role | None", Filter], str]


def caller(desk: Desk, role: Role | None) -> Caller:
    return Caller(desk, None if role is None else role.permission())


def attaching(desk: Desk, role: Role | None, _: Filter) -> str:
    return objection(caller(desk, role).attach("eve~1"))


def attaching_as_another(desk: Desk, role: Role | None, _: Filter) -> str:
    # The second begins as its own name does, and is another's all the same.
    return " ".join(objection(caller(desk, role).attach(name)) for name in ("bob", "evelyn"))


def advertising(desk: Desk, role: Role | None, resource: Filter) -> str:
    me = caller(desk, role)
    me.attach("eve")
    me.advertise(resource.text)
    return objection(me.heard)


def subscribing(desk: Desk, role: Role | None, resource: Filter) -> str:
    """And what comes of it is all that was asked for, or nothing."""
    me = caller(desk, role)
    me.attach("eve")
    me.subscribe(resource.text)
    refused = objection(me.heard)
    publish_all(desk)
    wanted = [] if refused else [event for event in EVENTS if resource.holds(event)]
    assert me.delivered == wanted
    return refused


def publishing(desk: Desk, role: Role | None, resource: Filter) -> str:
    """Each event that the resource matches, with all advertised that may be."""
    listener = Caller(desk, Role(subscribe=EVERYTHING).permission("bob"))
    listener.attach("bob")
    listener.subscribe("*")
    me = caller(desk, role)
    me.attach("eve")
    if role is not None and role.publish is not NOTHING:
        assert not objection(me.advertise(role.publish.text))
    wanted = [event for event in EVENTS if resource.holds(event)]
    refused = [bool(objection(me.publish(n, event))) for n, event in enumerate(wanted, 1)]
    granted = NOTHING if role is None else role.publish
    assert listener.delivered == [event for event in wanted if granted.holds(event)]
    assert role is None or refused == [not granted.holds(event) for event in wanted]
    return objection(me.heard)


def resuming(desk: Desk, role: Role | None, _: Filter) -> str:
    before = Caller(desk, Role().permission())
    before.attach("eve")
    before.close()
    answers = caller(desk, role).attach("eve", resume=True)
    refused = objection(answers)
    assert refused or any(isinstance(a, Attached) and a.resumed for a in answers)
    return refused


def resuming_anothers(desk: Desk, role: Role | None, _: Filter) -> str:
    return _of_bob(desk, role, resume=True)


def taking_over(desk: Desk, role: Role | None, _: Filter) -> str:
    before = Caller(desk, Role().permission())
    before.attach("eve", durable=True, process="1")
    refused = objection(caller(desk, role).attach("eve", durable=True, process="2"))
    assert desk.broker.sessions["eve"].process == ("1" if refused else "2")
    return refused


def taking_over_anothers(desk: Desk, role: Role | None, _: Filter) -> str:
    return _of_bob(desk, role, durable=True)


def _of_bob(desk: Desk, role: Role | None, *, resume: bool = False, durable: bool = False) -> str:
    """Under bob's name, and under its own; bob has his session after it, and nobody else."""
    bob = Caller(desk, Role().permission("bob"))
    bob.attach("bob", "bob's", durable=durable, process="1")
    said = [
        objection(
            caller(desk, role).attach(name, "bob's", resume=resume, durable=durable, process="1")
        )
        for name in ("bob", "eve")
    ]
    assert desk.broker.sessions["bob's"].connection == bob.id
    assert not objection(bob.say(Settle("x", "")))
    return said[0] and said[1]


def linking(desk: Desk, role: Role | None, _: Filter) -> str:
    return _greeting_as("eve", desk, role)


def linking_as_another(desk: Desk, role: Role | None, _: Filter) -> str:
    # The second begins as its own name does, and is another's all the same.
    said = [_greeting_as(name, desk, role) for name in ("N", "eve~1")]
    return said[0] and said[1]


def _greeting_as(broker: str, desk: Desk, role: Role | None) -> str:
    desk.handle(ev.LinkAdded(broker, dial=False))
    answers = caller(desk, role).put(LinkHello(PROTOCOL_VERSION, broker, "n", "", 0, 0))
    refused = objection(answers)
    assert bool(refused) != any(isinstance(answer, LinkHello) for answer in answers)
    assert bool(refused) != desk.broker.links[broker].greeted
    return refused


def publish_all(desk: Desk, first: int = 1, client: str = "ann") -> Caller:
    """By somebody who may."""
    ann = Caller(desk, Role(publish=EVERYTHING).permission("ann"))
    ann.attach(client)
    ann.advertise("*", f"{client}/a")
    for sequence, event in enumerate(EVENTS, first):
        ann.publish(sequence, event)
    return ann


def always(_: Role, __: Filter) -> bool:
    return True


def never(_: Role, __: Filter) -> bool:
    return False


# Whether the resource matters; what is done; what is expected of those who have logged in.
ACTIONS: dict[str, tuple[bool, Done, Expected]] = {
    "attach": (False, attaching, always),
    "attach as another": (False, attaching_as_another, never),
    "advertise": (True, advertising, lambda role, r: obviously_covers(role.publish, r)),
    "publish": (True, publishing, lambda role, r: obviously_covers(role.publish, r)),
    "subscribe": (True, subscribing, lambda role, r: obviously_covers(role.subscribe, r)),
    "resume": (False, resuming, always),
    "resume another's": (False, resuming_anothers, never),
    "take over": (False, taking_over, always),
    "take over another's": (False, taking_over_anothers, never),
    "link": (False, linking, lambda role, _: role.link),
    "link as another": (False, linking_as_another, never),
}


def combinations() -> Iterator[tuple[str, str, str]]:
    for role, (action, (matters, _, _)) in product((*ROLES, NOT_LOGGED_IN), ACTIONS.items()):
        for resource in RESOURCES if matters else ("everything",):
            yield role, action, resource


@pytest.mark.parametrize("routing", ["advertisement", "flooding"])
@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize(("role", "action", "resource"), list(combinations()))
def test_every_combination(
    role: str, action: str, resource: str, durable: bool, routing: str
) -> None:
    _, done, expected = ACTIONS[action]
    who = ROLES.get(role)
    desk = Desk(durable=durable, routing=routing)
    refused = done(desk, who, RESOURCES[resource])
    allowed = who is not None and expected(who, RESOURCES[resource])
    assert bool(refused) != allowed, refused
    if who is None:
        assert "nobody has logged in" in refused or "greeting was expected" in refused


# --- what was permitted once ----------------------------------------------------------------------

# How the permission of somebody with a durable session comes to be another one.
WAYS = (
    "told so",
    "resumes",
    "takes over",
    "broker restarts, resumes",
    "broker restarts, takes over",
)
CHANGES = {
    "revoked": NOTHING,
    "narrowed": NARROW,
    "another": RESOURCES["disjoint"],
    "the same": WIDE,
    "widened": EVERYTHING,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("away", [False, True])
def test_what_was_kept_is_delivered_only_if_it_is_still_permitted(
    way: str, change: str, away: bool
) -> None:
    """A durable session with events that were kept for it, and then may do something else."""
    new = CHANGES[change]
    desk = Desk(durable=True)
    me = Caller(desk, Role(subscribe=WIDE).permission())
    me.attach("eve", durable=True, process="1")
    assert not objection(me.subscribe("class = 'a'", "wide"))
    assert not objection(me.subscribe("class = 'a' and n > 10", "narrow"))
    if away:
        me.close()
    else:
        desk.handle(ev.Congested(me.id))  # it is there, and does not read
    publish_all(desk)
    assert me.delivered == []
    if "restarts" in way:
        desk.restart()
    permission = Role(subscribe=new).permission()
    if way == "told so" and not away:
        me.identify(permission)
        desk.handle(ev.Relieved(me.id))
    else:
        me = Caller(desk, permission)
        resume = "resumes" in way or way == "told so"
        me.attach("eve", resume=resume, durable=True, process="1" if resume else "2")
    kept = [event for event in EVENTS if WIDE.holds(event)]
    assert me.delivered == [event for event in kept if new.holds(event)]
    dropped = sum(m.count for m in messages(me.heard) if isinstance(m, Dropped))
    assert dropped == len([event for event in kept if not new.holds(event)])

    # And from now on: of its subscriptions, those that are still covered.
    before = len(me.delivered)
    publish_all(desk, 100)
    still = [f for f in (WIDE, NARROW) if obviously_covers(new, f)]
    wanted = [event for event in EVENTS if any(f.holds(event) for f in still)]
    assert me.delivered[before:] == wanted
    refused = {m.request for m in messages(me.heard) if isinstance(m, Refused)}
    assert refused == {"wide", "narrow"} - {"wide" if f is WIDE else "narrow" for f in still}


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_advertised_is_published_only_if_it_is_still_permitted(change: str) -> None:
    new = CHANGES[change]
    desk = Desk()
    me = Caller(desk, Role(publish=WIDE).permission())
    me.attach("eve")
    me.advertise("class = 'a'")
    me.identify(Role(publish=new).permission())
    for sequence, event in enumerate(EVENTS, 1):
        refused = objection(me.publish(sequence, event))
        # The advertisement stands or falls as a whole.
        assert bool(refused) != (obviously_covers(new, WIDE) and WIDE.holds(event))


class Step(NamedTuple):
    """Something that happens to a subscriber."""

    what: str
    choice: int


FILTERS = (NOTHING, NARROW, TWO, WIDE, EVERYTHING, *RESOURCES.values())
HAPPENS = (
    *("publish", "publish", "publish", "identify", "subscribe"),
    *("leave", "resume", "take", "congest", "relieve", "ack"),
)
steps = st.lists(st.builds(Step, st.sampled_from(HAPPENS), st.integers(0, 99)), max_size=40)


@pytest.mark.parametrize("durable", [False, True])
@given(steps)
def test_whatever_happens_nothing_comes_that_is_not_permitted(
    durable: bool, happens: list[Step]
) -> None:
    desk = Desk(durable=durable)
    ann = publish_all(desk)
    sequence = 1_000
    granted = EVERYTHING
    me = Caller(desk, Role(subscribe=granted).permission())
    me.attach("eve", durable=True, process="0")
    me.subscribe("*", "first")
    received, there, checked = [0, 0], True, 0
    for number_, (what, choice) in enumerate(happens):
        other = FILTERS[choice % len(FILTERS)]
        if what == "publish":
            sequence += 1
            ann.publish(sequence, EVENTS[choice % len(EVENTS)])
        elif what == "identify":
            granted = other
            if there:
                me.identify(Role(subscribe=granted).permission())
        elif what == "subscribe" and there and other.text:
            me.subscribe(other.text, f"s{number_}")
        elif what == "leave" and there:
            me.close()
            there = False
        elif what in ("resume", "take"):
            session = desk.broker.sessions["eve"]
            me, checked, there = Caller(desk, Role(subscribe=granted).permission()), 0, True
            if what == "take":
                received = [0, 0]
                me.attach("eve", durable=True, process=f"p{number_}")
            else:
                me.sent = [lane.received for lane in session.channel.lanes]
                process = session.process
                me.attach("eve", resume=True, received=received, durable=True, process=process)
        elif what in ("congest", "relieve") and there:
            happened = ev.Congested(me.id) if what == "congest" else ev.Relieved(me.id)
            desk.handle(happened)
        elif what == "ack" and there:
            me.put(Ack(*received))
        # What has come in this step was permitted in it.
        for parcel in me.heard[checked:]:
            if isinstance(parcel, Frame):
                lane = parcel.priority
                received[lane] = max(received[lane], parcel.sequence)
            for delivery in deliveries([parcel]):
                assert granted.holds(dict(delivery.publication.event.attributes))
        checked = len(me.heard)


def test_what_waits_for_the_store_is_not_delivered_either() -> None:
    desk = Desk(durable=True)
    me = Caller(desk, Role(subscribe=WIDE).permission())
    me.attach("eve", durable=True, process="1")
    me.subscribe("class = 'a'")
    ann = Caller(desk, Role(publish=EVERYTHING).permission("ann"))
    ann.attach("ann")
    ann.advertise("*", "ann/a")
    # By hand, as transactions here take their time.
    publication = Publication("ann", 1, Event({"class": "a"}))
    waiting = desk.broker.handle(ev.Received(ann.id, [Frame(DATA, 1, publication)]), 0.0)
    waiting += desk.broker.handle(ev.Identified(me.id, Role().permission()), 0.0)
    said = [
        command
        for persist in waiting
        if isinstance(persist, do.Persist)
        for command in desk.broker.handle(ev.Persisted(persist.token), 0.0)
    ]
    assert not any(command.frames for command in said if isinstance(command, do.Deliver))
    to_me = [c.parcel for c in said if isinstance(c, do.Send) and c.connection == me.id]
    assert Frame(DATA, 1, Dropped(1)) in to_me


def test_refusals_come_in_order_when_a_session_is_resumed() -> None:
    desk = Desk()
    me = Caller(desk, Role(subscribe=WIDE).permission())
    me.attach("eve")
    me.subscribe("class = 'a'")
    assert objection(me.advertise("class = 'a'"))  # which is lost with the connection
    me.close()
    me = Caller(desk, Role(subscribe=NARROW).permission())
    me.attach("eve", resume=True)
    numbers = [p.sequence for p in me.heard if isinstance(p, Frame) and p.priority == CONTROL]
    assert numbers == [1, 2]


@pytest.mark.parametrize("how", ["logged in too late", "begun anew elsewhere"])
def test_nobody_is_remembered_whose_connection_has_gone(how: str) -> None:
    desk = Desk()
    me = Caller(desk, Role().permission())
    if how == "logged in too late":
        me.close()
        me.identify(Role().permission())
        assert desk.broker.node.peers.permissions == {}
    else:
        me.attach("eve")
        Caller(desk, Role().permission()).attach("eve")
        assert len(desk.broker.node.peers.permissions) == 1


# --- over real sockets ----------------------------------------------------------------------------


async def subscriber(at: Live, **how: Any) -> PlainPeer:
    peer = await at.attached("eve", durable=True, process="1", **how)
    peer.subscribe("eve/1", "class = 'eve'")
    await peer.acknowledged()
    return peer


async def publisher(at: Live) -> PlainPeer:
    peer = await at.attached("eve~pub")
    peer.advertise("eve~pub/a", "class = 'eve'")
    await peer.acknowledged()
    return peer


async def publish_numbers(peer: PlainPeer) -> None:
    for n in range(6):
        peer.publish({"class": "eve", "n": n})
    await peer.acknowledged()


async def numbers(peer: PlainPeer) -> list[Value | None]:
    """Of the events that have come until now."""
    peer.say(Settle("now", ""))
    found: list[Value | None] = []
    while True:
        parcel = await peer.hear()
        assert parcel is not None
        if isinstance(parcel, Frame):
            if isinstance(parcel.message, Delivery):
                found.append(parcel.message.publication.event.attributes["n"])
            elif isinstance(parcel.message, Settled):
                return found


def narrowed() -> Any:
    return user("eve", publish="class = 'eve'", subscribe="class = 'eve' and n > 2")


@live()
async def test_narrowed_on_disk_while_it_is_there(at: Live) -> None:
    eve, pub = await subscriber(at), await publisher(at)
    await publish_numbers(pub)
    assert await numbers(eve) == [0, 1, 2, 3, 4, 5]
    at.change_users({"eve": narrowed()})
    refused = await eve.next(Refused)
    assert refused.request == "eve/1"
    assert "may only subscribe to what \"class = 'eve' and n > 2\" covers" in refused.reason
    await publish_numbers(pub)
    assert await numbers(eve) == []
    eve.subscribe("eve/2", "class = 'eve' and n > 3")
    await eve.acknowledged()
    await publish_numbers(pub)
    assert await numbers(eve) == [4, 5]


@pytest.mark.parametrize("how", ["resumes", "takes over"])
@pytest.mark.parametrize("store", [False, True])
def test_narrowed_on_disk_while_it_is_away(how: str, store: bool, tmp_path: Path) -> None:
    async def scenario(at: Live) -> None:
        eve, pub = await subscriber(at), await publisher(at)
        await eve.close()
        await publish_numbers(pub)
        at.change_users({"eve": narrowed()})
        again = await at.peer()
        takes = how != "resumes"
        await again.attach(
            "eve",
            login=login_of("eve"),
            resume=not takes,
            durable=True,
            process="2" if takes else "1",
        )
        if not takes:
            again.sent = list(eve.sent)
        assert await numbers(again) == [3, 4, 5]
        await publish_numbers(pub)
        assert await numbers(again) == []

    broker = {"data": str(tmp_path / "data")} if store else {}
    asyncio.run(play(scenario, tmp_path, broker=broker))


@live()
async def test_removed_from_the_file(at: Live) -> None:
    eve, pub = await subscriber(at), await publisher(at)
    at.change_users({"eve": None})
    assert await eve.farewell() == "'eve' is no user any more"
    assert await pub.farewell() == "'eve' is no user any more"
    again = await at.peer()
    with pytest.raises(RefusedError, match="the user or the token is not right"):
        await again.attach("eve", login=login_of("eve"), resume=True, durable=True, process="1")
    # Let in again, with less: what was kept meanwhile is not for it.
    at.change_users({"eve": user("eve", publish="class = 'eve'")})
    peer = await at.peer()
    await peer.attach("eve", login=login_of("eve"), resume=True, durable=True, process="1")
    peer.sent = list(eve.sent)
    pub = await publisher(at)
    await publish_numbers(pub)
    assert await numbers(peer) == []


@live()
async def test_a_file_that_can_not_be_read_changes_nothing(at: Live) -> None:
    eve, pub = await subscriber(at), await publisher(at)
    (at.folder / "users.toml").write_text("[users.eve\n")
    await asyncio.sleep(0.2)
    await publish_numbers(pub)
    assert await numbers(eve) == [0, 1, 2, 3, 4, 5]


@live()
async def test_narrowed_on_disk_while_others_log_in(at: Live) -> None:
    eve = await subscriber(at)
    at.change_users({"eve": narrowed()})
    assert at.server._users is not None
    at.server._users.permission_of("good")  # as any login does, before the broker looks by itself
    assert (await eve.next(Refused, 1.0)).request == "eve/1"


@live()
async def test_a_neighbour_over_sockets(at: Live) -> None:
    at.server.shell.handle(ev.LinkAdded("N", dial=False))
    for who, reason in (("eve", "'eve' is not a broker of this federation"), ("N", "")):
        peer = await at.peer()
        peer.put(Login(*login_of(who)), LinkHello(PROTOCOL_VERSION, "N", "n", "", 0, 0))
        if reason:
            assert await peer.farewell() == reason
        else:
            assert (await peer.next(LinkHello)).broker == "B0"
