"""PRESS, as it gathers: table 4.1 of 001, over what a broker routes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roost.balancing.cards import Spectrum, SubscriptionLoad
from roost.balancing.press import Press
from roost.broker.messages import Publication
from roost.broker.module import Visit
from roost.language import Event, Subscription, parse_subscription
from roost.optimising.bitvector import BitVector

# Section 4.1.1, in the order of arrival.
PUBLICATIONS: tuple[dict[str, Any], ...] = (
    {"class": "STOCK", "volume": 0},
    {"class": "STOCK", "volume": 10},
    {"class": "STOCK", "volume": 20},
    {"class": "SPORTS", "type": "racing"},
    {"class": "STOCK", "volume": 100},
    {"class": "STOCK", "volume": 500},
)
CANDIDATES = {
    "[class,eq,'STOCK']": "110111",
    "[class,eq,'STOCK'],[volume,>,15]": "110100",
    "[class,eq,'STOCK'],[volume,>,150]": "100000",
    "[class,eq,'SPORTS']": "001000",
}
CSS = (
    "[class,eq,'STOCK'],[volume,>,50]",
    "[class,eq,'STOCK'],[volume,<,5]",
    "[class,eq,'MOVIES']",
)


class Around:
    """As much of a broker as PRESS sees."""

    broker = "B1"

    def __init__(
        self, clients: Mapping[str, Mapping[str, str]], durable: tuple[str, ...] = ()
    ) -> None:
        self._clients = {
            client: {id_: parse_subscription(text) for id_, text in subscriptions.items()}
            for client, subscriptions in clients.items()
        }
        self._durable = durable
        self.watches: dict[str, Subscription] = {}

    def subscribe(self, name: str, subscription: Subscription, *, local: bool = False) -> None:
        assert local, "nobody else is to hear of it"
        self.watches[name] = subscription

    def unsubscribe(self, name: str) -> None:
        del self.watches[name]

    def clients(self) -> Mapping[str, Mapping[str, Subscription]]:
        return self._clients

    def movable(self) -> list[str]:
        return [client for client in self._clients if client not in self._durable]

    def visit(self, number: int, attributes: Mapping[str, Any], **more: Any) -> Visit:
        event = Event(attributes)
        matches = {
            client: [id_ for id_, each in subscriptions.items() if each.matches(event)]
            for client, subscriptions in self._clients.items()
        }
        return Visit(
            publication=Publication("P", number, event),
            hops=1,
            source="B0",
            from_client=False,
            neighbours=(),
            matches={client: ids for client, ids in matches.items() if ids},
            **more,
        )


def sampled(around: Around, samples: int = 6, css: tuple[str, ...] = CSS) -> Spectrum:
    press = Press(around, samples)  # type: ignore[arg-type]
    press.begin(css)
    for number, attributes in enumerate(PUBLICATIONS, 1):
        visit = around.visit(number, attributes)
        if press.routed(visit):
            break
        if any(watch.matches(visit.publication.event) for watch in around.watches.values()):
            press.heard()
    found = press.end(3.0, lambda _: True)
    assert not around.watches
    return found


def bits(text: str) -> bytes:
    """As the thesis writes them: the first sample is the right-most."""
    return BitVector(i for i, bit in enumerate(reversed(text)) if bit == "1").to_bytes()


def load_of(spectrum: Spectrum, client: str) -> SubscriptionLoad:
    (found,) = [load for load in spectrum.loads if client in load.clients]
    return found


def test_table_4_1() -> None:
    around = Around({text: {"s": text} for text in CANDIDATES})
    spectrum = sampled(around)
    assert (spectrum.samples, spectrum.input_rate) == (6, 3.0)
    assert {load.clients[0]: load.bits for load in spectrum.loads} == {
        text: bits(vector) for text, vector in CANDIDATES.items()
    }
    assert spectrum.css_bits == bits("110001")
    assert spectrum.kept_bits == b""
    assert all(load.message_bytes > 0 for load in spectrum.loads)


def test_clients_that_ask_for_the_same_are_one_subscription() -> None:
    stock, sports = "[class,eq,'STOCK']", "[class,eq,'SPORTS']"
    spectrum = sampled(Around({"A": {"1": stock}, "B": {"2": stock}, "C": {"3": sports}}))
    assert [load.clients for load in spectrum.loads] == [("A", "B"), ("C",)]


def test_of_several_subscriptions_the_or_counts() -> None:
    spectrum = sampled(
        Around({"A": {"1": "[class,eq,'SPORTS']", "2": "[class,eq,'STOCK'],[volume,>,150]"}})
    )
    assert load_of(spectrum, "A").bits == bits("101000")
    assert len(load_of(spectrum, "A").interests) == 2


def test_who_stays_keeps_what_nobody_else_asks_for() -> None:
    stock, sports = "[class,eq,'STOCK']", "[class,eq,'SPORTS']"
    clients = {"A": {"1": stock}, "B": {"2": stock}, "C": {"3": sports}}
    spectrum = sampled(Around(clients, durable=("B", "C")))
    assert [(load.clients, load.kept) for load in spectrum.loads] == [(("A",), 1)]
    assert spectrum.kept_bits == bits("001000")


def test_it_ends_after_n_samples() -> None:
    spectrum = sampled(Around({"A": {"1": "[class,eq,'STOCK']"}}), samples=2)
    assert spectrum.samples == 2
    assert load_of(spectrum, "A").bits == bits("11")


def test_what_comes_from_here_or_goes_on_is_kept() -> None:
    around = Around({"A": {"1": "[class,eq,'STOCK']"}})
    press = Press(around, 6)  # type: ignore[arg-type]
    for number, (from_client, neighbours) in enumerate([(True, ()), (False, ("B2",)), (False, ())]):
        visit = around.visit(number, PUBLICATIONS[0])
        press.routed(
            Visit(
                publication=visit.publication,
                hops=1,
                source="B0",
                from_client=from_client,
                neighbours=neighbours,
                matches=visit.matches,
            )
        )
    assert press.end(1.0, lambda _: True).kept_bits == bits("011")
