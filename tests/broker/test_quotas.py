"""What one user may have at a broker: so much, and what is too much is taken from nobody else.

A test that fails is known, and says why: the bound is not what it says.
"""

from __future__ import annotations

import pytest

from roost.broker import events as ev
from roost.broker.commands import PauseReading, ResumeReading
from roost.broker.config import UserQuotas
from roost.broker.messages import (
    CONTROL,
    DATA,
    PROTOCOL_VERSION,
    Ack,
    Attached,
    EndSession,
    Frame,
    LinkHello,
    Publication,
    Refused,
    SessionEnded,
    Settle,
)
from roost.broker.permissions import Permission
from roost.broker.quotas import LOOK_EVERY
from roost.language import Event, parse_subscription
from tests.broker.kit import Federation
from tests.runtime.desk import Caller, Desk, messages, objection

ALL = parse_subscription("*")
KB = 1_000


def permission(user: str, privilege: str = "") -> Permission:
    return Permission(
        user, ALL, ALL, link=privilege == "link", administer=privilege == "administer"
    )


def session(desk: Desk, client: str, *, durable: bool = False, privilege: str = "") -> Caller:
    """A new session, of the user whom its client belongs to, and what it was answered."""
    caller = Caller(desk, permission(client.partition("~")[0], privilege))
    caller.attach(client, durable=durable, process="1")
    return caller


def acknowledge(caller: Caller) -> None:
    """All that it has heard."""
    last = [0, 0]
    for parcel in caller.heard:
        if isinstance(parcel, Frame):
            last[parcel.priority] = parcel.sequence
    caller.put(Ack(*last))


# --- sessions -------------------------------------------------------------------------------------

TOO_MANY = "'eve' has 3 sessions here already"


def three_sessions(**config: bool) -> tuple[Desk, Caller, Caller, Caller]:
    """One that is there, one that is away, and a durable one that is away."""
    desk = Desk(quotas=UserQuotas(sessions=3), **config)
    there = session(desk, "eve~there")
    away = session(desk, "eve~away")
    durable = session(desk, "eve~durable", durable=True)
    away.close()
    durable.close()
    return desk, there, away, durable


def test_a_user_has_so_many_sessions_there_or_away() -> None:
    desk, *_ = three_sessions()
    assert objection(session(desk, "eve~4").heard) == TOO_MANY
    assert objection(session(desk, "eve").heard) == TOO_MANY
    assert len(desk.broker.sessions) == 3
    assert not objection(session(desk, "bob~1").heard)


def test_those_that_it_has_can_be_resumed_and_taken_over() -> None:
    desk, *_ = three_sessions()
    for client in ("eve~there", "eve~away"):
        (answer,) = Caller(desk, permission("eve")).attach(client, resume=True, process="1")
        assert isinstance(answer, Attached)
        assert answer.resumed
    (answer,) = Caller(desk, permission("eve")).attach("eve~durable", durable=True, process="2")
    assert isinstance(answer, Attached)
    assert len(desk.broker.sessions) == 3
    (answer,) = Caller(desk, permission("eve")).attach("eve~there")  # anew, in place of the other
    assert isinstance(answer, Attached)
    assert answer.is_new


@pytest.mark.parametrize("how", ["says goodbye", "lingers", "dismissed"])
def test_one_that_is_over_makes_room(how: str) -> None:
    desk, there, *_ = three_sessions()
    if how == "says goodbye":
        there.say(EndSession(""))
        acknowledge(there)
        there.close()
    elif how == "lingers":
        desk.handle(ev.TimerFired("linger:eve~away"))
    else:
        desk.handle(ev.SessionDismissed("eve~durable", "enough"))
    assert not objection(session(desk, "eve~4").heard)
    assert objection(session(desk, "eve~5").heard) == TOO_MANY


def test_they_count_after_a_restart_for_the_same_user() -> None:
    desk, *_ = three_sessions(durable=True)
    desk.restart()
    assert objection(session(desk, "eve~4").heard) == TOO_MANY
    assert not objection(session(desk, "bob~1").heard)


def test_nothing_is_left_of_a_user_whose_sessions_are_over() -> None:
    """There may be millions of them, one after the other."""
    desk = Desk(durable=True, quotas=UserQuotas(kept_bytes=100 * KB), session_memory_max=10)
    pub, eve = session(desk, "pub"), session(desk, "eve~1", durable=True)
    pub.advertise("a present", "pub/1")
    eve.subscribe("a present", "eve~1/1")
    eve.close()
    for number in range(1, 20):
        pub.put(Frame(DATA, number, Publication("pub", number, Event({"a": 1}), bytes(KB))))
    parts = vars(desk.broker.node.hosted.quotas).values()
    assert sum("eve" in part for part in parts if isinstance(part, dict)) == 3
    desk.handle(ev.SessionDismissed("eve~1", "enough"))
    assert not any("eve" in part for part in parts if isinstance(part, dict))


