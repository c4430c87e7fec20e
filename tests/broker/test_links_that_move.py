"""A link moves, step by step: what the three brokers make of one that is lost meanwhile, or goes nowhere.

When it is abandoned all three are as before, and may be asked again. Under load: `simulation.test_rewiring`.
"""

from __future__ import annotations

import pytest

from roost.broker import events as ev
from roost.broker.messages import Publication
from roost.broker.rewiring.plan import PATIENCE_S
from tests.broker.kit import Federation

MIDDLE, MOVER, ANCHOR = "B1", "B0", "B2"
LINKS = {"B0": ["B1"], "B1": ["B0", "B2"], "B2": ["B1"]}


def asked() -> Federation:
    """The middle has asked the two others, and what it asks takes half of its patience to get to them."""
    federation = Federation((MIDDLE, MOVER), (MIDDLE, ANCHOR))
    federation.handle(MIDDLE, ev.RewiringRequested(MOVER, ANCHOR, "a test"))
    federation.now = PATIENCE_S / 2
    return federation


def links_of(federation: Federation) -> dict[str, list[str]]:
    return {name: sorted(broker.links) for name, broker in federation.brokers.items()}


def taking_part(federation: Federation) -> list[str]:
    return [name for name, broker in federation.brokers.items() if broker.rewirings.now is not None]


def abandoned(federation: Federation) -> list[str]:
    return [r.detail for _, r in federation.reports if r.what == "rewiring abandoned"]


def test_a_mover_that_can_not_reach_the_anchor() -> None:
    """The anchor hears of it, and does not wait as long as it would have."""
    federation = asked()
    federation.severed.add(frozenset((MOVER, ANCHOR)))
    federation.settle()
    assert taking_part(federation) == [MIDDLE, MOVER, ANCHOR]
    federation.advance(PATIENCE_S / 2)
    assert abandoned(federation) == ["a test"]
    assert not taking_part(federation)
    assert links_of(federation) == LINKS
    federation.check_tables()


@pytest.mark.parametrize(("silent", "other"), [(MOVER, ANCHOR), (ANCHOR, MOVER)])
def test_who_has_granted_it_is_let_go_when_the_other_does_not_answer(
    silent: str, other: str
) -> None:
    """When the middle's patience is over, and not only its own."""
    federation = asked()
    federation.cut(MIDDLE, silent, unnoticed_by=MIDDLE)
    federation.settle()
    assert taking_part(federation) == [MIDDLE, other]
    federation.advance(PATIENCE_S / 2)
    assert abandoned(federation) == ["somebody does not answer"]
    assert not taking_part(federation)
    assert links_of(federation) == LINKS


def test_that_a_link_is_lost_which_the_mover_uses_no_longer_is_no_matter() -> None:
    federation = Federation((MIDDLE, MOVER), (MIDDLE, ANCHOR), ("B3", MOVER))
    federation.client("pub", "B3")
    federation.advertise("pub", "a present")
    federation.settle()
    federation.hold_data.add((MIDDLE, MOVER))  # what it waits for
    federation.handle(MIDDLE, ev.RewiringRequested(MOVER, ANCHOR, "a test"))
    federation.settle()
    federation.severed.add(frozenset((MIDDLE, MOVER)))
    federation.cut(MIDDLE, MOVER)
    federation.settle()
    assert taking_part(federation) == [MIDDLE, MOVER, ANCHOR]
    federation.publish("pub", a=1)
    federation.settle()
    assert not federation.between("B3", MOVER, Publication)
