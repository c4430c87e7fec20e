"""What a broker hears of an id from a second side: kept until the first is withdrawn, also in the store."""

from __future__ import annotations

from typing import Any

import pytest

from roost.broker import events as ev
from roost.broker.commands import StoreKey
from roost.broker.hops import Inside
from roost.broker.journal import Journal
from roost.broker.messages import Message, Publication, Subscribe
from roost.broker.spares import Spares
from roost.language import parse_subscription
from tests.broker.kit import Federation
from tests.broker.test_handles import Listed

ALL = parse_subscription("a present")
SOME = parse_subscription("a > 1")
# Whatever entries come from.
LEFT, RIGHT = Inside("left"), Inside("right")


Store = dict[StoreKey, Any]


def stored(journal: Journal, store: Store) -> Store:
    """What a store holds by now."""
    for key, value in journal.take().items():
        if value is None:
            store.pop(key, None)
        else:
            store[key] = value
    return store


def test_each_is_written_and_goes_when_it_is_taken() -> None:
    journal = Journal()
    store: Store = {}
    spares = Spares(journal)
    spares.keep("sub", "s", LEFT, ALL, 0)
    spares.keep("sub", "s", RIGHT, SOME, 0)
    spares.keep("adv", "s", LEFT, ALL, 7)
    assert stored(journal, store) == {
        ("spare", "sub", "s", *LEFT.key): (ALL, 0),
        ("spare", "sub", "s", *RIGHT.key): (SOME, 0),
        ("spare", "adv", "s", *LEFT.key): (ALL, 7),
    }
    assert len(spares) == 3
    assert spares.next("sub", "s") == (LEFT, ALL, 0)  # the first that came
    assert spares.next("sub", "s") == (RIGHT, SOME, 0)
    assert spares.next("sub", "s") is None
    assert list(stored(journal, store)) == [("spare", "adv", "s", *LEFT.key)]
    assert len(spares) == 1


def test_one_that_has_been_announced_again_is_not_withdrawn_by_the_first_withdrawal() -> None:
    journal = Journal()
    store: Store = {}
    spares = Spares(journal)
    spares.keep("adv", "p", LEFT, SOME, 3)
    spares.keep("adv", "p", LEFT, ALL, 5)
    spares.drop("adv", "p", LEFT, 3)
    spares.drop("adv", "p", RIGHT, 5)  # nobody's
    spares.drop("adv", "q", LEFT, 5)
    assert stored(journal, store) == {("spare", "adv", "p", *LEFT.key): (ALL, 5)}
    spares.drop("adv", "p", LEFT, 5)
    assert not stored(journal, store)
    assert not len(spares)


def test_what_came_from_one_side_goes_with_it() -> None:
    journal = Journal()
    store: Store = {}
    spares = Spares(journal)
    for id_ in ("p", "q"):
        spares.keep("sub", id_, LEFT, ALL, 0)
    spares.keep("sub", "q", RIGHT, SOME, 0)
    assert len(stored(journal, store)) == 3
    spares.forget(LEFT)
    assert list(stored(journal, store)) == [("spare", "sub", "q", *RIGHT.key)]
    assert spares.next("sub", "p") is None
    assert spares.next("sub", "q") == (RIGHT, SOME, 0)


def rewired(kind: str) -> Federation:
    """B1 - B2 - B3 has become B2 - B1 - B3, and B1 has not heard from B2 that `far`, at B3, is not there."""
    federation = Federation(("B1", "B2"), ("B2", "B3"), durable=True)
    federation.client("near", "B1")
    federation.client("far", "B3")
    publisher, subscriber = ("near", "far") if kind == "subscriptions" else ("far", "near")
    federation.advertise(publisher, "a present")
    federation.subscribe(subscriber, "a present")
    federation.settle()
    federation.severed.add(frozenset(("B1", "B2")))
    federation.cut("B1", "B2")
    federation.part("B2", "B3")
    federation.join("B3", "B1")
    federation.settle()
    assert federation.table("B1", kind)["far/1"] == "B2"
    assert federation.brokers["B1"].router.spare_entries == 1
    return federation


def says(federation: Federation, broker: str, message: Message) -> None:
    """One of the brokers on the new side says something to B1."""
    there = federation.brokers[broker]
    there.node.work.begin(federation.now)
    there.node.flow.tell(there.links["B1"], message)
    federation._execute(broker, there.node.work.commit())
    federation.settle()


def publish_at_b1(federation: Federation) -> set[str]:
    """Whom an event from near is for: where it has gone, or waits to go."""
    b1 = federation.brokers["B1"]
    before = {name: link.channel.data.sent for name, link in b1.links.items()}
    federation.publish("near", a=1)
    federation.settle()
    return {name for name, link in b1.links.items() if link.channel.data.sent > before.get(name, 0)}


