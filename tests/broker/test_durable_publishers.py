"""Publishers that outlive a process: every event of their log is routed once, and in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from roost.broker import commands as do
from roost.broker import events as ev
from roost.broker.client import Client
from roost.broker.messages import (
    PROTOCOL_VERSION,
    Attach,
    Attached,
    AttachRefused,
    Publication,
    Redirect,
    Refused,
)
from roost.language import Event
from tests.broker.kit import Federation
from tests.broker.test_modules import Counter, Placer

SESSION = "outbox/orders"


def federation_of(**config: Any) -> Federation:
    federation = Federation(("B1", "B2"), **config)
    federation.client("sub", "B2")
    federation.subscribe("sub", "a present")
    federation.settle()
    return federation


def process(federation: Federation, number: int, **config: Any) -> Client:
    """A process of the publisher starts: it knows nothing of the ones before."""
    client = federation.client(
        "pub",
        "B1",
        session=SESSION,
        durable=True,
        process=f"process {number}",
        publisher=f"pub~{number}",
        **config,
    )
    federation.settle()
    return client


def opened(federation: Federation, number: int, **config: Any) -> Client:
    """The same, and it has its broker's answer, and has advertised."""
    client = process(federation, number, **config)
    federation.advertise("pub", "a present")
    federation.settle()
    return client


def kill(federation: Federation) -> None:
    """The process is gone, with whatever it wanted to say."""
    del federation.clients["pub"]
    federation.cut("pub", "B1")
    federation._dials = type(federation._dials)(d for d in federation._dials if d[1] != "pub")
    for key in [key for key in federation.timers if key[0] == "pub"]:
        del federation.timers[key]


def publish(federation: Federation, *numbers: int) -> None:
    for number in numbers:
        federation.publish("pub", a=number)
        assert federation.clients["pub"].published == number


def events(*numbers: int, publisher: str = "pub~1") -> list[str]:
    return [f"{publisher}:{number}" for number in numbers]


@pytest.mark.parametrize("durable", [True, False])
def test_the_next_process_hears_how_far_the_last_had_come(durable: bool) -> None:
    federation = federation_of(durable=durable)
    first = opened(federation, 1)
    assert (first.publisher, first.published) == ("pub~1", 0)
    publish(federation, 1, 2, 3)
    federation.settle()
    kill(federation)
    second = opened(federation, 2)
    assert (second.publisher, second.published, second.accepted) == ("pub~1", 3, 3)
    publish(federation, 4)
    federation.settle()
    assert federation.got("sub") == events(1, 2, 3, 4)
    federation.check_tables()


def test_its_events_have_no_link_behind_them_where_it_is() -> None:
    counters: dict[str, Counter] = {}
    federation = federation_of(modules=lambda name: [counters.setdefault(name, Counter())])
    opened(federation, 1)
    publish(federation, 1)
    federation.settle()
    assert [visit.hops for visit in counters["B1"].visits] == [0]
    assert [visit.hops for visit in counters["B2"].visits] == [1]


def test_what_did_not_arrive_is_not_counted() -> None:
    federation = federation_of()
    opened(federation, 1)
    publish(federation, 1)
    federation.settle()
    federation.hold_data.add(("pub", "B1"))
    publish(federation, 2, 3)
    federation.settle()
    kill(federation)
    federation.hold_data.clear()
    assert opened(federation, 2).published == 1
    publish(federation, 2, 3)
    federation.settle()
    assert federation.got("sub") == events(1, 2, 3)


def test_an_event_that_comes_again_is_not_routed_again() -> None:
    federation = federation_of()
    opened(federation, 1)
    publish(federation, 1, 2)
    federation.settle()
    kill(federation)
    opened(federation, 2).numbering.last = 0  # it does not listen to its broker
    since = len(federation.said)
    publish(federation, 1, 2, 3)
    federation.settle()
    assert federation.got("sub") == events(1, 2, 3)
    assert len(federation.between("B1", "B2", Publication, since=since)) == 1
    assert federation.brokers["B1"].exchange.duplicates == 2
    assert not federation.heard("pub", "refused")


