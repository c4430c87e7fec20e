"""Brokers with a relocation module, an audience, and what they say to each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from roost.broker.messages import Note
from roost.broker.module import Module
from roost.relocation.notes import read_note
from tests.broker.kit import Federation

# Figure 1 of 000: the publisher at B1; 10 subscribers left of B5 (6 at B2 and behind it, 3 at B4, 1 at B1)
# and 15 right of it. How many of the 6 are at B3, and of the 15 at B6, B7 and B8, is lost with the picture.
FIGURE_1 = (
    ("B1", "B2"),
    ("B2", "B3"),
    ("B1", "B4"),
    ("B1", "B5"),
    ("B5", "B6"),
    ("B6", "B7"),
    ("B6", "B8"),
)
AUDIENCE_1 = {"B1": 1, "B2": 4, "B3": 2, "B4": 3, "B5": 0, "B6": 4, "B7": 6, "B8": 5}

N = TypeVar("N")

EVERYTHING = "class = 'STOCK'"


def federation_of(
    edges: tuple[tuple[str, str], ...],
    audience: Mapping[str, int],
    module: Callable[[], Module],
    at: str = "B1",
    **config: Any,
) -> Federation:
    """A publisher P at a broker, and so many subscribers to all that it publishes at each."""
    federation = Federation(*edges, modules=lambda _: [module()], **config)
    for broker, subscribers in audience.items():
        for number in range(subscribers):
            name = f"S{broker}.{number}"
            federation.client(name, broker)
            federation.subscribe(name, EVERYTHING)
    federation.client("P", at)
    federation.advertise("P", EVERYTHING)
    federation.settle()
    return federation


def publish(federation: Federation, count: int, every_s: float = 1.0, **attributes: Any) -> None:
    """So many events, one after the other, each delivered before the next."""
    for _ in range(count):
        federation.publish("P", **{"class": "STOCK"}, **attributes)
        federation.advance(every_s)


def notes(federation: Federation, kind: type[N]) -> list[tuple[str, str, N]]:
    """(who, to whom, what) of the notes of this kind, in the order in which they were sent."""
    said = (
        (said.who, said.to, read_note(said.who, said.message.body))
        for said in federation.said
        if isinstance(said.message, Note)
    )
    return [(who, to, note) for who, to, note in said if isinstance(note, kind)]


def module_at(federation: Federation, broker: str) -> Any:
    """The module of a broker; there is one."""
    (host,) = federation.brokers[broker].modules._hosts.values()
    return host.module


def check_delivered(federation: Federation) -> None:
    """Every subscriber to everything has had all events of P, once and in order."""
    published = federation.clients["P"].published
    everything = [f"P:{number}" for number in range(1, published + 1)]
    for name in federation.clients:
        if name.startswith("S"):
            assert federation.got(name) == everything, name
