"""The best pair above the threshold, ties, and what may not be (002 sections 4.1 and 5.1)."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np
import pytest

from roost.errors import UserError
from roost.overlay.rewiring.choosing import EVIDENCE_MAX, Offers, choose_rewiring
from roost.overlay.rewiring.counters import Rewiring
from roost.overlay.rewiring.limits import Limits, edge_brokers, pair, pairs
from roost.overlay.topologies import peer_clusters

NEAR = ["B1", "B2", "B3"]
VALUES = np.array([[0, 4, -3], [7, 0, 7], [-20, -9, 0]])


def locked(*brokers: str) -> Callable[[Rewiring], str]:
    return lambda r: "locked" if set(brokers) & {r.mover, r.anchor} else ""


def test_the_best_is_taken_and_of_equal_ones_the_first_by_name() -> None:
    choice = choose_rewiring("B0", NEAR, Offers(VALUES), 0)
    assert choice.rewiring == Rewiring("B0", "B2", "B1")
    assert (choice.utility, choice.candidates) == (7, 6)
    assert [(o.mover, o.anchor, o.outcome) for o in choice.evidence[:3]] == [
        ("B2", "B1", "chosen"),
        ("B2", "B3", "not the best"),
        ("B1", "B2", "not the best"),
    ]
    assert choice.evidence[3].outcome == "saves -3, not more than 0"


def test_a_second_value_decides_between_equals() -> None:
    second = np.zeros((3, 3))
    second[1, 2] = 1
    choice = choose_rewiring("B0", NEAR, Offers(VALUES, second), 0)
    assert choice.rewiring == Rewiring("B0", "B2", "B3")


def test_equals_may_be_drawn() -> None:
    drawn = {
        choose_rewiring("B0", NEAR, Offers(VALUES), 0, random=Random(n)).rewiring for n in range(20)
    }
    assert drawn == {Rewiring("B0", "B2", "B1"), Rewiring("B0", "B2", "B3")}


def test_it_has_to_be_above_the_threshold_not_at_it() -> None:
    assert choose_rewiring("B0", NEAR, Offers(VALUES), 6.5).rewiring is not None
    assert choose_rewiring("B0", NEAR, Offers(VALUES), 7).rewiring is None
    assert choose_rewiring("B0", NEAR, Offers(VALUES, np.ones((3, 3))), 7).rewiring is not None


def test_below_zero_the_threshold_is_noise() -> None:
    """Section 5.1: the least bad is done."""
    values = np.full((3, 3), -8)
    assert choose_rewiring("B0", NEAR, Offers(values), 0).rewiring is None
    assert choose_rewiring("B0", NEAR, Offers(values), -10).rewiring == Rewiring("B0", "B1", "B2")
    assert choose_rewiring("B0", NEAR, Offers(values), -8).rewiring is None


def test_if_the_best_pair_is_locked_the_next_one_is_taken() -> None:
    choice = choose_rewiring("B0", NEAR, Offers(VALUES), 0, locked("B3"))
    assert choice.rewiring == Rewiring("B0", "B2", "B1")
    choice = choose_rewiring("B0", NEAR, Offers(VALUES), -30, locked("B2"))
    assert choice.rewiring == Rewiring("B0", "B1", "B3")
    assert choice.evidence[1].outcome == "locked"
    nothing = choose_rewiring("B0", NEAR, Offers(VALUES), 0, locked("B1", "B2"))
    assert (nothing.rewiring, nothing.candidates, nothing.utility) == (None, 0, 0)


def test_a_broker_with_one_neighbour_has_nothing_to_choose() -> None:
    assert choose_rewiring("B0", ["B1"], Offers(np.zeros((1, 1))), -1).rewiring is None
    assert choose_rewiring("B0", [], Offers(np.zeros((0, 0))), -1).evidence == ()


def test_of_many_candidates_the_best_are_shown() -> None:
    many = [f"B{i:02}" for i in range(20)]
    choice = choose_rewiring("B0", many, Offers(np.arange(400).reshape(20, 20)), 0)
    assert len(choice.evidence) == EVIDENCE_MAX
    assert choice.evidence[0].utility == 398  # 399 is a neighbour with itself


# --- limits -------------------------------------------------------------------------------------------


def test_what_limits_say() -> None:
    limits = Limits(degree_max=3, pinned=pairs([("B1", "B0")]), forbidden=pairs([("B2", "B3")]))
    degrees = {"B1": 2, "B3": 3}
    assert limits.objection(Rewiring("B0", "B1", "B2"), degrees) == "the link B0 - B1 is pinned"
    assert limits.objection(Rewiring("B0", "B3", "B2"), degrees) == "B3 and B2 may not be linked"
    assert "has 3 neighbours" in limits.objection(Rewiring("B0", "B4", "B3"), degrees)
    assert limits.objection(Rewiring("B0", "B3", "B1"), degrees) == ""
    assert limits.objection(Rewiring("B0", "B1", "B2"), {}) != ""
    choice = choose_rewiring("B0", NEAR, Offers(VALUES), 0, lambda r: limits.objection(r, degrees))
    assert choice.rewiring == Rewiring("B0", "B2", "B1")


def test_edge_brokers_keep_their_links() -> None:
    """001 section 3.2: heads and edge-brokers."""
    edges = edge_brokers(peer_clusters(2, 3))
    assert edges == {"B2", "B3", "B4", "B5", "B6", "B7"}
    limits = Limits(edges=edges)
    assert limits.objection(Rewiring("B0", "B2", "B1"), {})
    assert limits.objection(Rewiring("B0", "B1", "B2"), {})


def test_limits_that_make_no_sense() -> None:
    with pytest.raises(UserError, match="expected 2 or more"):
        Limits(degree_max=1)
    with pytest.raises(UserError, match="in order"):
        Limits(pinned=frozenset({("B1", "B0")}))
    assert pair("B1", "B0") == ("B0", "B1")
