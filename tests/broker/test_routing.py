"""Routing: who is told what, and where events go (001 section 2.1.3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.broker.advertisements import AdvertisementBased
from roost.broker.messages import Advertise, Publication, Subscribe, Unadvertise, Unsubscribe
from roost.broker.router import Flooding
from roost.broker.routers import router_of
from roost.errors import UserError
from tests.broker.kit import Edge, Federation

# Figure 2.2.
STAR: tuple[Edge, ...] = (("B1", "B2"), ("B2", "B3"), ("B2", "B4"))


def figure_2_2(**config: Any) -> Federation:
    """A publisher of a > 1 at B1, sub1 for a > 5 at B4, sub2 for a > 9 at B3, in this order."""
    federation = Federation(*STAR, **config)
    federation.client("pub", "B1")
    federation.advertise("pub", "a > 1")
    federation.settle()
    for name, broker, text in (("sub1", "B4", "a > 5"), ("sub2", "B3", "a > 9")):
        federation.client(name, broker)
        federation.subscribe(name, text)
        federation.settle()
    return federation


def test_figure_2_2_tables() -> None:
    """001 figure 2.2: the advertisement is everywhere; sub2 is known at B3 and B2 and not at B1."""
    federation = figure_2_2()
    advertisements = {b: federation.table(b, "advertisements") for b in ("B1", "B2", "B3", "B4")}
    assert advertisements == {
        "B1": {"pub/1": "pub"},
        "B2": {"pub/1": "B1"},
        "B3": {"pub/1": "B2"},
        "B4": {"pub/1": "B2"},
    }
    assert {b: federation.table(b) for b in ("B1", "B2", "B3", "B4")} == {
        "B1": {"sub1/1": "B2"},
        "B2": {"sub1/1": "B4", "sub2/1": "B3"},
        "B3": {"sub2/1": "sub2"},
        "B4": {"sub1/1": "sub1"},
    }
    federation.check_tables()


def test_a_covered_subscription_is_not_forwarded() -> None:
    """001 section 2.1.3: "the subscription of sub2 is not forwarded to B1", and nothing goes to B3 or B4."""
    federation = figure_2_2()
    assert [
        m.id for m in federation.between("B2", "B1", Subscribe) if isinstance(m, Subscribe)
    ] == ["sub1/1"]
    assert not federation.between("B2", "B3", Subscribe)
    assert not federation.between("B2", "B4", Subscribe)


def test_what_was_covered_is_forwarded_before_the_unsubscription() -> None:
    """001 section 2.1.3: "B2 should forward sub2's subscription to B1 before sub1's unsubscription"."""
    federation = figure_2_2()
    since = len(federation.said)
    federation.unsubscribe("sub1", "a > 5")
    federation.settle()
    assert [
        (type(m), m.id, m.cause)
        for m in federation.between("B2", "B1", since=since)
        if isinstance(m, Subscribe | Unsubscribe)
    ] == [
        (Subscribe, "sub2/1", "sub1 unsubscribes sub1/1"),
        (Unsubscribe, "sub1/1", "sub1 unsubscribes sub1/1"),
    ]
    assert federation.table("B1") == {"sub2/1": "B2"}
    federation.check_tables()


def test_no_event_slips_through_while_one_subscription_takes_the_place_of_another() -> None:
    """001 section 2.1.3: the reason for that order."""
    federation = figure_2_2()
    federation.unsubscribe("sub1", "a > 5")
    ids = []
    for _ in range(20):  # more than the unsubscription takes
        ids.append(federation.publish("pub", a=10))
        federation.step()
    federation.settle()
    assert federation.got("sub2") == ids


def test_events_go_only_where_they_are_wanted() -> None:
    federation = figure_2_2()
    federation.publish("pub", a=3)
    middling = federation.publish("pub", a=7)
    high = federation.publish("pub", a=10)
    federation.settle()
    assert federation.got("sub1") == [middling, high]
    assert federation.got("sub2") == [high]
    assert len(federation.between("B1", "B2", Publication)) == 2
    assert len(federation.between("B2", "B3", Publication)) == 1
    assert len(federation.between("B2", "B4", Publication)) == 2


def test_subscription_flooding() -> None:
    """001 section 2.1.3: without advertisements, subscriptions go everywhere unless they are covered."""
    federation = figure_2_2(routing="flooding")
    assert not federation.between("B1", "B2", Advertise)
    assert {b: federation.table(b) for b in ("B1", "B2", "B3", "B4")} == {
        "B1": {"sub1/1": "B2"},
        "B2": {"sub1/1": "B4", "sub2/1": "B3"},
        "B3": {"sub1/1": "B2", "sub2/1": "sub2"},
        "B4": {"sub1/1": "sub1", "sub2/1": "B2"},
    }
    federation.check_tables()
    federation.client("stranger", "B3")
    event = federation.publish("stranger", a=10)  # never advertised
    federation.settle()
    assert federation.got("sub1") == federation.got("sub2") == [event]


def test_without_covering_every_subscription_is_forwarded() -> None:
    federation = figure_2_2(covering=False)
    assert federation.table("B1") == {"sub1/1": "B2", "sub2/1": "B2"}
    since = len(federation.said)
    federation.unsubscribe("sub1", "a > 5")
    federation.settle()
    assert [type(m) for m in federation.between("B2", "B1", since=since)] == [Unsubscribe]
    assert federation.table("B1") == {"sub2/1": "B2"}
    federation.check_tables()


def test_a_wider_subscription_withdraws_the_narrower_behind_itself() -> None:
    federation = figure_2_2()
    since = len(federation.said)
    federation.subscribe("sub2", "a > 4", "wider")
    federation.settle()
    messages = federation.between("B2", "B1", Subscribe, Unsubscribe, since=since)
    assert [(type(m), getattr(m, "id", "")) for m in messages] == [
        (Subscribe, "sub2/2"),
        (Unsubscribe, "sub1/1"),
    ]
    federation.check_tables()


@pytest.mark.parametrize("covering", [True, False])
def test_advertisement_covering(covering: bool) -> None:
    federation = Federation(*STAR, advertisement_covering=covering)
    federation.client("wide", "B1")
    federation.advertise("wide", "a > 1")
    federation.settle()
    federation.client("narrow", "B1")
    federation.advertise("narrow", "a > 5")
    federation.settle()
    assert ("narrow/1" in federation.table("B4", "advertisements")) is not covering
    federation.client("sub", "B4")
    federation.subscribe("sub", "a > 7")
    federation.settle()
    federation.unadvertise("wide", "a > 1")
    federation.settle()
    assert federation.table("B4", "advertisements") == {"narrow/1": "B2"}
    federation.check_tables()
    event = federation.publish("narrow", a=8)
    federation.settle()
    assert federation.got("sub") == [event]


def test_an_advertisement_after_the_subscriptions_draws_them() -> None:
    """001 section 2.1.3: subscriptions go where there are advertisements that they overlap."""
    federation = Federation(*STAR)
    for name, broker, text in (("s1", "B4", "a > 5"), ("s2", "B3", "b > 5"), ("s3", "B3", "a < 0")):
        federation.client(name, broker)
        federation.subscribe(name, text)
    federation.settle()
    assert not federation.table("B2")
    federation.client("pub", "B1")
    federation.advertise("pub", "a > 1")
    federation.settle()
    # What does not speak of `a` overlaps too: an event may have both.
    assert federation.table("B1") == {"s1/1": "B2", "s2/1": "B2"}
    federation.check_tables()


def test_unadvertising_withdraws_the_subscriptions_that_followed() -> None:
    federation = figure_2_2()
    federation.client("other", "B1")
    federation.advertise("other", "a > 8")
    federation.settle()
    federation.unadvertise("pub", "a > 1")
    federation.settle()
    federation.check_tables()
    assert federation.table("B2") == {"sub1/1": "B4", "sub2/1": "B3"}
    federation.unadvertise("other", "a > 8")
    federation.settle()
    assert federation.table("B1") == federation.table("B2") == {}
    assert federation.table("B4") == {"sub1/1": "sub1"}
    assert not federation.table("B4", "advertisements")
    federation.check_tables()


def test_an_unadvertisement_does_not_overtake_the_last_event() -> None:
    federation = figure_2_2()
    event = federation.publish("pub", a=10)
    federation.unadvertise("pub", "a > 1")
    federation.settle()
    assert federation.got("sub1") == federation.got("sub2") == [event]


def test_nothing_goes_back_where_it_came_from() -> None:
    federation = figure_2_2()
    federation.subscribe("pub", "a > 0", "own")
    federation.settle()
    event = federation.publish("pub", a=10)
    federation.settle()
    assert federation.got("pub") == [event]
    assert not federation.between("B2", "B1", Publication)


# --- any tree, any order ----------------------------------------------------------------------------

INTERESTS = (
    "a > 1",
    "a > 5",
    "a > 9",
    "a < 4",
    "a > 2 and a < 8",
    "a > 5 or a < 0",
    "a = 7",
    "b = 'x'",
    "a > 3 and b = 'x'",
    "b str-prefix 'x'",
)
EVENTS: tuple[dict[str, Any], ...] = (
    {"a": 3},
    {"a": 7},
    {"a": 10},
    {"b": "x"},
    {"a": 7, "b": "x"},
    {"a": -1, "b": "xy"},
)


@st.composite
def trees(draw: st.DrawFn) -> list[Edge]:
    """Up to six brokers, each but the first joined to an earlier one, whoever dials."""
    edges = []
    for i in range(1, draw(st.integers(2, 6))):
        edge = (f"B{draw(st.integers(0, i - 1))}", f"B{i}")
        edges.append(edge if draw(st.booleans()) else (edge[1], edge[0]))
    return edges


CONFIGS: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    (
        {},
        {"covering": False},
        {"advertisement_covering": True},
        {"routing": "flooding"},
    )
)


class Crowd:
    """Clients that ask for things and take them back, in an order that a test draws."""

    def __init__(self, draw: Callable[..., Any]) -> None:
        self.draw = draw
        edges = draw(trees())
        self.federation = Federation(*edges, **draw(CONFIGS))
        names = list(self.federation.brokers)
        self.clients = [f"C{i}" for i in range(draw(st.integers(2, 5)))]
        for client in self.clients:
            self.federation.client(client, draw(st.sampled_from(names)))
        self.federation.settle()
        self.asked: list[tuple[str, str, str]] = []  # client, kind, name
        self.count = 0

    def act(self) -> None:
        """One request, and then some of what is on the way arrives, in any order."""
        federation = self.federation
        if self.asked and self.draw(st.integers(0, 2)) == 0:
            client, kind, name = self.asked.pop(self.draw(st.integers(0, len(self.asked) - 1)))
            getattr(federation, f"un{kind}")(client, name)
        else:
            client = self.draw(st.sampled_from(self.clients))
            kind = self.draw(st.sampled_from(("subscribe", "advertise")))
            name = f"n{self.count}"
            self.count += 1
            getattr(federation, kind)(client, self.draw(st.sampled_from(INTERESTS)), name)
            self.asked.append((client, kind, name))
        for choice in self.draw(st.lists(st.integers(0, 20), max_size=4)):
            federation.step(choice)


@given(st.data())
def test_tables_are_those_computed_from_scratch(data: st.DataObject) -> None:
    """001 section 2.1.3, whatever the order in which things are asked for, taken back and arrive."""
    crowd = Crowd(data.draw)
    for _ in range(data.draw(st.integers(1, 14))):
        crowd.act()
    crowd.federation.settle()
    crowd.federation.check_tables()
    crowd.federation.check_quiet()
    check_events(crowd.federation)
    for client, kind, name in data.draw(st.permutations(crowd.asked)):
        getattr(crowd.federation, f"un{kind}")(client, name)
        for choice in data.draw(st.lists(st.integers(0, 20), max_size=2)):
            crowd.federation.step(choice)
    crowd.federation.settle()
    for broker in crowd.federation.brokers:
        assert not crowd.federation.table(broker)
        assert not crowd.federation.table(broker, "advertisements")


def check_events(federation: Federation) -> None:
    """Everybody publishes everything: it reaches exactly those whom it matches."""
    wanted: dict[str, list[str]] = {name: [] for name in federation.clients}
    flooding = next(iter(federation.brokers.values())).config.routing == "flooding"
    for publisher, client in federation.clients.items():
        for attributes in EVENTS:
            id_ = federation.publish(publisher, **attributes)
            event = federation.said[-1].message
            assert isinstance(event, Publication)
            offered = any(a.matches(event.event) for a in client.advertisements().values())
            for name, other in federation.clients.items():
                matches = any(s.matches(event.event) for s in other.subscriptions().values())
                if matches and (offered or flooding):
                    wanted[name].append(id_)
            federation.settle()
    assert {name: federation.got(name) for name in federation.clients} == wanted


def test_withdrawals_in_any_order_leave_nothing() -> None:
    federation = figure_2_2()
    federation.unsubscribe("sub2", "a > 9")
    federation.unadvertise("pub", "a > 1")
    federation.unsubscribe("sub1", "a > 5")
    federation.settle()
    for broker in federation.brokers:
        assert not federation.table(broker)
        assert not federation.table(broker, "advertisements")
    assert federation.between("B1", "B2", Unadvertise)


def test_what_comes_and_goes_takes_no_more_room_each_time() -> None:
    federation = figure_2_2()
    room = []
    for _ in range(9):
        federation.advertise("pub", "b > 1")
        federation.subscribe("sub1", "b > 5")
        federation.settle()
        federation.unsubscribe("sub1", "b > 5")
        federation.unadvertise("pub", "b > 1")
        federation.settle()
        routers = [broker.router for broker in federation.brokers.values()]
        room.append(
            [
                (len(r._advertisement_handles.entries), len(r._subscription_handles.entries))
                for r in routers
            ]
        )
    assert room[-1] == room[0]


class OwnRoute(AdvertisementBased):
    def route(self, *arguments: Any) -> Any:
        return super().route(*arguments)


class OwnOffered(AdvertisementBased):
    def offered(self, *arguments: Any) -> Any:
        return super().offered(*arguments)


class OwnObjection(AdvertisementBased):
    def objection_to(self, *arguments: Any) -> Any:
        return super().objection_to(*arguments)


class OwnPasses(AdvertisementBased):
    def passes(self, *arguments: Any) -> Any:
        return super().passes(*arguments)


@pytest.mark.parametrize(
    ("kind", "plainly"),
    [
        (Flooding, True),
        (AdvertisementBased, True),
        (OwnRoute, False),
        (OwnOffered, False),
        (OwnObjection, False),
        (OwnPasses, False),
    ],
)
def test_a_router_of_ones_own_is_asked(kind: type[Flooding], plainly: bool) -> None:
    """Whoever routes events without asking it (see `roost.chunks`) may do so with ours only."""
    assert kind({}, lambda *_: None, None).routes_plainly is plainly


def test_what_is_no_router_is_refused_by_name() -> None:
    with pytest.raises(
        UserError, match="'json:JSONDecoder' is no router; expected a class derived"
    ):
        router_of("json:JSONDecoder")
