"""Modules: what an optimiser inside a broker hears and may do, off, observing and acting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from roost.broker import commands as do
from roost.broker import events as ev
from roost.broker.arbiter import link_between
from roost.broker.errors import InvariantError
from roost.broker.messages import CONTROL, Publication, Redirect
from roost.broker.module import Module, ModuleState, Surroundings, Visit
from roost.broker.names import Address
from roost.language import parse_advertisement, parse_subscription
from tests.broker.kit import Federation

LOAD = ev.LoadIndices(0.5, 0.01, 0.25, 10.0, 20.0, 1000.0, 1, 2, 0.1, 0.2, 0.5, 1e6, 1e9, 7)


class Counter(Module):
    """Counts what passes, tells its like every ten seconds, and moves a client when it is made to."""

    name = "counter"
    reserved = ("COUNT",)

    def __init__(self) -> None:
        self.around: Surroundings | None = None
        self.visits: list[Visit] = []
        self.reports: list[tuple[str, int, tuple[str, ...]]] = []
        self.timers: list[str] = []
        self.loads: list[ev.LoadIndices] = []
        self.neighbours: list[tuple[str, ...]] = []
        self.todo: Callable[[Counter], None] | None = None  # at the next sample

    @property
    def here(self) -> Surroundings:
        assert self.around is not None
        return self.around

    def started(self, around: Surroundings, now: float) -> None:  # noqa: ARG002
        self.around = around
        around.advertise("reports", parse_advertisement("class = 'COUNT'"))
        around.subscribe("reports", parse_subscription("class = 'COUNT'"))
        around.set_timer("report", 10.0)

    def stopped(self, now: float) -> None:  # noqa: ARG002
        self.around = None

    def routed(self, visit: Visit, now: float) -> None:  # noqa: ARG002
        self.visits.append(visit)

    def heard(
        self,
        publication: Publication,
        subscriptions: Sequence[str],
        now: float,  # noqa: ARG002
    ) -> None:
        report = (publication.publisher, publication.sequence, tuple(subscriptions))
        self.reports.append(report)

    def timer(self, name: str, now: float) -> None:  # noqa: ARG002
        self.timers.append(name)
        self.report()
        self.here.set_timer("report", 10.0)

    def sampled(self, load: ev.LoadIndices, now: float) -> None:  # noqa: ARG002
        self.loads.append(load)
        if self.todo is not None:
            self.todo(self)

    def neighbours_changed(self, now: float) -> None:  # noqa: ARG002
        self.neighbours.append(tuple(self.here.neighbours))

    def report(self) -> None:
        self.here.publish({"class": "COUNT", "count": len(self.visits)})

    def move(self, client: str, broker: str) -> None:
        cause = self.here.propose(
            "overload",
            "too busy",
            client,
            broker,
            subjects=[client],
            evidence={"count": len(self.visits)},
            predicted={"count": 0.0},
        )
        if cause is not None:
            self.here.redirect(client, Address(broker), cause)


class Counted(Federation):
    """B1 - B2 - B3, each with a counter; a publisher at B1 and a subscriber at B3."""

    def __init__(self, **config: Any) -> None:
        self.counters: dict[str, Counter] = {}
        super().__init__(("B1", "B2"), ("B2", "B3"), modules=self._counter, **config)
        self.client("pub", "B1")
        self.advertise("pub", "a > 0")
        self.client("sub", "B3")
        self.subscribe("sub", "a > 0")
        self.settle()

    def _counter(self, name: str) -> list[Module]:
        self.counters[name] = Counter()
        return [self.counters[name]]

    def switch(self, name: str, state: str) -> None:
        self.handle(name, ev.ModuleSwitched("counter", state))

    def have(self, name: str, todo: Callable[[Counter], None]) -> None:
        """Let the module of a broker do something, in the course of an event."""
        self.counters[name].todo = todo
        self.handle(name, ev.LoadSampled(LOAD))
        self.counters[name].todo = None


def test_modules_hear_of_what_passes_through_their_broker() -> None:
    federation = Counted()
    federation.publish("pub", a=1)
    federation.settle()
    (first,), (second,), (third,) = (federation.counters[b].visits for b in ("B1", "B2", "B3"))
    assert (first.source, first.from_client, first.hops) == ("pub", True, 0)
    assert (list(first.neighbours), first.matches) == (["B2"], {})
    assert (second.source, second.from_client, second.hops) == ("B1", False, 1)
    assert (third.source, third.hops) == ("B2", 2)
    assert {client: list(ids) for client, ids in third.matches.items()} == {"sub": ["sub/1"]}


def test_all_who_record_what_passes_hear_of_it() -> None:
    heard: list[str] = []

    class Tapping(Module):
        def __init__(self, name: str) -> None:
            self.name = name
            self.tap = lambda *_: heard.append(name)

    federation = Federation(("B1", "B2"), modules=lambda _: [Tapping("one"), Tapping("two")])
    federation.client("pub", "B1")
    federation.advertise("pub", "a > 0")
    federation.settle()
    heard.clear()
    federation.publish("pub", a=1)
    federation.settle()
    assert heard == ["one", "two"]


def test_modules_talk_through_their_brokers() -> None:
    """In reserved classes, like any publisher and subscriber. That is not among what they count."""
    federation = Counted()
    federation.have("B1", Counter.report)
    federation.settle()
    for counter in federation.counters.values():
        assert counter.reports == [("B1.B1~1.0/counter", 1, ("reports",))]
        assert not counter.visits


def test_modules_hear_of_the_load() -> None:
    federation = Counted()
    assert federation.counters["B1"].here.load is None
    federation.handle("B1", ev.LoadSampled(LOAD))
    assert federation.counters["B1"].loads == [LOAD]
    assert federation.counters["B1"].here.load == LOAD


def test_control_goes_ahead_of_data() -> None:
    federation = Counted()
    federation.hold_data |= {("B1", "B2"), ("B2", "B3")}
    federation.publish("pub", a=1)
    federation.settle()
    federation.have("B1", Counter.report)
    federation.settle()
    assert not federation.got("sub")
    assert len(federation.counters["B3"].reports) == 1
    last = federation.between("B1", "B2", Publication)[-1]
    assert isinstance(last, Publication)
    assert last.priority == CONTROL


@pytest.mark.parametrize("state", ["off", "observing", "acting"])
def test_clients_cannot_publish_a_reserved_class(state: str) -> None:
    federation = Counted()
    federation.switch("B1", state)
    federation.advertise("pub", "class = 'COUNT'")
    reserved: dict[str, Any] = {"class": "COUNT", "count": 99}
    id_ = federation.publish("pub", **reserved)
    federation.settle()
    reason = "its class is reserved for the brokers themselves"
    assert federation.heard("pub", "refused") == [do.Tell("refused", id_, reason)]
    assert not federation.counters["B3"].reports


def test_modules_publish_only_what_they_reserve() -> None:
    federation = Counted()
    with pytest.raises(InvariantError, match="no class that it reserves"):
        federation.have("B1", lambda counter: counter.here.publish({"class": "STOCK"}))


def test_a_client_may_listen() -> None:
    federation = Counted()
    federation.subscribe("sub", "class = 'COUNT'", "reports")
    federation.settle()
    federation.have("B1", Counter.report)
    federation.settle()
    assert federation.got("sub") == ["B1.B1~1.0/counter:1"]


def test_modules_see_the_clients_and_neighbours_of_their_broker() -> None:
    federation = Counted()
    counter = federation.counters["B3"]
    assert counter.here.clients() == {"sub": {"sub/1": parse_subscription("a > 0")}}
    assert counter.here.broker == "B3"
    assert list(counter.here.neighbours) == ["B2"]
    federation.part("B2", "B3")
    assert counter.neighbours[-1] == ()


def test_whom_a_module_may_move() -> None:
    """Those who are here, and not for good: a durable session stays where what waits for it is."""
    federation = Counted()
    federation.client("stays", "B3", durable=True)
    federation.settle()
    here = federation.counters["B3"].here
    assert [name for name in ("sub", "stays", "nobody") if here.is_movable(name)] == ["sub"]
    assert list(here.movable()) == ["sub"]


def test_a_module_may_take_back_what_it_asked_for() -> None:
    federation = Counted()
    federation.have("B3", lambda counter: counter.here.unsubscribe("reports"))
    federation.have("B3", lambda counter: counter.here.unadvertise("reports"))
    federation.settle()
    federation.have("B1", Counter.report)
    federation.settle()
    assert not federation.counters["B3"].reports
    assert not [id_ for id_ in federation.table("B1", "advertisements") if id_.startswith("B3")]


# --- timers -----------------------------------------------------------------------------------------


def test_timers_fire_for_their_module() -> None:
    federation = Counted()
    federation.advance(25.0)
    assert federation.counters["B1"].timers == ["report", "report"]


def test_a_timer_that_was_cancelled_does_not_fire_even_if_it_was_on_the_way() -> None:
    federation = Counted()
    federation.have("B1", lambda counter: counter.here.cancel_timer("report"))
    assert ("B1", "module:counter:report") not in federation.timers
    federation.handle("B1", ev.TimerFired("module:counter:report"))
    assert not federation.counters["B1"].timers


# --- off, observing, acting -------------------------------------------------------------------------


def test_acting_carries_decisions_out() -> None:
    federation = Counted()
    federation.publish("pub", a=1)
    federation.settle()
    federation.have("B1", lambda counter: counter.move("pub", "B3"))
    federation.settle()
    assert federation.clients["pub"].address == "B3"
    decision, done = federation.decisions
    assert (done.kind, done.evidence["decision"]) == ("carried out", decision.cause)
    assert decision == do.Decision(
        module="counter",
        kind="too busy",
        subject="pub",
        choice="B3",
        acted=True,
        evidence={"count": 1},
        predicted={"count": 0.0},
        cause="B1.B1~1.0/counter/decision 1",
    )
    assert federation.between("B1", "pub", Redirect) == [Redirect("B3", decision.cause)]
    assert decision.cause in {c.cause for c in federation.storybook.story("pub")}


def test_acting_moves_links() -> None:
    def move_link(counter: Counter) -> None:
        link = link_between("B1", "B2")
        cause = counter.here.propose(
            "rewiring", "rewire", link, "B3", subjects=[link], evidence={}, predicted={}
        )
        assert cause is not None
        assert not counter.here.rewire("B1", "B3", cause)

    federation = Counted()
    federation.have("B2", move_link)
    plan = federation.brokers["B2"].rewirings.now
    assert plan is not None
    assert (plan.brokers, plan.cause) == (("B2", "B1", "B3"), federation.decisions[-1].cause)


def test_observing_decides_and_does_nothing() -> None:
    federation = Counted()
    federation.switch("B1", "observing")
    federation.publish("pub", a=1)
    federation.settle()
    federation.have("B1", lambda counter: counter.move("pub", "B3"))
    federation.settle()
    assert federation.clients["pub"].address == "B1"
    assert len(federation.counters["B1"].visits) == 1
    (decision,) = federation.decisions
    assert not decision.acted
    with pytest.raises(InvariantError, match="acts while observing"):
        federation.have(
            "B1", lambda counter: counter.here.redirect("pub", Address("B3"), "on a whim")
        )


@pytest.mark.parametrize("state", ["observing", "acting"])
def test_whoever_decides_gets_a_cause_only_if_it_acts(state: str) -> None:
    federation = Counted()
    federation.switch("B1", state)
    causes: list[str | None] = []
    federation.have(
        "B1",
        lambda counter: causes.append(
            counter.here.decide("stay", "B1", "B1", evidence={"count": 1}, predicted={})
        ),
    )
    (decision,) = federation.decisions
    assert decision.acted == (state == "acting")
    assert causes == [decision.cause if decision.acted else None]


class Placer(Module):
    """Sends everybody to B2."""

    name = "placer"

    def place(self, client: str, now: float) -> Address | None:  # noqa: ARG002
        return Address("B2")


@pytest.mark.parametrize(("state", "where"), [("off", "B1"), ("observing", "B1"), ("acting", "B2")])
def test_only_an_acting_module_places_clients(state: str, where: str) -> None:
    federation = Federation(("B1", "B2"), modules=lambda n: [Placer()] if n == "B1" else [])
    federation.handle("B1", ev.ModuleSwitched("placer", state))
    federation.client("new", "B1")
    federation.settle()
    assert federation.clients["new"].address == where


def test_switching_off_leaves_nothing() -> None:
    federation = Counted()
    counter = federation.counters["B1"]
    federation.switch("B1", "off")
    federation.settle()
    assert counter.around is None
    assert not [key for key in federation.timers if "module" in key[1] and key[0] == "B1"]
    for broker in federation.brokers:
        for kind in ("subscriptions", "advertisements"):
            table = federation.table(broker, kind)
            assert not [id_ for id_ in table if id_.startswith("B1.")]
    federation.publish("pub", a=1)
    federation.handle("B1", ev.LoadSampled(LOAD))
    federation.settle()
    assert not counter.visits
    assert not counter.loads
    assert len(federation.counters["B2"].visits) == 1


def test_switching_on_again_begins_anew() -> None:
    federation = Counted()
    for state in ("off", "observing", "acting"):
        federation.switch("B1", state)
        federation.settle()
    assert federation.brokers["B1"].modules.state("counter") is ModuleState.ACTING
    federation.have("B1", Counter.report)
    federation.settle()
    assert len(federation.counters["B1"].reports) == len(federation.counters["B3"].reports) == 1


@pytest.mark.parametrize("durable", [True, False])
def test_after_a_restart_its_numbers_are_not_taken_for_old_ones(durable: bool) -> None:
    federation = Counted(durable=durable)
    for _ in range(3):
        federation.have("B1", Counter.report)
    federation.settle()
    federation.restart("B1", keep_store=durable)
    federation.have("B1", Counter.report)
    federation.settle()
    heard = federation.counters["B3"].reports
    assert [sequence for _, sequence, _ in heard] == [1, 2, 3, 1]
    assert heard[-1][0] != heard[0][0]
    assert federation.brokers["B3"].exchange.duplicates == 0
    # What its former self had asked for is gone.
    for broker in federation.brokers:
        for kind in ("subscriptions", "advertisements"):
            assert len([i for i in federation.table(broker, kind) if i.startswith("B1.")]) <= 1


def test_a_name_is_no_address() -> None:
    """Where both are the same, nobody would notice until it is live."""
    federation = Counted()
    for broker in federation.brokers.values():
        broker.identity.address = Address(f"at {broker.config.broker}")
    federation.cut("B1", "B2")
    federation.advance(1.0)
    here = federation.counters["B1"].here
    assert here.address_of("B1") == "at B1"
    assert here.address_of("B2") == "at B2"
    assert here.address_of("B9") is None
    with pytest.raises(InvariantError, match=r"expected its address: around.address_of\('B2'\)"):
        here.redirect("pub", Address("B2"), "by name")
