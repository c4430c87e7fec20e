"""Brokers of a hierarchy change from the tree to the cluster and back, under traffic (003 section IV)."""

from __future__ import annotations

from random import Random

import pytest

from roost.broker import events as ev
from roost.broker.hierarchy import Clustered, Complete, Upward
from roost.broker.messages import Note, Publication, Subscribe
from roost.broker.router import ROUTER
from tests.broker.kit import Federation
from tests.broker.test_hierarchy import FIGURE_1, PEERS, published, publisher, subscriber, ways


def figure_1(routing: str) -> Federation:
    return Federation(*FIGURE_1, peers=PEERS, routing=routing)


def switch(federation: Federation, way: str, *brokers: str) -> None:
    for name in brokers or federation.brokers:
        federation.handle(name, ev.WaySwitched(way, "the operator"))


def router_of(federation: Federation, name: str) -> Clustered:
    router = federation.brokers[name].router
    assert isinstance(router, Clustered)
    return router


def test_in_the_tree_subscriptions_go_everywhere_and_events_only_where_they_are_wanted() -> None:
    """003 IV.B, with the ranks and the mesh of IV.A."""
    federation = figure_1("tree")
    told = subscriber(federation, "S", "10")
    assert {to for _, to in told} == set(federation.brokers) - {"10"}
    publisher(federation, "near", "10")
    publisher(federation, "far", "2")
    assert published(federation, "near") == []
    assert published(federation, "far") == [("2", "1"), ("1", "7"), ("7", "9"), ("9", "10")]
    assert published(federation, "far", topic="weather") == []


@pytest.mark.parametrize("way", ["tree", "cluster"])
def test_who_has_changed_is_as_if_it_had_always_been_so(way: str) -> None:
    other = "cluster" if way == "tree" else "tree"
    changed, always = figure_1(other), figure_1(way)
    for federation in (changed, always):
        subscriber(federation, "early", "10")
        if federation is changed:
            switch(federation, way)
            federation.settle()
        subscriber(federation, "late", "3", "topic = 'weather'")
        publisher(federation, "P", "4")
    for topic in ("news", "weather", "nothing"):
        assert published(changed, "P", topic) == published(always, "P", topic)
    for name, broker in changed.brokers.items():
        assert (
            broker.router.subscriptions.keys() == always.brokers[name].router.subscriptions.keys()
        )
    assert changed.got("early") == always.got("early") == ["P:1"]


def test_a_broker_sends_everything_up_until_its_super_knows_everything() -> None:
    """1 and 3 go the way of the cluster still: 4, below 3, is told what 3 knows, and not to rely on it."""
    federation = figure_1("cluster")
    subscriber(federation, "S", "10")
    switch(federation, "tree", "4")
    federation.settle()
    assert router_of(federation, "3").is_complete is False
    assert router_of(federation, "4").is_complete is False
    publisher(federation, "P", "4")
    assert published(federation, "P", "nothing") == [("4", "3"), ("3", "1")]
    switch(federation, "tree", "3")
    federation.settle()
    assert router_of(federation, "4").is_complete
    assert published(federation, "P", "nothing") == []
    assert published(federation, "P")[-1] == ("9", "10")


def test_who_is_not_complete_any_more_says_so_before_it_withdraws_anything() -> None:
    federation = figure_1("tree")
    subscriber(federation, "S", "10")
    before = len(federation.said)
    switch(federation, "cluster", "3")
    federation.settle()
    said = [s for s in federation.said[before:] if (s.who, s.to) == ("3", "4")]
    first = next(s.message for s in said if isinstance(s.message, Note))
    assert first.module == ROUTER
    assert b"complete" in first.body
    assert said[0].message is first
    publisher(federation, "P", "4")
    assert published(federation, "P")[-1] == ("9", "10")
    assert ("3", "1") in published(federation, "P", "nothing")


def test_an_answer_to_an_earlier_question_is_none() -> None:
    """4 has asked, changed its mind, and asked again, all before its super could answer."""
    federation = figure_1("tree")
    router = router_of(federation, "4")
    switch(federation, "cluster", "4")
    federation.settle()
    number = router._number
    link = federation.brokers["4"].links["3"]
    for late in (Complete(number - 1, True), Complete(number, True), Upward(number, True)):
        router.noted(link, msgpack(late), "late")
        assert not router.is_complete
    router.noted(link, b"\xc1 what is that", "late")
    switch(federation, "tree", "4")
    router.noted(link, msgpack(Complete(number, True)), "late")
    assert not router.is_complete
    federation.settle()
    assert router.is_complete