def test_the_number_and_the_event_are_one_transaction() -> None:
    """A crash takes back both or neither, and nobody has heard of what it takes back."""
    federation = federation_of(durable=True)
    opened(federation, 1)
    publish(federation, 1)
    federation.settle()
    federation.hold_commits.add("B1")
    publish(federation, 2, 3)
    federation.settle()
    assert federation.clients["pub"].accepted == 1
    kill(federation)
    second = process(federation, 2)
    assert second.state == "greeting"  # the answer would speak of 2 and 3
    federation.commit("B1", 1)  # 2 is safe
    federation.hold_commits.clear()
    federation.restart("B1", keep_store=True)
    assert (second.state, second.published) == ("attached", 2)
    federation.advertise("pub", "a present")
    publish(federation, 3, 4)
    federation.settle()
    assert federation.got("sub") == events(1, 2, 3, 4)
    assert federation.stores["B1"]["published", SESSION] == ("pub~1", 4)


def test_the_store_forgets_it_with_the_session() -> None:
    federation = federation_of(durable=True)
    opened(federation, 1)
    publish(federation, 1)
    federation.settle()
    federation.handle("pub", ev.LeaveRequested())
    federation.settle()
    assert not any(key[0] in ("session", "published") for key in federation.stores["B1"])
    federation.check_tables()
    # The next one begins with 1, and whoever remembers the last takes it for another.
    second = opened(federation, 2)
    assert (second.publisher, second.published) == ("pub~2", 0)
    publish(federation, 1)
    federation.settle()
    assert federation.got("sub") == [*events(1), *events(1, publisher="pub~2")]


# --- a broker that has forgotten --------------------------------------------------------------------


def test_a_process_that_goes_on_tells_its_broker_how_far_it_was() -> None:
    federation = federation_of()
    opened(federation, 1)
    publish(federation, 1, 2)
    federation.settle()
    federation.restart("B1")
    assert federation.state("pub") == "attached"
    kill(federation)  # it has published nothing since
    second = opened(federation, 2)
    assert (second.publisher, second.published) == ("pub~1", 2)
    publish(federation, 3)
    federation.settle()
    assert federation.got("sub") == events(1, 2, 3)


def test_a_new_process_hears_that_nobody_knows() -> None:
    federation = federation_of()
    opened(federation, 1)
    publish(federation, 1, 2)
    federation.settle()
    kill(federation)
    federation.restart("B1")
    second = opened(federation, 2)
    assert (second.publisher, second.published) == ("pub~2", 0)
    kill(federation)
    third = opened(federation, 3)
    assert (third.publisher, third.published) == ("pub~2", 0)


def test_a_new_process_may_know_it_itself() -> None:
    federation = federation_of()
    assert opened(federation, 1, published=7).published == 7
    publish(federation, 8)
    federation.settle()
    assert federation.got("sub") == events(8)
    kill(federation)
    assert opened(federation, 2, published=3).published == 8  # the broker knows better


def test_a_process_of_an_earlier_life_of_the_session_is_over() -> None:
    """Between the answer that its session is gone and its next greeting another process has begun."""
    federation = federation_of()
    first = opened(federation, 1)
    publish(federation, 1)
    federation.settle()
    assert first.home.connection is not None
    first.handle(ev.Received(first.home.connection, (Attached(SESSION, False, 0, 0),)), 0.0)
    told = first.handle(
        ev.Received(first.home.connection, (Attached(SESSION, False, 0, 0, 0, "pub~2", 5),)), 0.0
    )
    assert do.Tell("refused", "B1", "another process has begun the session anew") in told
    assert first.state == "refused"


def test_a_process_that_was_taken_over_publishes_nothing_more() -> None:
    federation = federation_of()
    first = opened(federation, 1)
    publish(federation, 1)
    federation.settle()
    federation.clients["old"] = federation.clients.pop("pub")
    federation.news["old"], federation.handed["old"] = [], []
    opened(federation, 2)
    first.handle(ev.ConnectionClosed(first.home.connection or 0), 0.0)
    federation.publish("old", a=2)
    federation.handle("old", ev.TimerFired("dial:0"))
    federation.settle()
    (refusal,) = federation.heard("old", "refused")
    assert refusal.reason == "another process of this client has taken over the session"
    publish(federation, 2)
    federation.settle()
    assert federation.got("sub") == events(1, 2)


# --- refusals ---------------------------------------------------------------------------------------


