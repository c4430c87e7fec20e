"""Circles of links, and two brokers of one name: noticed when they come up, and the younger link refused."""

from __future__ import annotations

import pytest

from roost.broker import commands as do
from roost.broker import events as ev
from roost.broker.config import BrokerConfig
from roost.broker.core import Broker
from roost.broker.hops import Link
from roost.broker.messages import (
    CONTROL,
    PROTOCOL_VERSION,
    AttachRefused,
    Frame,
    LinkHello,
    Members,
)
from roost.broker.trails import Trails
from tests.broker.kit import Edge, Federation

CHAIN: tuple[Edge, ...] = (("B1", "B2"), ("B2", "B3"), ("B3", "B4"))


def refusals(federation: Federation) -> list[do.Report]:
    return [r for _, r in federation.reports if r.what == "link refused" and r.level == "error"]


def links_up(federation: Federation) -> set[Edge]:
    return {
        (min(name, link.name), max(name, link.name))
        for name, broker in federation.brokers.items()
        for link in broker.links.values()
        if link.greeted
    }


def test_everybody_knows_who_is_behind_which_link() -> None:
    federation = Federation(*CHAIN, members=True)
    behind = {name: list(link.behind) for name, link in federation.brokers["B2"].links.items()}
    assert behind == {"B1": [], "B3": ["B4"]}
    federation.start("B5")
    federation.join("B5", "B4")
    federation.settle()
    assert list(federation.brokers["B1"].links["B2"].behind) == ["B3", "B4", "B5"]
    federation.part("B4", "B5")
    federation.settle()
    assert list(federation.brokers["B1"].links["B2"].behind) == ["B3", "B4"]


def test_a_new_neighbour_hears_of_all_who_are_there_and_of_nobody_who_never_was() -> None:
    federation = Federation(("B1", "B0"), ("B1", "B2"), members=True, start=False)
    federation.severed.add(frozenset(("B0", "B1")))
    federation.settle()
    federation.start("B3")
    federation.join("B3", "B1")
    federation.settle()
    assert list(federation.brokers["B3"].links["B1"].behind) == ["B2"]


@pytest.mark.parametrize("edge", [("B4", "B1"), ("B1", "B4"), ("B1", "B3")])
def test_a_link_that_closes_a_circle_is_refused(edge: Edge) -> None:
    federation = Federation(*CHAIN, members=True)
    federation.join(*edge)
    federation.settle()
    assert links_up(federation) == set(CHAIN)
    assert "would close a circle" in refusals(federation)[0].detail
    # Nothing is kept for it, and all others go on.
    federation.client("sub", "B4")
    federation.subscribe("sub", "a > 0")
    federation.client("pub", "B1")
    federation.advertise("pub", "a > 0")
    ids = [federation.publish("pub", a=i) for i in (1, 2, 3)]
    federation.settle()
    assert federation.got("sub") == ids
    assert not any(broker.router.greedy for broker in federation.brokers.values())


def test_it_comes_up_when_the_circle_is_open() -> None:
    federation = Federation(*CHAIN, members=True)
    federation.join("B4", "B1")
    federation.settle()
    federation.part("B2", "B3")
    federation.settle()
    federation.advance(60.0)
    federation.settle()
    assert ("B1", "B4") in links_up(federation)


def test_of_links_that_come_up_at_once_the_younger_is_closed() -> None:
    edges = (("B1", "B2"), ("B2", "B3"), ("B3", "B1"))
    federation = Federation(*edges, members=True)
    for _ in range(60):
        federation.advance(1.0)
        federation.settle()
    assert len(links_up(federation)) == 2
    assert refusals(federation)