@pytest.mark.parametrize("privilege", ["link", "administer"])
def test_the_privileged_are_not_counted(privilege: str) -> None:
    desk = Desk(quotas=UserQuotas(sessions=3))
    for number in range(10):
        caller = session(desk, f"boss~{number}", privilege=privilege)
        assert not objection(caller.heard)


def test_where_nobody_logs_in_a_user_is_the_name_of_a_client() -> None:
    federation = Federation(("B1", "B2"), quotas=UserQuotas(sessions=1))
    federation.client("a", "B1", session="one")
    federation.client("b", "B1", session="two")
    federation.settle()
    assert federation.state("a") == federation.state("b") == "attached"
    federation.cut("a", "B1")
    federation.client("a", "B1", session="three")
    federation.settle()
    (refused,) = federation.heard("a", "refused")
    assert refused.reason == "'a' has 1 sessions here already"


# --- subscriptions --------------------------------------------------------------------------------


def subscribed(caller: Caller, count: int) -> int:
    """How many of so many subscriptions were accepted."""
    accepted = 0
    for number in range(count):
        answers = caller.subscribe(f"n = {number}", f"{caller.client}/{number}")
        refused = objection(answers)
        accepted += not refused
        assert refused in ("", "'eve' has 100 subscriptions here already")
    return accepted


def test_a_user_has_so_many_subscriptions() -> None:
    desk = Desk(quotas=UserQuotas(subscriptions=100))
    eve = session(desk, "eve")
    assert subscribed(eve, 120) == 100
    assert len(desk.broker.router.subscriptions) == 100
    bob = session(desk, "bob")
    assert not objection(bob.subscribe("n = 1"))


@pytest.mark.parametrize("sessions", [2, 10])
def test_in_all_its_sessions_together(sessions: int) -> None:
    desk = Desk(quotas=UserQuotas(subscriptions=100))
    mine = [session(desk, f"eve~{number}") for number in range(sessions)]
    assert sum(subscribed(caller, 60) for caller in mine) == 100


def test_a_user_has_so_many_advertisements() -> None:
    desk = Desk(quotas=UserQuotas(subscriptions=100))
    one, two = session(desk, "eve~1"), session(desk, "eve~2")
    assert [objection(one.advertise(f"n = {n}", f"eve~1/{n}")) for n in range(60)] == [""] * 60
    answers = [objection(two.advertise(f"n = {n}", f"eve~2/{n}")) for n in range(60)]
    assert answers == [""] * 40 + ["'eve' has 100 subscriptions here already"] * 20
    assert len(desk.broker.router.advertisements) == 100


def test_advertisements_count_like_subscriptions() -> None:
    desk = Desk(quotas=UserQuotas(subscriptions=100))
    eve = session(desk, "eve")
    assert not any(objection(eve.advertise(f"n = {n}", f"eve/{n}")) for n in range(30))
    assert subscribed(eve, 120) == 70


def test_a_session_has_so_many_advertisements() -> None:
    desk = Desk(subscriptions_max=3)
    eve = session(desk, "eve")
    answers = [objection(eve.advertise(f"n = {n}", f"eve/{n}")) for n in range(4)]
    assert answers == ["", "", "", "a session has at most 3 advertisements"]


def test_the_privileged_have_as_many_as_they_like() -> None:
    desk = Desk(quotas=UserQuotas(subscriptions=10))
    boss = session(desk, "boss", privilege="administer")
    for number in range(2 * LOOK_EVERY):
        assert not objection(boss.subscribe(f"n = {number}", f"boss/{number}"))


# --- bytes that are kept --------------------------------------------------------------------------


class Shop:
    """A publisher, and a durable subscriber that has been abandoned; at a broker with a store."""

    def __init__(self, kept: int) -> None:
        self.federation = Federation(
            ("B1", "B2"), durable=True, quotas=UserQuotas(kept_bytes=kept), session_memory_max=10
        )
        self.federation.client("pub", "B1")
        self.federation.advertise("pub", "a present")
        self.federation.settle()
        self.begin("abandoned")
        self.federation.cut("abandoned", "B2")

    def begin(self, name: str, process: str = "1") -> None:
        session = f"durable/{name}"
        self.federation.client(name, "B2", session=session, durable=True, process=process)
        self.federation.subscribe(name, "a present", "orders")
        self.federation.settle()

    def publish(self, count: int, size: int) -> None:
        """Events, and nobody is refused."""
        before = self.federation.clients["pub"].published
        for number in range(count):
            event = ev.PublishRequested(Event({"a": number}), bytes(size))
            self.federation.handle("pub", event)
            self.federation.settle()
        assert self.federation.clients["pub"].published == before + count
        assert self.federation.heard("pub", "refused") == []
        assert self.federation.between("B1", "pub", Refused) == []

    @property
    def kept_bytes(self) -> int:
        """In the store, for those who are away."""
        store = self.federation.stores["B2"].items()
        out = [value for key, value in store if key[0] == "out" and key[1] == "session"]
        return sum(len(message.publication.payload) for message, _ in out)