def published(federation: Federation, kind: str) -> None:
    """An event goes the new way."""
    publisher, subscriber = ("near", "far") if kind == "subscriptions" else ("far", "near")
    before = len(federation.got(subscriber))
    id_ = federation.publish(publisher, a=1)
    federation.advance(40.0)
    assert federation.got(subscriber)[before:] == [id_]


@pytest.mark.parametrize("restarts", [0, 1, 2])
@pytest.mark.parametrize("kind", ["subscriptions", "advertisements"])
def test_the_second_takes_the_place_of_the_first(kind: str, restarts: int) -> None:
    """The store knows of it, too."""
    federation = rewired(kind)
    for _ in range(restarts):
        federation.restart("B1", keep_store=True)
        assert federation.brokers["B1"].router.spare_entries == 1
    federation.severed.clear()
    federation.advance(40.0)
    assert federation.table("B1", kind)["far/1"] == "B3"
    assert federation.brokers["B1"].router.spare_entries == 0
    assert not [key for key in federation.stores["B1"] if key[0] == "spare"]
    published(federation, kind)
    federation.check_tables()


@pytest.mark.parametrize("restarts", [0, 1])
@pytest.mark.parametrize("kind", ["subscriptions", "advertisements"])
def test_it_goes_with_the_side_that_it_came_from(kind: str, restarts: int) -> None:
    federation = rewired(kind)
    federation.part("B3", "B1")
    assert federation.brokers["B1"].router.spare_entries == 0
    assert not [key for key in federation.stores["B1"] if key[0] == "spare"]
    if restarts:
        federation.restart("B1", keep_store=True)
    federation.severed.clear()
    federation.join("B3", "B2")
    federation.advance(40.0)
    published(federation, kind)


def test_another_filter_from_the_second_side_replaces_the_one_that_was_kept() -> None:
    federation = rewired("subscriptions")
    says(federation, "B3", Subscribe("far/1", parse_subscription("a > 5"), "a test"))
    for a in (1, 9):
        federation.publish("near", a=a)
    federation.settle()
    passed = federation.between("B1", "B3", Publication)
    assert [p.sequence for p in passed if isinstance(p, Publication)] == [2]


@pytest.mark.parametrize("kind", ["subscriptions", "advertisements"])
def test_it_goes_when_it_is_withdrawn(kind: str) -> None:
    federation = rewired(kind)
    if kind == "subscriptions":
        federation.handle("far", ev.UnsubscribeRequested("a present"))
    else:
        federation.handle("far", ev.UnadvertiseRequested("a present"))
    federation.advance(40.0)
    assert federation.brokers["B1"].router.spare_entries == 0
    federation.restart("B1", keep_store=True)
    federation.severed.clear()
    federation.advance(40.0)
    assert "far/1" not in federation.table("B1", kind)
    federation.check_tables()


@pytest.mark.parametrize("narrower", [False, True])
@pytest.mark.parametrize("first", ["B2", "B3"])
def test_events_go_to_no_side_that_has_withdrawn(first: str, narrower: bool) -> None:
    """Whichever withdraws first, and whether or not both had said the same."""
    federation = rewired("subscriptions")
    if narrower:
        says(federation, "B3", Subscribe("far/1", parse_subscription("a > 0"), "a test"))
    assert publish_at_b1(federation) == {"B2", "B3"}
    if first == "B3":
        federation.handle("far", ev.UnsubscribeRequested("a present"))
        federation.settle()
        assert publish_at_b1(federation) == {"B2"}
    federation.severed.clear()
    federation.advance(40.0)
    if first == "B2":
        assert publish_at_b1(federation) == {"B3"}
        federation.handle("far", ev.UnsubscribeRequested("a present"))
        federation.settle()
    assert "far/1" not in federation.table("B1")
    assert publish_at_b1(federation) == set()


def test_whoever_follows_the_subscriptions_knows_of_both_sides() -> None:
    federation = rewired("subscriptions")
    listed = Listed()
    federation.brokers["B1"].router.watch(listed, Listed())
    assert sorted(listed.whose.values()) == ["B2", "B3"]
    federation.handle("far", ev.UnsubscribeRequested("a present"))
    federation.settle()
    assert list(listed.whose.values()) == ["B2"]


def test_events_do_not_go_to_a_side_that_has_lost_its_memory() -> None:
    federation = rewired("subscriptions")
    federation.severed.add(frozenset(("far", "B3")))  # nobody asks for it there again
    federation.restart("B3")
    assert federation.brokers["B1"].links["B3"].greeted
    assert publish_at_b1(federation) == {"B2"}