def msgpack(said: Complete | Upward) -> bytes:
    from roost.broker.hierarchy import WRITE

    return WRITE(said)


def test_whoever_loses_its_memory_asks_again_and_nothing_is_missed() -> None:
    federation = figure_1("tree")
    subscriber(federation, "S", "10")
    publisher(federation, "P", "4")
    for lost in ("3", "1", "7", "4"):
        federation.restart(lost)
        federation.settle()
        if lost == "4":
            federation.attach("P", "4")
            federation.settle()
        assert all(router_of(federation, name).is_complete for name in federation.brokers)
        assert ("9", "10") in published(federation, "P"), lost


def test_a_way_that_was_chosen_holds_over_restarts_unless_the_settings_change() -> None:
    federation = Federation(*FIGURE_1, peers=PEERS, routing="cluster", durable=True)
    subscriber(federation, "S", "10")
    switch(federation, "tree")
    federation.settle()
    for name in ("4", "3", "1"):
        federation.restart(name, keep_store=True)
        federation.settle()
        assert router_of(federation, name).way == "tree"
        assert router_of(federation, name).is_complete
    publisher(federation, "P", "4")
    assert published(federation, "P", "nothing") == []
    federation._config["routing"] = "tree"
    federation.restart("3", keep_store=True)
    federation.settle()
    federation._config["routing"] = "cluster"
    federation.restart("3", keep_store=True)
    federation.settle()
    assert router_of(federation, "3").way == "cluster"
    assert published(federation, "P", "nothing") == [("4", "3"), ("3", "1")]
    assert ("9", "10") in published(federation, "P")


def test_a_broker_at_the_top_that_gets_one_above_it_is_complete_no_more() -> None:
    federation = Federation(("b", "a"), routing="tree")
    publisher(federation, "P", "b")
    assert published(federation, "P", "nothing") == []
    federation.edges.append(("a", "top"))
    federation.start("top")
    federation.handle("a", ev.LinkAdded("top", dial=True, rank="super"))
    assert not router_of(federation, "a").is_complete
    federation.settle()
    told = subscriber(federation, "S", "top")
    assert told == [("top", "a"), ("a", "b")]
    assert published(federation, "P") == [("b", "a"), ("a", "top")]
    federation.part("a", "top")
    federation.settle()
    assert router_of(federation, "b").is_complete
    assert published(federation, "P") == []


@pytest.mark.parametrize("seed", range(8))
def test_events_arrive_once_and_in_order_while_brokers_change(seed: int) -> None:
    """Whatever is on the way when, one thing at a time in any order."""
    random = Random(seed)
    federation = figure_1(random.choice(["cluster", "tree"]))
    homes = {f"S{i}": random.choice(list(federation.brokers)) for i in range(4)}
    for name, home in homes.items():
        subscriber(federation, name, home)
    for i in range(3):
        publisher(federation, f"P{i}", random.choice(list(federation.brokers)))
    sent = []
    for _ in range(60):
        if random.random() < 0.4:
            name = random.choice(list(federation.brokers))
            switch(federation, random.choice(["tree", "cluster"]), name)
        sent.append(federation.publish(f"P{random.randrange(3)}", topic="news"))
        for _ in range(random.randrange(12)):
            federation.step(random.randrange(100))
    federation.settle()
    for name in homes:
        got = federation.got(name)
        assert sorted(got) == sorted(sent)
        for i in range(3):
            own = [id_ for id_ in got if id_.startswith(f"P{i}:")]
            assert own == [id_ for id_ in sent if id_.startswith(f"P{i}:")]


def test_where_there_is_one_way_only() -> None:
    federation = Federation(("a", "b"), routing="flooding")
    assert "one way only" in federation.brokers["a"].router.objection_to_way("tree")
    switch(federation, "tree", "a")
    federation.settle()
    router = router_of(figure_1("tree"), "1")
    assert router.objection_to_way("cluster") == ""
    assert "expected one of cluster, tree" in router.objection_to_way("star")


def test_nothing_is_said_about_a_way_that_it_goes_already() -> None:
    federation = figure_1("tree")
    before = len(federation.said)
    switch(federation, "tree")
    federation.settle()
    assert len(federation.said) == before
    assert not ways(federation, Publication)
    assert not ways(federation, Subscribe)