def test_the_other_end_is_told_why_a_link_is_closed() -> None:
    """It may not have heard yet what makes it a circle."""
    machine = Broker(BrokerConfig(broker="B0", incarnation="B0~1"))
    machine.handle(ev.Started(), 0.0)
    for connection, name in ((1, "B1"), (2, "B2")):
        machine.handle(ev.LinkAdded(name, dial=False), 0.0)
        machine.handle(ev.ConnectionAccepted(connection), 0.0)
        greeting = LinkHello(PROTOCOL_VERSION, name, f"{name}~1", "", 0, 0)
        machine.handle(ev.Received(connection, (greeting,)), float(connection))
    first = Frame(CONTROL, 1, Members(True, ("B1",), ()))
    machine.handle(ev.Received(1, (first,)), 3.0)
    news = Frame(CONTROL, 1, Members(True, ("B1", "B2"), ()))
    commands = machine.handle(ev.Received(2, (news,)), 3.0)
    (why,) = [c.parcel for c in commands if isinstance(c, do.Send) and c.connection == 2]
    assert isinstance(why, AttachRefused)
    assert "would close a circle" in why.reason
    assert do.Close(2, why.reason) in commands


@pytest.mark.parametrize("names", [("B1", "B2", "B3"), ("X", "Y", "Z")])
def test_links_that_were_closed_at_once_are_not_tried_again_at_once(names: tuple[str, ...]) -> None:
    """Each after a time of its own, between half of the longest and all of it."""
    x, y, z = names
    federation = Federation((x, y), (y, z), (z, x), members=True, redial_max_s=100.0)
    delays = {key: delay for key, (_, delay) in federation.timers.items() if "dial:" in key[1]}
    assert list(delays) == [(y, f"dial:{z}"), (z, f"dial:{x}")]  # and not who was dialled
    assert all(50.0 <= delay <= 100.0 for delay in delays.values())
    assert len(set(delays.values())) == 2


def test_a_circle_is_open_while_one_of_its_links_is_lost_and_still_refused() -> None:
    """Who is away is expected back."""
    federation = Federation(*CHAIN, members=True)
    federation.severed.add(frozenset(("B2", "B3")))
    federation.cut("B2", "B3")
    federation.settle()
    federation.join("B4", "B1")
    federation.settle()
    assert ("B1", "B4") not in links_up(federation)


def test_two_brokers_of_one_name_that_dial_the_same_neighbour() -> None:
    """The second takes the place of the first, which may be dead; if it is not, that shows."""
    machine = Broker(BrokerConfig(broker="B0", incarnation="B0~1"))
    machine.handle(ev.Started(), 0.0)
    machine.handle(ev.LinkAdded("B1", dial=False), 0.0)
    answers = []
    for connection, life in ((1, "one"), (2, "two"), (3, "one"), (4, "two")):
        machine.handle(ev.ConnectionAccepted(connection), 0.0)
        hello = LinkHello(PROTOCOL_VERSION, "B1", f"i-{life}", "", 0, 0, life=life)
        answers.append(machine.handle(ev.Received(connection, (hello,)), 0.0))
    assert machine.links["B1"].connection == 4
    (report,) = [c for c in answers[2] if isinstance(c, do.Report)]
    assert report.what == "two brokers of one name"
    assert do.Close(3, report.detail) in answers[2]


def test_two_brokers_of_one_name() -> None:
    """B1 is at both ends of a chain, as two brokers would be that were started with one name."""
    federation = Federation(("B1", "B2"), ("B2", "B3"), members=True)
    twin = Federation(("B3", "B1"), members=True, start=False)
    hello = twin.brokers["B1"].node.linked._hello(twin.brokers["B1"].links["B3"])
    objection = federation.brokers["B3"].membership.objection_to(
        federation.brokers["B3"].node.linked.new("B1", dials=False)
    )
    assert hello.broker == "B1"
    assert "two brokers called B1" in objection