def test_an_abandoned_session_ends_and_nobody_is_refused() -> None:
    shop = Shop(kept=100 * KB)
    shop.begin("reader")
    shop.publish(90, KB)
    assert "durable/abandoned" in shop.federation.brokers["B2"].sessions
    shop.publish(200, KB)
    assert shop.kept_bytes == 0
    assert list(shop.federation.brokers["B2"].sessions) == ["durable/reader"]
    assert len(shop.federation.got("reader")) == 290  # whoever reads has all of it
    assert list(shop.federation.table("B2")) == ["durable/reader/orders"]
    ((who, report),) = [r for r in shop.federation.reports if r[1].what == "session over"]
    assert (who, report.level, report.about) == ("B2", "warning", "durable/abandoned")
    assert "more than 100,000 bytes wait for 'abandoned'" in report.detail
    assert "deliveries were waiting" in report.detail
    # It comes back, and is told that what has waited is lost; from here on it gets everything.
    shop.begin("abandoned", process="2")
    assert shop.federation.clients["abandoned"].is_new
    shop.publish(3, KB)
    assert len(shop.federation.got("abandoned")) == 3


def test_one_who_comes_in_time_has_everything() -> None:
    shop = Shop(kept=100 * KB)
    shop.publish(90, KB)
    shop.begin("abandoned", process="2")
    assert not shop.federation.clients["abandoned"].is_new
    assert len(shop.federation.got("abandoned")) == 90


def test_the_bound_is_for_all_sessions_of_a_user_and_the_largest_goes() -> None:
    desk = Desk(durable=True, quotas=UserQuotas(kept_bytes=200 * KB), session_memory_max=10)
    pub = session(desk, "pub")
    pub.advertise("a present", "pub/1")
    for client in ("eve~large", "eve~small", "bob~large"):
        caller = session(desk, client, durable=True)
        few = "" if client.endswith("large") else " and a < 100"
        caller.subscribe(f"a present{few}", f"{client}/1")
        caller.close()
    for number in range(1, 196):
        pub.put(Frame(DATA, number, Publication("pub", number, Event({"a": number}), bytes(KB))))
    assert set(desk.broker.sessions) == {"pub", "eve~small", "bob~large"}
    assert messages(pub.heard) == []


@pytest.mark.parametrize("large", [1, 8, 32, 64])
def test_large_events_hardly_hide_behind_small_ones(large: int) -> None:
    """The size of what waits is estimated by what came last, when it is looked at: at worst so wrong."""
    bound = 200 * KB
    desk = Desk(durable=True, quotas=UserQuotas(kept_bytes=bound), session_memory_max=10)
    pub = session(desk, "pub")
    pub.advertise("a present", "pub/1")
    eve = session(desk, "eve", durable=True)
    eve.subscribe("a present", "eve/1")
    eve.close()
    number = kept = 0
    while "eve" in desk.broker.sessions:
        assert kept <= 4 * bound
        size = 0 if number % LOOK_EVERY >= large else 5 * KB
        number += 1
        kept += size
        pub.put(Frame(DATA, number, Publication("pub", number, Event({"a": 1}), bytes(size))))
    assert not any(key[0] == "out" for key in desk.store)


@pytest.mark.parametrize("restarts", [False, True])
def test_small_events_do_not_count_as_large_ones_that_came_later(restarts: bool) -> None:
    """Each counts for what it is: 900 of some 100 bytes and 20 of 2 KB are about 130 KB."""
    desk = Desk(durable=True, quotas=UserQuotas(kept_bytes=200 * KB), session_memory_max=10)
    number = 0

    def publish(count: int, size: int) -> None:
        nonlocal number
        pub = session(desk, f"pub-{number}")
        pub.advertise("a present", f"pub-{number}/1")
        for sequence in range(1, count + 1):
            event = Publication(f"pub-{number}", sequence, Event({"a": 1}), bytes(size))
            pub.put(Frame(DATA, sequence, event))
        number += 1

    eve = session(desk, "eve", durable=True)
    eve.subscribe("a present", "eve/1")
    eve.close()
    publish(900, 10)
    if restarts:
        desk.restart()
    publish(20, 2 * KB)
    assert "eve" in desk.broker.sessions
    publish(100, 2 * KB)
    assert "eve" not in desk.broker.sessions


