"""Advertisements migrate along the path between two brokers (000 section 3.3).

What may happen meanwhile is in `test_migrating_interrupted`.
"""

from __future__ import annotations

from collections import Counter
from itertools import count, pairwise
from typing import Any

import pytest

from roost.broker import commands as do
from roost.broker import events as ev
from roost.broker.messages import (
    Advertise,
    AttachRefused,
    Marker,
    Message,
    Migrate,
    Migrated,
    MigrationComplete,
    MigrationFailed,
    MigrationUpdate,
    Paused,
    PausePlease,
    Refused,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from roost.broker.module import Module
from roost.broker.names import Address
from roost.broker.permissions import Permission
from roost.language import parse_advertisement, parse_subscription
from tests.broker.journey import (
    FIGURE_1,
    MOVE_S,
    PART,
    PATH,
    PATH_LINKS,
    SOURCE,
    TARGET,
    TOO_LONG,
    Journey,
    migrating,
)
from tests.broker.kit import Edge, Federation

# Subscribers at a broker: 10 left of B5 and 15 right of it.
SUBSCRIBERS = {"B1": 1, "B2": 4, "B3": 2, "B4": 3, "B6": 3, "B7": 7, "B8": 5}
LEFT = ("B1", "B2", "B3", "B4")
BOTH_WAYS: tuple[Edge, ...] = (*PATH_LINKS, *((b, a) for a, b in PATH_LINKS))
ON_THE_PATH = {frozenset(link) for link in PATH_LINKS}


def figure_1(at: str = SOURCE, **config: Any) -> Federation:
    """000 figure 1: a publisher at B1, and 25 subscribers, no two of which want the same."""
    federation = Federation(*FIGURE_1, **config)
    federation.client("P", at)
    federation.advertise("P", "a > 0")
    numbers = count(1)
    for broker, subscribers in SUBSCRIBERS.items():
        for _ in range(subscribers):
            number = next(numbers)
            federation.client(f"S{number}", broker)
            federation.subscribe(f"S{number}", f"a > 0 and a != {-number}")
    federation.settle()
    return federation


def between_brokers(federation: Federation, since: int) -> list[tuple[str, str, type[Message]]]:
    brokers = federation.brokers
    return [
        (said.who, said.to, type(said.message))
        for said in federation.said[since:]
        if said.who in brokers and said.to in brokers
    ]


# --- the example of the paper -----------------------------------------------------------------------


def test_only_the_brokers_of_the_path_hear_of_it() -> None:
    """000 section 3.3: O(M) messages for the M brokers of the path.

    One there and one back on each of its links, and the subscriptions that have to turn.
    """
    federation = figure_1(covering=False)
    since = len(federation.said)
    federation.redirect("P", TARGET)
    federation.settle()
    assert federation.clients["P"].address == TARGET
    assert Counter(between_brokers(federation, since)) == {
        ("B6", "B5", MigrationUpdate): 1,
        ("B5", "B1", MigrationUpdate): 1,
        ("B1", "B5", MigrationComplete): 1,
        ("B5", "B6", MigrationComplete): 1,
        # Operation 3: those of the 10 subscribers left of B5 follow.
        ("B1", "B5", Subscribe): 10,
        ("B5", "B6", Subscribe): 10,
        # Operation 2: those of the 15 right of it are recalled.
        ("B5", "B1", Unsubscribe): 15,
        ("B6", "B5", Unsubscribe): 15,
    }


def test_with_covering_there_are_fewer_subscriptions_to_turn() -> None:
    federation = figure_1()
    wide = {"B1": "left", "B7": "right"}
    for broker, name in wide.items():
        federation.client(name, broker)
        federation.subscribe(name, "a > -1")
    federation.settle()
    since = len(federation.said)
    federation.redirect("P", TARGET)
    federation.settle()
    counts = Counter(between_brokers(federation, since))
    assert counts["B5", "B6", Subscribe] == counts["B6", "B5", Unsubscribe] == 1
    assert {frozenset(said[:2]) for said in counts} == ON_THE_PATH
    federation.check_tables()


@pytest.mark.parametrize("hops", range(1, 8))
def test_the_messages_are_as_many_as_the_path_is_long(hops: int) -> None:
    names = [f"B{n}" for n in range(9)]
    federation = Federation(*pairwise(names))
    federation.client("P", "B0")
    federation.advertise("P", "a > 0")
    federation.settle()
    since = len(federation.said)
    federation.redirect("P", f"B{hops}")
    federation.settle()
    assert federation.clients["P"].address == f"B{hops}"
    kinds = Counter(kind for _, _, kind in between_brokers(federation, since))
    assert kinds == {MigrationUpdate: hops, MigrationComplete: hops}


def test_the_tables_afterwards() -> None:
    """The last paragraph of 000 section 3.3: what each of the three operations does in figure 1."""
    federation = figure_1(covering=False)
    before = {name: federation.table(name, "advertisements") for name in federation.brokers}
    subscriptions = {name: federation.table(name) for name in federation.brokers}
    federation.redirect("P", TARGET)
    federation.settle()
    # Operation 1: the last hop of the advertisement, on the path and nowhere else.
    after = {name: federation.table(name, "advertisements") for name in federation.brokers}
    turned = {"B1": "B5", "B5": "B6", "B6": "P"}
    assert after == before | {name: {"P/1": hop} for name, hop in turned.items()}
    # Operations 2 and 3.
    left = {id_ for name in LEFT for id_, hop in subscriptions[name].items() if hop[0] == "S"}
    right = {id_ for id_, hop in subscriptions["B1"].items() if hop == "B5"}
    assert (len(left), len(right)) == (10, 15)
    for name in PATH:
        table = federation.table(name)
        towards_the_source = {id_ for id_, hop in table.items() if hop == before[name]["P/1"]}
        towards_the_target = {id_ for id_, hop in table.items() if hop == turned[name]}
        assert towards_the_source == (set() if name == SOURCE else left)
        assert not towards_the_target
    for name in federation.brokers.keys() - set(PATH):
        assert federation.table(name) == subscriptions[name]


@pytest.mark.parametrize("covering", [True, False])
@pytest.mark.parametrize("target", ["B2", "B3", "B4", "B5", "B6", "B7", "B8"])
def test_the_tables_are_those_of_a_publisher_that_was_there_from_the_beginning(
    target: str, covering: bool
) -> None:
    federation = figure_1(covering=covering)
    federation.redirect("P", target)
    federation.settle()
    federation.check_tables()
    federation.check_quiet()
    scratch = figure_1(target, covering=covering)
    for name in federation.brokers:
        for kind in ("advertisements", "subscriptions"):
            assert federation.table(name, kind) == scratch.table(name, kind)


def test_there_and_back_again() -> None:
    federation = figure_1()
    before = federation.show()
    ids = []
    for n, target in enumerate([TARGET, SOURCE] * 5):
        ids.append(federation.publish("P", a=1))
        federation.redirect("P", target)
        federation.settle()
        assert federation.clients["P"].address == target
        assert federation.clients["P"].session == f"P-session.{n + 1}"
    assert federation.show().replace("P-session.10", "P-session.0") == before
    assert federation.got("S1") == federation.got("S25") == ids


@pytest.mark.parametrize("held", [None, *BOTH_WAYS, ("P", "B1"), ("B1", "P"), ("P", "B6")])
def test_nothing_is_lost_doubled_or_reordered(held: Edge | None) -> None:
    """Before, during and after; while data is stuck on any link of the path."""
    federation = figure_1()
    if held is not None:
        federation.hold_data.add(held)
    ids = [federation.publish("P", a=1)]
    federation.redirect("P", TARGET)
    for number in count():
        if number % 20 == 0 and len(ids) < 15:
            ids.append(federation.publish("P", a=1))
        if not federation.step() or federation.clients["P"].address == TARGET:
            break
    federation.hold_data.clear()
    ids.append(federation.publish("P", a=1))
    federation.settle()
    assert federation.clients["P"].address == TARGET
    ids.append(federation.publish("P", a=1))
    federation.settle()
    for n in range(1, sum(SUBSCRIBERS.values()) + 1):
        assert federation.got(f"S{n}") == ids
        assert federation.clients[f"S{n}"].duplicates == 0
    assert not any(broker.exchange.duplicates for broker in federation.brokers.values())


def test_the_publisher_pauses_for_one_way_along_the_path() -> None:
    """Until the way is ready it publishes at the source; the pause is told."""
    federation = figure_1()
    federation.hold_data.add(("B5", "B6"))
    federation.redirect("P", TARGET)
    federation.settle()
    assert federation.between("P", SOURCE, Paused)
    kept = [federation.publish("P", a=1) for _ in range(3)]
    assert len(federation.clients["P"].kept_back) == 3
    federation.advance(1.5)
    assert not federation.got("S1")
    federation.hold_data.clear()
    federation.settle()
    assert federation.got("S1") == kept
    (moved,) = federation.heard("P", "moved")
    assert (moved.about, moved.reason) == (TARGET, "1.500000")


# --- when it does not come to that ------------------------------------------------------------------


def journey(*advertisements: str, **config: Any) -> Journey:
    """P at B1, and subscribers on both sides of the path and on it."""
    federation = Federation(*PART, ack_delay_s=0.05, **config)
    federation.client("P", SOURCE, ack_delay_s=0.05)
    for advertisement in advertisements or ("a > 0",):
        federation.advertise("P", advertisement)
    for broker in ("B2", "B5", "B7"):
        federation.client(f"S{broker}", broker, ack_delay_s=0.05)
        federation.subscribe(f"S{broker}", "a > 0")
    return Journey(federation, "P")


def stays(federation: Federation, reason: str) -> None:
    """P is at the source, was told why, and all is as before."""
    federation.settle()
    client = federation.clients["P"]
    assert (client.address, client.state, client.moving) == (SOURCE, "attached", False)
    (tell,) = federation.heard("P", "stays")
    assert tell == do.Tell("stays", TARGET, reason)
    federation.check_tables()
    for broker in federation.brokers.values():
        assert broker.router.expected_entries == 0
    before = len(federation.got("SB7"))
    id_ = federation.publish("P", a=1)
    federation.settle()
    assert federation.got("SB7")[before:] == [id_]


class Placer(Module):
    """Sends clients elsewhere."""

    name = "placer"

    def place(self, client: str, now: float) -> Address | None:  # noqa: ARG002
        return Address("B7") if client == "P" else None


def test_the_target_sends_it_elsewhere() -> None:
    """Whoever had the idea meant this broker; a client that stays can be told again."""
    federation = Federation(*PART, modules=lambda name: [Placer()] if name == TARGET else [])
    federation.client("P", SOURCE)
    federation.advertise("P", "a > 0")
    federation.client("SB7", "B7")
    federation.subscribe("SB7", "a > 0")
    federation.settle()
    federation.redirect("P", TARGET)
    stays(federation, "B6 says: please attach there")


def test_the_target_does_not_want_it() -> None:
    play = journey()
    play.federation.redirect("P", TARGET)
    (connection,) = knock(play.federation, TARGET)
    refusal = AttachRefused("closed on Sundays")
    play.federation.handle("P", ev.Received(connection, (refusal,)))
    stays(play.federation, "B6 says: closed on Sundays")


def knock(federation: Federation, broker: str) -> list[int]:
    """Until P has dialled a broker; the connection."""
    while True:
        found = [c.id for c in federation.connections.values() if c.ends == ("P", broker)]
        if found:
            return found
        assert federation.step()


@pytest.mark.parametrize("what", ["advertisement", "subscription"])
def test_the_target_refuses_what_it_wants(what: str) -> None:
    """Migrated, made anew or subscribed to: it may not do there what it may do here."""
    play = journey()
    if what == "subscription":
        play.federation.subscribe("P", "c > 0")
        play.federation.settle()
    play.federation.redirect("P", TARGET)
    (connection,) = knock(play.federation, TARGET)
    some, all_ = parse_subscription("z > 0"), parse_subscription("*")
    permission = Permission("P", publish=some, subscribe=all_)
    if what == "subscription":
        permission = Permission("P", publish=all_, subscribe=some)
    play.federation.handle(TARGET, ev.Identified(connection, permission))
    verb = "advertise" if what == "advertisement" else "subscribe to"
    stays(play.federation, f"B6 says: 'P' may only {verb} what 'z > 0' covers")


def test_nobody_answers_at_the_target() -> None:
    play = journey()
    play.federation.severed.add(frozenset(("P", TARGET)))
    play.federation.redirect("P", TARGET)
    play.federation.advance(MOVE_S - 0.1)
    assert play.client.moving
    ids = [play.federation.publish("P", a=1)]
    play.federation.settle()
    assert play.federation.got("SB7") == ids
    play.federation.advance(0.2)
    stays(play.federation, TOO_LONG)


@pytest.mark.parametrize("broker", [*PATH, "B7"])
def test_somebody_on_the_way_never_answers(broker: str) -> None:
    """The publisher stays, paused or not, and goes on; when the broker speaks again, nobody minds."""
    play = journey(durable=True)
    play.federation.redirect("P", TARGET)
    knock(play.federation, TARGET)
    play.federation.hold_commits.add(broker)
    play.federation.advance(MOVE_S + 0.1)
    if broker == "B7":  # off the path: it is not asked
        assert play.client.address == TARGET
        return
    assert [tell.reason for tell in play.federation.heard("P", "stays")] == [TOO_LONG]
    play.federation.hold_commits.clear()
    play.federation.commit(broker)
    play.federation.advance(10 * MOVE_S)
    stays(play.federation, TOO_LONG)


def test_while_it_pauses_the_target_is_lost() -> None:
    """Events wait until the brokers have heard of the advertisements that are made anew."""
    play = journey()
    play.federation.hold_data.add(("B5", "B6"))
    play.federation.redirect("P", TARGET)
    play.federation.settle()
    ids = [play.federation.publish("P", a=1) for _ in range(3)]
    play.federation.crash(TARGET)
    play.federation.hold_data.clear()
    play.federation.advance(MOVE_S + 0.1)
    assert play.client.address == SOURCE
    assert play.federation.got("SB2") == play.federation.got("SB5") == ids
    play.federation.start(TARGET)
    play.federation.advance(60.0)
    stays(play.federation, TOO_LONG)


def test_while_it_pauses_there_is_no_room_to_ask_whether_it_may_go_on() -> None:
    """It asks again, until there is."""
    play = journey(link_outbox_max=4)
    federation = play.federation
    federation.client("Q", SOURCE, ack_delay_s=0.05)
    federation.advertise("Q", "a > 0")
    federation.settle()
    federation.hold_data.add(("B5", "B6"))
    federation.redirect("P", TARGET)
    federation.settle()
    federation.hold_data.add(("B1", "B2"))
    for _ in range(4):
        federation.publish("Q", a=1)
    federation.crash(TARGET)
    federation.advance(MOVE_S + 0.1)
    assert federation.between(SOURCE, "P", Refused)
    id_ = federation.publish("P", a=1)
    federation.settle()
    assert id_ not in federation.got("SB5")
    federation.hold_data.clear()
    federation.start(TARGET)
    federation.advance(60.0)
    assert id_ in federation.got("SB5")


@pytest.mark.parametrize("parted", [("B1", "B5"), ("B5", "B6")], ids="-".join)
def test_there_is_no_way_to_the_target(parted: Edge) -> None:
    """In another part of the overlay it is new."""
    play = journey()
    play.federation.part(*parted)
    play.federation.settle()
    play.federation.redirect("P", TARGET)
    play.federation.settle()
    assert play.client.address == TARGET
    (failed,) = play.federation.between(TARGET, "P", MigrationFailed)
    assert failed == MigrationFailed("not all of these advertisements are known here")
    id_ = play.federation.publish("P", a=1)
    play.federation.settle()
    assert play.federation.got("SB7") == [id_]
    assert not play.federation.got("SB2")
    play.federation.check_tables()


def test_one_of_several_is_withdrawn_on_the_way() -> None:
    """Not by the client, whose withdrawals wait: then none of them comes, and no broker waits for any."""
    play = journey("a > 0", "a > -5", "b > 0")
    play.federation.redirect("P", TARGET)
    while not play.federation.between(TARGET, "B5", MigrationUpdate):
        assert play.federation.step()
    session = play.federation.brokers[SOURCE].sessions["P-session.0"]
    assert session.connection is not None
    only_a = Permission("P", publish=parse_subscription("a present"))
    play.federation.handle(SOURCE, ev.Identified(session.connection, only_a))
    play.federation.advance(1.0)
    assert play.client.address == TARGET
    assert play.federation.between(TARGET, "P", MigrationFailed)
    assert not play.federation.between(TARGET, "P", Migrated)
    assert len(play.federation.table(TARGET, "advertisements")) == 3
    play.check_brokers()


# --- what nobody should say -------------------------------------------------------------------------


def test_nobody_migrates_what_is_not_his() -> None:
    federation = figure_1()
    federation.client("eve", TARGET)
    federation.settle()
    since = len(federation.said)
    session = federation.brokers[TARGET].sessions["eve-session.0"]
    migrating(federation.brokers[TARGET]).begin(session, Migrate(("P/1",), "eve"))
    federation.settle()
    assert not between_brokers(federation, since)
    assert [m.message for m in session.channel.control.outbox] == [
        MigrationFailed("'P/1' is not an advertisement of 'eve'")
    ]


def test_the_source_looks_whose_it_is() -> None:
    """A name in an id is only a name: the session that advertised it knows better (see `naming`)."""
    federation = figure_1()
    since = len(federation.said)
    link = federation.brokers[SOURCE].links["B5"]
    not_his = MigrationUpdate("eve", ("P/1",), (TARGET, "B5"), "eve", link.number + 1)
    migrating(federation.brokers[SOURCE]).update(link, not_his)
    federation.settle()
    (entry,) = federation.brokers[SOURCE].router.advertisements.values()
    assert entry.next is None
    assert not federation.between(SOURCE, "P", PausePlease, since=since)
    # And the owner can, after as before.
    federation.redirect("P", TARGET)
    federation.settle()
    assert federation.clients["P"].address == TARGET
    assert federation.between(SOURCE, "P", PausePlease, since=since)
    federation.check_tables()


@pytest.mark.parametrize("ids", [(), ("P/9",), ("P/1", "P/9")])
def test_what_is_not_known_does_not_migrate(ids: tuple[str, ...]) -> None:
    federation = figure_1()
    session = federation.brokers[SOURCE].sessions["P-session.0"]
    migrating(federation.brokers[SOURCE]).begin(session, Migrate(ids, "a test"))
    assert [m.message for m in session.channel.control.outbox] == [
        MigrationFailed("not all of these advertisements are known here")
    ]


def test_what_is_here_already_does_not_migrate() -> None:
    federation = figure_1()
    session = federation.brokers[SOURCE].sessions["P-session.0"]
    migrating(federation.brokers[SOURCE]).begin(session, Migrate(("P/1",), "a test"))
    assert [m.message for m in session.channel.control.outbox] == [
        MigrationFailed("these advertisements are not all at one other broker")
    ]


def test_who_pauses_without_being_asked_is_told_so() -> None:
    federation = figure_1()
    session = federation.brokers[SOURCE].sessions["P-session.0"]
    migrating(federation.brokers[SOURCE]).paused(session, Paused("a test"))
    assert [m.message for m in session.channel.control.outbox] == [
        MigrationFailed("the way to the target is gone")
    ]


def test_a_token_that_nobody_expects_is_sent_back() -> None:
    """The neighbour that sent it no longer has the advertisement from where it was."""
    federation = figure_1()
    link = federation.brokers["B5"].links["B1"]
    since = len(federation.said)
    complete = MigrationComplete("P", ("P/1",), "a test", 7)
    migrating(federation.brokers["B5"]).complete(link, complete)
    assert "P/1" not in federation.table("B5", "advertisements")
    waiting = [frame.message for frame in link.channel.data.outbox]
    assert Unadvertise("P/1", "a test", 7) in waiting
    assert not federation.between("B5", "B1", MigrationComplete, since=since)


def test_the_update_of_what_has_been_withdrawn_is_no_matter() -> None:
    federation = figure_1()
    link = federation.brokers["B1"].links["B5"]
    before = federation.show()
    since = len(federation.said)
    update = MigrationUpdate("P", ("P/9",), ("B6", "B5"), "a test", 7)
    migrating(federation.brokers["B1"]).update(link, update)
    federation.settle()
    assert federation.show() == before
    assert not between_brokers(federation, since)


def test_an_advertisement_is_what_it_says() -> None:
    """Migrated, it is the same under the same id: nobody off the path could tell."""
    federation = figure_1()
    federation.redirect("P", TARGET)
    federation.settle()
    entry = federation.brokers[TARGET].router.advertisements["P/1"]
    assert entry.interest == parse_advertisement("a > 0")
    assert not federation.between("P", TARGET, Advertise)
    assert not federation.between("B1", "B5", Marker)
