"""Every checker: a planted bug that it must catch, and a twin like it that it must not flag."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from roost.broker.acknowledging import Acknowledging
from roost.broker.client import Client
from roost.broker.commands import Command, Hand
from roost.broker.core import Broker
from roost.broker.exchange import Exchange
from roost.broker.hops import Hop, Link
from roost.broker.messages import Frame, Parcel, Publication
from roost.broker.requests import Requests
from roost.broker.router import Flooding
from roost.language import Event
from roost.simulation.checkers import check_accounts, check_queues, check_routing
from roost.simulation.network import Network
from roost.simulation.run import Checks, rest
from tests.simulation.lab import PAIR, judged, world_of

EVENTS = """
4.0 publisher publish P [a,7]
4.1 publisher publish P [a,8]
4.2 publisher publish P [a,3]
4.3 publisher publish P [a,9]
"""
ERRORS = (
    "lost",
    "doubled",
    "reordered",
    "unwanted",
    "routing_errors",
    "account_errors",
    "queue_errors",
)


def errors(checks: Checks) -> dict[str, int]:
    """The counts that are not zero."""
    return {name: getattr(checks, name) for name in ERRORS if getattr(checks, name)}


def test_without_a_bug() -> None:
    checks = judged(world_of(PAIR + EVENTS))
    assert errors(checks) == {}
    assert checks.clean
    assert checks.rested
    assert checks.delivered == 3


# --- deliveries -------------------------------------------------------------------------------------


def test_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    publish = Exchange.publish

    def forgetful(self: Exchange, source: Hop, publication: Publication, hops: int) -> None:
        if publication.sequence != 2 or hops == 0:
            publish(self, source, publication, hops)

    monkeypatch.setattr(Exchange, "publish", forgetful)
    checks = judged(world_of(PAIR + EVENTS))
    assert errors(checks) == {"lost": 1}
    assert checks.violations == ("P:2, published at 4.100 s, never reached S (main)",)


def patch_hands(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[list[Command]], list[Command]]
) -> None:
    """Change what a client hands its application."""
    handle = Client.handle

    def changed(self: Client, event: Any, now: float) -> list[Command]:
        commands = handle(self, event, now)
        return change(commands) if any(type(c) is Hand for c in commands) else commands

    monkeypatch.setattr(Client, "handle", changed)
    monkeypatch.setattr(Client, "take", lambda *_: None)  # the short way leads past `handle`


def test_doubled(monkeypatch: pytest.MonkeyPatch) -> None:
    patch_hands(monkeypatch, lambda commands: [*commands, *commands])
    assert errors(judged(world_of(PAIR + EVENTS))) == {"doubled": 3}


def test_reordered(monkeypatch: pytest.MonkeyPatch) -> None:
    hands: list[Command] = []

    def swap(commands: list[Command]) -> list[Command]:
        """The first comes behind the second."""
        hands.extend(c for c in commands if type(c) is Hand)
        if len(hands) == 1:
            return [c for c in commands if type(c) is not Hand]
        return [*commands, hands[0]] if len(hands) == 2 else commands

    patch_hands(monkeypatch, swap)
    # What came late had not come before, so it is missing as well.
    assert errors(judged(world_of(PAIR + EVENTS))) == {"reordered": 1, "lost": 1}


def test_unwanted(monkeypatch: pytest.MonkeyPatch) -> None:
    def everywhere(self: Flooding, _event: Event, source: Hop) -> tuple[list[Link], list[Hop]]:
        links = [link for link in self._links.values() if link is not source]
        sessions = [e.hop for e in self.subscriptions.values() if e.hop.is_session]
        for hop in sessions:
            hop.matched = tuple(hop.subscriptions)
        return links, sessions

    monkeypatch.setattr(Flooding, "route", everywhere)
    checks = judged(world_of(PAIR + EVENTS))
    assert errors(checks) == {"unwanted": 1}
    assert "P:3" in checks.violations[0]


# --- tables -----------------------------------------------------------------------------------------


def deaf_to_neighbours(heard: Callable[[Broker, Any, Any], None]) -> Callable[..., None]:
    """Brokers accept such a message of a neighbour, and do nothing."""

    def hear(self: Broker, hop: Hop, message: Any) -> None:
        if not hop.is_link:
            heard(self, hop, message)

    return hear


def test_stale_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Broker, "_unsubscribe", deaf_to_neighbours(Broker._unsubscribe))
    checks = judged(world_of(PAIR + "4.0 subscriber unsubscribe S main\n"))
    assert errors(checks) == {"routing_errors": 1}
    assert checks.violations[0].startswith("B1: subscriptions from B2: missing [], stale ['S/1']")


def test_missing_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Broker, "_subscribe", lambda *_: None)
    checks = judged(world_of(PAIR))
    assert errors(checks) == {"routing_errors": 1}
    assert checks.violations[0].startswith("B1: subscriptions from B2: missing ['S/1'], stale []")


def test_entry_of_a_client_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Requests, "subscribes", lambda *_: None)
    (wrong,) = judged(world_of(PAIR)).violations
    assert wrong.startswith("B2: subscriptions of clients: missing {('S', 'a > 5'): 1}")


def test_entry_without_a_hop() -> None:
    world = world_of(PAIR)
    assert judged(world).clean
    life = world.hosts["B2"].life
    assert life is not None
    (session,) = life.machine.sessions.values()
    session.subscriptions.clear()
    assert any("have a hop" in wrong for wrong in check_routing(world))


def test_equal_subscriptions_may_stand_for_each_other() -> None:
    """With covering, which of two equal ones is forwarded is nobody's business."""
    text = PAIR + "4.0 subscriber add T B2 a > 5\n5.0 subscriber unsubscribe S main\n"
    assert judged(world_of(text)).clean


