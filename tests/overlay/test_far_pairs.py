"""Leaves that talk to leaves on the other side of a tree: they end as neighbours, and it pays."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace

from roost.broker.channel import Lane
from roost.broker.messages import Delivery, Message, Publication
from roost.overlay.organising import OverlaySettings
from roost.overlay.organising.settings import Variant
from roost.overlay.topologies import balanced_tree
from tests.overlay.organised import Organised, publisher, subscriber
from tests.overlay.pairs import far_pairs

HURRIED = OverlaySettings(training_messages=100, training_s=5.0)
PER_S = 20  # of each leaf
LAST_S = 5.0


def workload(brokers: int, until: float) -> str:
    tree = balanced_tree(brokers)
    pairs = far_pairs(brokers)
    said = ["0.0 federation set rest_s 5"]
    said += [f"0.0 broker add {name} 1000 16 100" for name in tree.brokers]
    said += [f"0.0 link add {link.a} {link.b} 1" for link in tree.links]
    for here, there in [*pairs, *((b, a) for a, b in pairs)]:
        said += [publisher(f"P{here}", here, here), subscriber(f"S{there}", there, here)]
    for number in range(int((until - 2.0) * PER_S)):
        said += [
            f"{2.0 + number / PER_S + place / 1000:.4f} publisher publish P{leaf} [class,'{leaf}']"
            for place, leaf in enumerate(leaf for pair in pairs for leaf in pair)
        ]
    return "\n".join([*said, f"{until + 1} end"])


def links_an_event(world: Organised, brokers: int, until: float) -> float:
    """Over the last seconds."""
    world.until(until - LAST_S)
    before = world.publications_sent
    world.until(until)
    events = 2 * len(far_pairs(brokers)) * PER_S * LAST_S
    return (world.publications_sent - before) / events


@pytest.mark.parametrize("variant", ["roost", "paper", "ocbr-gated"])
def test_whoever_talks_is_linked_in_the_end(variant: Variant) -> None:
    """Each pair is six links apart, and then one; each rewiring has saved what it was to save."""
    world = Organised(workload(15, 40.0), replace(HURRIED, variant=variant))
    assert links_an_event(world, 15, 40.0) == pytest.approx(1, abs=0.02)
    assert {f"{a} - {b}" if a < b else f"{b} - {a}" for a, b in far_pairs(15)} <= world.links()
    outcomes = world.of("outcome")
    assert len(outcomes) >= 12
    for outcome in outcomes:
        saved = outcome.evidence["measured"]["saves"]
        assert saved == pytest.approx(outcome.predicted["saves"], abs=2)
    assert world.checked().clean


@pytest.mark.long
def test_what_63_brokers_pay_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two minutes with the defaults, and without; the figures are printed (-rP)."""
    sent: list[Counter[str]] = []
    push = Lane.push

    def counted(self: Lane, message: Message, *more: Any) -> Any:
        if not isinstance(message, Delivery):
            sent[-1]["events" if isinstance(message, Publication) else "control"] += 1
        return push(self, message, *more)

    monkeypatch.setattr(Lane, "push", counted)
    for pinned in (True, False):
        links = balanced_tree(63).links if pinned else ()
        settings = OverlaySettings(pinned=tuple(f"{link.a} - {link.b}" for link in links))
        sent.append(Counter())
        world = Organised(workload(63, 120.0), settings)
        at_last = links_an_event(world, 63, 120.0)
        assert world.checked().clean
        print(
            f"{world.rewirings} rewirings, {at_last:.2f} links an event at last, {dict(sent[-1])}"
        )
    saved = sent[0]["events"] - sent[1]["events"]
    paid = sent[1]["control"] - sent[0]["control"]
    print(f"saved {saved:,} messages, paid {paid:,}: {100 * paid / saved:.1f} %")
    assert paid < 0.05 * saved