@pytest.mark.parametrize(("sessions", "size"), [(1, 20 * KB), (50, KB)])
def test_few_deliveries_count_as_well_if_they_are_large_or_to_many(
    sessions: int, size: int
) -> None:
    bound = 100 * KB
    desk = Desk(durable=True, quotas=UserQuotas(kept_bytes=bound), session_memory_max=10)
    pub = session(desk, "pub")
    pub.advertise("a present", "pub/1")
    for number in range(sessions):
        eve = session(desk, f"eve~{number}", durable=True)
        eve.subscribe("a present", f"eve~{number}/1")
        eve.close()
    for number in range(1, LOOK_EVERY):
        pub.put(Frame(DATA, number, Publication("pub", number, Event({"a": 1}), bytes(size))))
    kept = [value[0] for key, value in desk.store.items() if key[:2] == ("out", "session")]
    assert sum(len(delivery.publication.payload) for delivery in kept) <= 4 * bound


# --- answers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["refused", "settled"])
@pytest.mark.parametrize("durable", [False, True])
def test_answers_that_nobody_hears_have_a_bound(what: str, durable: bool) -> None:
    desk = Desk(quotas=UserQuotas(answers=50), durable=durable)
    eve, bob = session(desk, "eve", durable=durable), session(desk, "bob")
    for number in range(1, 1_000):
        if what == "refused":
            eve.publish(number, {"class": "a"})
        else:
            eve.say(Settle("x", ""))
        if "eve" not in desk.broker.sessions:
            break
        assert len(desk.broker.sessions["eve"].channel.control.outbox) <= 50
    assert number == 51
    assert not any(key[:3] == ("out", "session", "eve") for key in desk.store)
    assert not objection(bob.say(Settle("x", "")))


def test_one_who_listens_may_ask_without_end() -> None:
    desk = Desk(quotas=UserQuotas(answers=50))
    eve = session(desk, "eve")
    for _ in range(200):
        eve.say(Settle("x", ""))
        acknowledge(eve)
    assert "eve" in desk.broker.sessions


def test_answers_to_a_neighbour_are_no_users() -> None:
    desk = Desk(quotas=UserQuotas(answers=50))
    desk.handle(ev.LinkAdded("N", dial=False))
    neighbour = Caller(desk, Permission("N", link=True))
    neighbour.put(LinkHello(PROTOCOL_VERSION, "N", "n", "", 0, 0))
    eve = session(desk, "eve")
    for number in range(200):
        eve.advertise(f"n = {number}", f"eve/{number}")
        acknowledge(eve)
    waiting = desk.broker.links["N"].channel.control.outbox
    assert sum(frame.priority == CONTROL for frame in waiting) >= 200
    assert desk.broker.links["N"].greeted


def test_a_client_that_is_there_is_told_why_its_session_ends() -> None:
    """It reads, and acknowledges nothing."""
    desk = Desk(durable=True, quotas=UserQuotas(kept_bytes=100 * KB), session_memory_max=10)
    pub, eve = session(desk, "pub"), session(desk, "eve", durable=True)
    pub.advertise("a present", "pub/1")
    eve.subscribe("a present", "eve/1")
    for number in range(1, 400):
        pub.put(Frame(DATA, number, Publication("pub", number, Event({"a": 1}), bytes(KB))))
    waiting = desk.broker.sessions["eve"]
    assert waiting.ending
    last = desk.store["out", "session", "eve", DATA, waiting.channel.data.sent][0]
    assert isinstance(last, SessionEnded)
    assert last.reason == "more than 100,000 bytes wait for 'eve'"
    assert waiting.channel.data.sent < 250
    assert messages(pub.heard) == []


def test_many_that_were_refused_together_are_no_deafness() -> None:
    """Its data is read no further until it has heard what there is."""
    desk = Desk(quotas=UserQuotas(answers=80))
    eve = session(desk, "eve")
    for number in range(1, 41):
        eve.publish(number, {"class": "a"})
    assert desk.reading == [PauseReading]
    acknowledge(eve)
    assert desk.reading == [PauseReading, ResumeReading]
    assert "eve" in desk.broker.sessions


def test_what_it_asks_behind_those_is_answered() -> None:
    """It was on its way when its data was read no further."""
    desk = Desk(quotas=UserQuotas(answers=80))
    eve = session(desk, "eve")
    for number in range(1, 60):
        eve.publish(number, {"class": "a"})
    assert [type(each) for each in messages(eve.heard)] == [Refused] * 59
    assert desk.reading == [PauseReading]