@pytest.mark.parametrize(
    "setting", ["covering off", "routing flooding", "advertisement_covering on"]
)
def test_tables_with_other_settings(setting: str) -> None:
    text = f"0.0 federation set {setting}\n{PAIR}4.0 subscriber add T B2 a > 9\n"
    text += "4.0 publisher add Q - 0 B2 a > 7\n4.0 subscriber add U B1 a > 8\n"
    assert judged(world_of(text)).clean


# --- accounts and queues ----------------------------------------------------------------------------


def test_a_message_vanishes_from_an_outbox() -> None:
    world = world_of(PAIR + EVENTS)
    world.run(4.05)
    assert check_accounts(world) == []
    life = world.hosts["B1"].life
    assert life is not None
    life.machine.links["B2"].channel.data.outbox.popleft()
    assert check_accounts(world) == ["B1 -> B2: 1 sent and 0 acknowledged, but 0 are kept"]


def test_a_parcel_vanishes_from_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def swallow(self: Network, pipe: Any, parcel: Parcel) -> None:
        if not (type(parcel) is Frame and type(parcel.message) is Publication):
            arrive(self, pipe, parcel)

    arrive = Network._arrive
    monkeypatch.setattr(Network, "_arrive", swallow)
    world = world_of(PAIR + EVENTS)
    world.run(5.0)
    (wrong,) = check_accounts(world)
    assert wrong.startswith("network: ")


def test_accounts_hold_at_any_time() -> None:
    cut = "4.105 link cut B1 B2\n6.0 link heal B1 B2\n4.15 client vanish S\n7.0 client return S\n"
    world = world_of(PAIR + EVENTS + cut)
    while world.clock.now < 10.0:
        world.run(world.clock.now + 0.0037)
        assert check_accounts(world) == []


def test_a_queue_that_is_not_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Acknowledging, "_send", lambda *_: None)
    checks = judged(world_of(PAIR + EVENTS))
    assert not checks.rested
    assert checks.queue_errors
    assert "B1 -> B2: 3 messages wait" in checks.violations


def test_a_broker_that_is_down_keeps_it_from_rest() -> None:
    world = world_of(PAIR + "4.0 broker crash B2 lose\n")
    checks = judged(world)
    assert not checks.rested
    assert "B2 is down" in check_queues(world)


def test_queues_are_judged_only_when_asked_to() -> None:
    world = world_of(PAIR + EVENTS)
    world.run(4.05)
    assert check_queues(world)
    assert rest(world)
    assert check_queues(world) == []


# --- the grey zone: like the bugs, and no bugs ------------------------------------------------------

GREY = {
    "subscribed just before": (
        "4.0 subscriber add T B2 a > 1\n4.0 publisher publish P [a,3]\n",
        0,
    ),
    "unsubscribed while on the way": (
        "4.0 publisher publish P [a,7]\n4.005 subscriber unsubscribe S main\n",
        0,
    ),
    "removed while on the way": (
        "4.0 publisher publish P [a,7]\n4.005 subscriber remove S\n",
        0,
    ),
    "amnesia": (
        "4.0 publisher publish P [a,7]\n4.005 broker crash B2 lose\n6.0 broker restart B2\n",
        0,
    ),
    "session expired": (
        "0.0 federation set linger_s 2\n4.0 client vanish S\n4.5 publisher publish P [a,7]\n"
        "9.0 client return S\n",
        0,
    ),
    "refused": ("4.0 publisher unadvertise P main\n4.0 publisher publish P [a,7]\n", 0),
    "parted": ("4.0 link remove B1 B2\n5.0 publisher publish P [a,7]\n", 0),
    "away, and back in time": (
        "4.0 client vanish S\n4.5 publisher publish P [a,7]\n9.0 client return S\n",
        1,
    ),
}


@pytest.mark.parametrize("name", GREY)
def test_grey(name: str) -> None:
    """What cannot arrive, or need not, is not missed."""
    lines, delivered = GREY[name]
    checks = judged(world_of(PAIR + lines))
    assert errors(checks) == {}
    assert checks.delivered == delivered


def test_grey_is_not_blind() -> None:
    """The first of these is in the grey zone. The second comes when all has settled."""
    lines = "4.0 subscriber add T B2 a > 1\n4.0 publisher publish P [a,3]\n"
    world = world_of(PAIR + lines + "8.0 publisher publish P [a,3]\n")
    checks = judged(world)
    assert world.oracle.expected == checks.delivered == 1