def test_behind_a_refused_event_none_is_accepted() -> None:
    federation = federation_of()
    client = opened(federation, 1)
    publish(federation, 1)
    federation.settle()
    federation.handle("pub", ev.PublishRequested(Event({"b": 2})))
    publish(federation, 3)
    federation.settle()
    assert federation.got("sub") == events(1)
    assert client.pending == 0
    assert client.accepted == 1
    # Once said, that is enough for all that were on the way behind it.
    assert [(tell.about, tell.reason) for tell in federation.heard("pub", "refused")] == [
        ("pub~1:2", "no advertisement of this client covers it"),
    ]
    kill(federation)
    assert opened(federation, 2).published == 1
    publish(federation, 2, 3)
    federation.settle()
    assert federation.got("sub") == events(1, 2, 3)


def test_each_process_hears_itself_what_is_refused() -> None:
    federation = federation_of()
    for number in (1, 2):
        opened(federation, number)
        federation.handle("pub", ev.PublishRequested(Event({"b": 1})))
        federation.settle()
        refusals = federation.between("B1", "pub", Refused)
        assert (
            refusals == [Refused("pub~1:1", "no advertisement of this client covers it")] * number
        )
        kill(federation)


def test_a_refusal_that_is_lost_on_the_way_is_no_acceptance() -> None:
    """The session goes on, and the answer to the greeting says that all was received."""
    federation = federation_of()
    client = opened(federation, 1)
    federation.handle("pub", ev.PublishRequested(Event({"b": 1})))
    while not federation.between("B1", "pub", Refused):
        assert federation.step()
    federation.cut("pub", "B1")
    assert not federation.heard("pub", "refused")
    federation.handle("pub", ev.TimerFired("dial:0"))
    while federation.step():
        assert client.accepted == 0
    assert client.pending == 0
    assert federation.heard("pub", "refused")


def test_a_full_store_refuses_and_nothing_is_skipped() -> None:
    federation = federation_of(durable=True, store_full_policy="refuse")
    client = opened(federation, 1)
    publish(federation, 1)
    federation.settle()
    federation.handle("B1", ev.StoreFilled(True))
    publish(federation, 2)
    federation.settle()
    federation.handle("B1", ev.StoreFilled(False))
    publish(federation, 3)
    federation.settle()
    assert client.accepted == 1
    kill(federation)
    assert opened(federation, 2).published == 1


def test_an_event_in_another_name_is_refused() -> None:
    federation = federation_of()
    client = opened(federation, 1)
    client.numbering.publisher = "pub"
    federation.publish("pub", a=1)
    federation.settle()
    (refusal,) = federation.heard("pub", "refused")
    assert refusal.reason == "it is in the name of 'pub', not of 'pub~1'"
    assert not federation.got("sub")


GREETINGS: Mapping[str, tuple[dict[str, Any], str]] = {
    "no durable session": (
        {"durable": False},
        "a durable publisher has a durable session, and a name that begins with 'pub~'",
    ),
    "another's name": (
        {"publisher": "other~1"},
        "a durable publisher has a durable session, and a name that begins with 'pub~'",
    ),
    "a long name": ({"publisher": "pub~" + 300 * "x"}, "a name has more than 300 characters"),
    "another kind of session": (
        {"publisher": ""},
        "one session is of a durable publisher, the other one not",
    ),
}


@pytest.mark.parametrize(("change", "reason"), GREETINGS.values(), ids=GREETINGS.keys())
def test_greetings_that_are_refused(change: dict[str, Any], reason: str) -> None:
    federation = federation_of()
    process(federation, 1)
    said = {"durable": True, "process": "p", "publisher": "pub~2", **change}
    greeting = Attach(PROTOCOL_VERSION, "pub", SESSION, False, 0, 0, **said)
    broker = federation.brokers["B1"]
    broker.handle(ev.ConnectionAccepted(99), 0.0)
    commands = broker.handle(ev.Received(99, (greeting,)), 0.0)
    assert do.Send(99, AttachRefused(reason)) in commands
    assert federation.state("pub") == "attached"


# --- where it is, and what it advertises ------------------------------------------------------------


def test_it_stays_where_its_next_process_will_ask() -> None:
    federation = federation_of()
    opened(federation, 1)
    federation.redirect("pub", "B2")
    federation.settle()
    assert not federation.between("B1", "pub", Redirect)


def test_no_module_places_it_elsewhere() -> None:
    federation = Federation(("B1", "B2"), modules=lambda name: [Placer()] if name == "B1" else [])
    federation.handle("B1", ev.ModuleSwitched("placer", "acting"))
    federation.client("other", "B1")
    process(federation, 1)
    federation.settle()
    assert (federation.clients["other"].address, federation.clients["pub"].address) == ("B2", "B1")