@pytest.mark.parametrize("durable", [False, True])
def test_who_has_taken_another_way_has_to_wait_until_all_of_that_has_come(durable: bool) -> None:
    """Events of B3's side are under way to B1 by B2 when B3 becomes B1's neighbour: first they, then it."""
    federation = Federation(
        ("B1", "B2"), ("B2", "B3"), members=True, durable=durable, link_outbox_max=1_000
    )
    for name, broker in (("P", "B3"), ("Q", "B1")):
        federation.client(name, broker)
        federation.advertise(name, "a > 0")
    for name, broker in (("S", "B1"), ("T", "B3")):
        federation.client(name, broker)
        federation.subscribe(name, "a > 0")
    federation.settle()
    federation.hold_data.add(("B2", "B1"))
    first = federation.publish("P", a=1)
    federation.settle()
    federation.part("B2", "B3")
    federation.join("B1", "B3")
    federation.settle()
    link = federation.brokers["B1"].links["B3"]
    assert not link.greeted
    federation.advertise("Q", "b > 0")
    federation.publish("Q", b=2)
    federation.settle()
    assert not link.channel.data.waiting  # nothing is kept for one that has never been here
    assert link.channel.data.memory_max == (1_000 if durable else 0)
    federation.hold_data.clear()
    federation.advance(60.0)
    assert link.greeted
    second, third = federation.publish("P", a=3), federation.publish("Q", a=4)
    federation.settle()
    assert [id_ for id_ in federation.got("S") if id_[0] == "P"] == [first, second]
    assert [id_ for id_ in federation.got("T") if id_[0] == "Q"] == [third]


def test_who_is_behind_a_neighbour_that_was_moved_is_behind_no_other() -> None:
    federation = Federation(("B1", "B2"), ("B1", "B3"), ("B2", "B4"), ("B4", "B5"), members=True)
    broker = federation.brokers["B1"]
    old, new = broker.links["B2"], broker.links["B3"]
    assert list(old.behind) == ["B4", "B5"]
    new.behind = {"B5": None}  # as B3 has said, and B2 not yet
    broker.membership.only_behind(new, None)
    assert (list(old.behind), list(new.behind)) == (["B4"], ["B5"])
    # It has not said yet who is behind it: they were behind the one that it came from.
    new.joined = False
    broker.membership.only_behind(new, old)
    assert (list(old.behind), list(new.behind)) == ([], ["B5"])


@pytest.mark.parametrize(
    ("is_there", "is_ours", "paid"),
    [(True, True, ["B1/1/1"]), (False, True, []), (True, False, []), (False, False, [])],
)
def test_a_trail_is_paid_to_who_is_there(is_there: bool, is_ours: bool, paid: list[str]) -> None:
    """Who is away, or is made a neighbour anew, gets one with the next greeting."""
    source, link, another = (Link(name, False, True, True, None) for name in ("B0", "B2", "B2"))
    links = {"B0": source, "B2": link}
    told: list[str] = []
    trails = Trails("B1/1", links, lambda to, name: told.append(name) if to is link else None)
    link.greeted = True
    trails.owe(link, [trails.heard(source, "B0/1/1", ["B9"], greeting=False)])
    trails.pay_what_can_be()
    assert not told
    link.greeted, links["B2"] = is_there, link if is_ours else another
    trails.passed(source, "B0/1/1")
    assert told == paid


@pytest.mark.parametrize("lost", [True, False])
@pytest.mark.parametrize("late", [True, False])
def test_a_link_that_was_moved_away_while_the_store_was_lost_is_forsaken(
    lost: bool, late: bool
) -> None:
    """B1's settings have a link to B2, which is behind B0 by now: nobody is at its other end."""
    federation = Federation(
        ("B0", "B1"), ("B0", "B2"), members=True, absence_grace_s=4.0, durable=True
    )
    federation.crash("B1", keep_store=not lost)
    federation.edges.append(("B2", "B1"))
    if late:  # it hears of that when it has long ceased to wait for B2
        federation.severed.add(frozenset(("B0", "B1")))
    federation.start("B1")
    federation.settle()
    assert set(federation.brokers["B1"].links) == {"B0", "B2"}
    federation.advance(6.0)
    federation.severed.clear()
    federation.advance(6.0)
    # One that remembers may know better.
    assert set(federation.brokers["B1"].links) == ({"B0"} if lost else {"B0", "B2"})
    said = [report.detail for _, report in federation.reports if report.what == "link forsaken"]
    assert said == (["B2 is behind B0 now"] if lost else [])
    federation.client("sub", "B1")
    federation.subscribe("sub", "a > 0")
    federation.client("pub", "B2")
    federation.advertise("pub", "a > 0")
    federation.settle()
    id_ = federation.publish("pub", a=1)
    federation.settle()
    assert federation.got("sub") == [id_]
