"""003's two topologies, rule by rule: the cluster (section IV.A, figure 1) and the tree (IV.B, figure 3)."""

from __future__ import annotations

from typing import Any

import pytest

from roost.broker import events as ev
from roost.broker.messages import Publication, Subscribe, Unsubscribe
from tests.broker.kit import Edge, Federation

# Figure 1's ten brokers: 1 and 2 are the cluster C1, C1 and C2 the super-cluster SC1, SC1 and SC2 the
# super-super-cluster SSC1; SSC2 is the other one. Whoever comes second controls the first.
FIGURE_1: tuple[Edge, ...] = (
    ("2", "1"),
    ("4", "3"),
    ("3", "1"),
    ("6", "5"),
    ("5", "1"),
    ("8", "7"),
    ("10", "9"),
    ("9", "7"),
    ("1", "7"),
)
PEERS = (("1", "7"),)
# Figure 2's eight brokers, each with its parent.
FIGURE_2: tuple[Edge, ...] = (
    ("2", "1"),
    ("3", "1"),
    ("4", "2"),
    ("5", "2"),
    ("6", "3"),
    ("7", "3"),
    ("8", "7"),
)
NEWS = "topic = 'news'"


def figure_1(**config: Any) -> Federation:
    return Federation(*FIGURE_1, peers=PEERS, routing="cluster", **config)


def ways(federation: Federation, kind: type, since: int = 0) -> list[Edge]:
    """Who said a message of that kind to whom, brokers only."""
    brokers = federation.brokers
    return [
        (said.who, said.to)
        for said in federation.said[since:]
        if isinstance(said.message, kind) and said.who in brokers and said.to in brokers
    ]


def subscriber(federation: Federation, name: str, broker: str, text: str = NEWS) -> list[Edge]:
    """Somebody subscribes; who tells whom."""
    before = len(federation.said)
    federation.client(name, broker)
    federation.subscribe(name, text)
    federation.settle()
    return ways(federation, Subscribe, before)


def published(federation: Federation, publisher: str, topic: str = "news") -> list[Edge]:
    """Somebody publishes; which links the event takes."""
    before = len(federation.said)
    federation.publish(publisher, topic=topic)
    federation.settle()
    return ways(federation, Publication, before)


def publisher(federation: Federation, name: str, broker: str) -> None:
    federation.client(name, broker)
    federation.settle()


# --- the cluster --------------------------------------------------------------------------------------


def test_a_subscription_goes_up_and_across_to_the_peers_and_ends_there() -> None:
    """003 IV.A: "the chain goes on until it is received at a SSCC unit ... forwards it to its peer units"."""
    assert subscriber(figure_1(), "s", "4") == [("4", "3"), ("3", "1"), ("1", "7")]


def test_a_subscription_stops_where_a_broker_has_subscribed_to_its_super() -> None:
    """003 IV.A: "where a broker node has already subscribed to its super unit the propagation ... does not
    happen beyond that node"."""
    federation = figure_1()
    subscriber(federation, "s", "4")
    assert subscriber(federation, "same", "4") == []
    assert subscriber(federation, "controller", "3") == []
    assert subscriber(federation, "beside", "2") == [("2", "1")]  # 1 has told 7 already
    assert subscriber(federation, "elsewhere", "8") == [("8", "7"), ("7", "1")]


def test_an_event_goes_up_whoever_wants_it_and_not_across_unasked() -> None:
    """003 IV.A: up "just as with subscription routing ... will not be forwarded to the peer SSCC units ...
    unless the peer SSCC units have already subscribed"."""
    federation = figure_1()
    publisher(federation, "p", "10")
    assert published(federation, "p") == [("10", "9"), ("9", "7")]


def test_an_event_goes_down_the_paths_that_are_subscribed() -> None:
    federation = figure_1()
    publisher(federation, "p", "10")
    for name, broker in (("far", "4"), ("near", "9"), ("beside", "8"), ("top", "1")):
        subscriber(federation, name, broker)
    subscriber(federation, "other", "6", "topic = 'sports'")
    assert sorted(published(federation, "p")) == [
        ("1", "3"),
        ("10", "9"),
        ("3", "4"),
        ("7", "1"),
        ("7", "8"),
        ("9", "7"),
    ]
    for name in ("far", "near", "beside", "top"):
        assert federation.got(name) == ["p:1"]
    assert federation.got("other") == []


def test_what_is_unsubscribed_is_taken_back_as_far_as_it_went() -> None:
    federation = figure_1()
    subscriber(federation, "s", "4")
    before = len(federation.said)
    federation.unsubscribe("s", NEWS)
    federation.settle()
    assert ways(federation, Unsubscribe, before) == [("4", "3"), ("3", "1"), ("1", "7")]
    assert not any(broker.router.subscriptions for broker in federation.brokers.values())