def test_another_advertisement_stands_beside_that_of_the_process_before() -> None:
    """Whose last events may still be on their way, and need it."""
    federation = federation_of()
    opened(federation, 1)
    before = list(federation.table("B1", "advertisements"))
    federation.hold_data.add(("B1", "B2"))
    publish(federation, 1)
    federation.settle()
    kill(federation)
    process(federation, 2)
    federation.advertise("pub", "b present")
    federation.settle()
    after = list(federation.table("B1", "advertisements"))
    assert after[:1] == before
    assert len(after) == 2
    assert all(id_.startswith("pub~1/") for id_ in after)
    federation.hold_data.clear()
    federation.settle()
    assert federation.got("sub") == events(1)
    federation.advertise("pub", "a present")  # as before: nobody has to hear of it
    since = len(federation.said)
    federation.settle()
    assert not federation.between("B1", "B2", since=since)


# --- whatever happens -------------------------------------------------------------------------------


STEPS = [
    *["publish"] * 6,
    *["step"] * 4,
    "settle",
    "kill",
    "kill",
    "restart",
    "cut",
    "cut link",
    "crash",
    "hold",
    "commit",
    "advance",
]


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 10)), max_size=80))
@example(steps=[("hold", 0), ("publish", 2), ("settle", 0), ("kill", 0), ("crash", 0)])
@example(steps=[("publish", 3), ("step", 9), ("kill", 0), ("restart", 1), ("publish", 3)])
def test_each_event_is_routed_once_and_in_order(steps: list[tuple[str, int]]) -> None:
    play = Play()
    for step, choice in steps:
        play.do(step, choice)
    play.finish()


class Play:
    """A publisher whose log is the numbers from 1 on. Its processes are killed, and its broker crashes."""

    def __init__(self) -> None:
        self.federation = federation_of(durable=True, ack_delay_s=0.0)
        self.processes = 0
        self.log = 0
        self.acknowledged = 0  # what some process was told is safe
        self.does: dict[str, Callable[[int], object]] = {
            "publish": self.publish,
            "step": self.step,
            "settle": lambda _: self.federation.settle(),
            "kill": lambda _: self.kill(),
            "restart": lambda _: self.restart(),
            "cut": lambda _: self.federation.cut("pub", "B1"),
            "cut link": lambda _: self.federation.cut("B1", "B2"),
            "crash": lambda _: self.crash(),
            "hold": lambda _: self.federation.hold_commits.add("B1"),
            "commit": self.commit,
            "advance": lambda _: self.federation.advance(0.6),
        }
        self.restart()
        self.federation.settle()  # from here on the subscriber is to get everything

    def do(self, step: str, choice: int) -> None:
        self.does[step](choice)
        client = self.federation.clients.get("pub")
        if client is not None and client.state == "attached":
            # What one process was told, no later one is told otherwise.
            assert client.accepted >= self.acknowledged
            self.acknowledged = client.accepted

    def publish(self, count: int) -> None:
        """The process publishes what is next in its log."""
        client = self.federation.clients.get("pub")
        if client is not None and client.home.spoken:
            for _ in range(count):
                self.log = max(self.log, client.published + 1)
                publish(self.federation, client.published + 1)

    def step(self, count: int) -> None:
        for _ in range(count):
            self.federation.step(count)

    def kill(self) -> None:
        if "pub" in self.federation.clients:
            kill(self.federation)

    def restart(self) -> None:
        self.kill()
        self.processes += 1
        process(self.federation, self.processes)
        self.federation.advertise("pub", "a present")

    def crash(self) -> None:
        self.federation.crash("B1", keep_store=True)
        self.federation.start("B1")

    def commit(self, count: int) -> None:
        self.federation.commit("B1", count)

    def finish(self) -> None:
        federation = self.federation
        federation.hold_commits.clear()
        federation.commit("B1")
        self.kill()
        federation.advance(40.0)
        self.restart()
        federation.advance(40.0)
        client = federation.clients["pub"]
        assert client.published >= self.acknowledged
        while client.published < self.log:
            publish(federation, client.published + 1)
        federation.advance(40.0)
        assert federation.got("sub") == events(*range(1, self.log + 1))
        assert federation.clients["sub"].duplicates == 0
        assert federation.brokers["B2"].exchange.duplicates == 0
        assert client.accepted == self.log