def test_a_third_peer_hears_from_the_first_and_passes_nothing_on() -> None:
    """Peers are a mesh: every one is told once, and what comes from one goes to no other."""
    edges = (*FIGURE_1, ("1", "11"), ("7", "11"))
    peers = (*PEERS, ("1", "11"), ("7", "11"))
    federation = Federation(*edges, peers=peers, routing="cluster")
    publisher(federation, "p", "8")
    assert subscriber(federation, "s", "2") == [("2", "1"), ("1", "7"), ("1", "11")]
    assert published(federation, "p") == [("8", "7"), ("7", "1"), ("1", "2")]
    assert federation.got("s") == ["p:1"]


@pytest.mark.parametrize("away", ["3", "1", "7"], ids=["CC", "SCC and SSCC", "the other SSCC"])
def test_what_is_asked_and_published_while_a_controller_is_away_arrives(away: str) -> None:
    """Whoever is cut off keeps what goes up, and who is above keeps all that may be wanted below."""
    federation = figure_1(durable=True)
    subscriber(federation, "before", "4")
    publisher(federation, "p", "10")
    federation.crash(away, keep_store=True)
    subscriber(federation, "meanwhile", "4")
    federation.advance(20.0)
    federation.publish("p", topic="news")
    federation.settle()
    federation.start(away)
    federation.advance(60.0)
    assert federation.got("before") == ["p:1"]
    assert federation.got("meanwhile") == ["p:1"]


def test_links_of_a_hierarchy_are_not_moved() -> None:
    federation = figure_1()
    objection = federation.brokers["1"].rewirings.objection_to("2", "3")
    assert objection == "2 is the sub of 1, and stays where it is"


# --- the tree -----------------------------------------------------------------------------------------


def test_in_the_tree_a_subscription_goes_to_all() -> None:
    """003 figure 3."""
    federation = Federation(*FIGURE_2, routing="flooding")
    assert sorted(subscriber(federation, "s", "4")) == [
        ("1", "3"),
        ("2", "1"),
        ("2", "5"),
        ("3", "6"),
        ("3", "7"),
        ("4", "2"),
        ("7", "8"),
    ]


def test_in_the_tree_a_subscription_does_not_go_on_where_there_is_one() -> None:
    """003 IV.B: "If a subscription already exists in one of the broker nodes it won't propagate the message
    in that path thereafter"."""
    federation = Federation(*FIGURE_2, routing="flooding")
    subscriber(federation, "s", "4")
    assert subscriber(federation, "same", "4") == []
    # Only those on the way to the first one need to know that it is wanted here, as well.
    assert subscriber(federation, "t", "8") == [
        ("8", "7"),
        ("7", "3"),
        ("3", "1"),
        ("1", "2"),
        ("2", "4"),
    ]


def test_in_the_tree_an_event_goes_only_where_it_is_wanted() -> None:
    federation = Federation(*FIGURE_2, routing="flooding")
    publisher(federation, "p", "8")
    assert published(federation, "p") == []
    subscriber(federation, "s", "6")
    assert published(federation, "p") == [("8", "7"), ("7", "3"), ("3", "6")]


def test_ranks_of_both_ends_have_to_fit() -> None:
    """Whoever forgot to say who is above whom would have subscriptions go nowhere: there is no such link."""
    federation = Federation(("1", "2"), peers=PEERS, routing="cluster")
    federation.settle()
    assert federation.brokers["1"].links["2"].greeted
    assert [federation.brokers[name].links[other].rank for name, other in ("12", "21")] == [
        "super",
        "sub",
    ]
    federation.handle("1", ev.NeighboursConfigured({"2": True}, {"2": "peer"}))
    federation.advance(60.0)
    assert not federation.brokers["1"].links["2"].greeted
    assert not federation.brokers["2"].links["1"].greeted
    reports = [(who, r) for who, r in federation.reports if r.what == "ranks do not fit"]
    assert {who for who, _ in reports} == {"2"}
    assert reports[0][1].detail == (
        "2 takes 1 for its sub, and 1 takes 2 for its peer; expected super there, or peer here"
    )
    federation.handle("2", ev.NeighboursConfigured({"1": False}, {"1": "peer"}))
    federation.advance(60.0)
    assert federation.brokers["1"].links["2"].greeted
    subscriber(federation, "S", "2")
    publisher(federation, "P", "1")
    assert published(federation, "P") == [("1", "2")]
