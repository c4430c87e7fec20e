"""Where a broker that joins is linked: the nearest with room, and a shallow overlay among equals."""

from __future__ import annotations

from math import inf
from random import Random

import pytest

from roost.errors import UserError
from roost.overlay.placement import Candidate, heir_of, hops_to_farthest, place, referred
from roost.overlay.topologies import balanced_tree

MS = 1e-3


def candidate(broker: str, ms: float, neighbours: int = 1, hops: int = 2) -> Candidate:
    return Candidate(broker, ms * MS, neighbours, hops)


def test_the_nearest_is_chosen_however_deep_it_is() -> None:
    found = place([candidate("A", 20, hops=1), candidate("B", 8, hops=6), candidate("C", 31)])
    assert found.broker == "B"
    assert "8 ms away" in found.why
    assert "farther away (20 ms)" in found.passed_over["A"]


def test_who_has_as_many_neighbours_as_it_may_is_passed_over() -> None:
    near, next_ = candidate("A", 1, neighbours=3), candidate("B", 9, neighbours=2)
    assert place([near, next_], 4).broker == "A"
    found = place([near, next_], 3)
    assert found.broker == "B"
    assert found.passed_over["A"] == "has 3 neighbours already, of 3"


def test_among_equals_the_overlay_stays_shallow_and_then_even() -> None:
    equals = [
        candidate("A", 10, hops=4),
        candidate("B", 10.4, neighbours=3, hops=2),
        candidate("C", 10.2, neighbours=2, hops=2),
    ]
    assert place(equals).broker == "C"
    assert place(equals[:2]).broker == "B"


def test_times_on_one_machine_tell_nothing() -> None:
    """A tenth of a millisecond against three of them is noise, though it is three times as long."""
    assert place([candidate("A", 0.1, hops=3), candidate("B", 0.3, hops=1)]).broker == "B"
    assert place([candidate("A", 0.1, hops=3), candidate("B", 1.0, hops=1)]).broker == "A"


def test_the_choice_does_not_depend_on_the_order() -> None:
    random = Random(3)
    for _ in range(200):
        candidates = [
            candidate(
                f"B{n}", random.choice([1, 5, 5.1, 9]), random.randint(1, 4), random.randint(1, 3)
            )
            for n in range(6)
        ]
        shuffled = random.sample(candidates, len(candidates))
        try:
            found = place(candidates, 4)
        except UserError:
            assert all(c.neighbours >= 4 for c in candidates)
            continue
        assert place(shuffled, 4).broker == found.broker
        # Everybody else is told why not.
        assert {*found.passed_over, found.broker} == {c.broker for c in candidates}


def test_nobody_can_take_it() -> None:
    silent = Candidate("B", inf, 0, 1)
    with pytest.raises(UserError, match="A has 4 neighbours already, of 4; B does not answer"):
        place([candidate("A", 1, neighbours=4), silent], 4)
    with pytest.raises(UserError, match="there is none"):
        place([])
    with pytest.raises(UserError, match="expected 1 or more"):
        place([silent], 0)


def test_hops_to_the_farthest_in_a_tree_and_in_a_mesh() -> None:
    tree = balanced_tree(7, 2)
    links = [(link.a, link.b) for link in tree.links]
    assert hops_to_farthest(links, tree.brokers) == {
        "B0": 2,
        "B1": 3,
        "B2": 3,
        "B3": 4,
        "B4": 4,
        "B5": 4,
        "B6": 4,
    }
    peers = [("A", "B"), ("B", "C"), ("C", "A"), ("A", "A1")]
    assert hops_to_farthest(peers, ["A", "B", "C", "A1"]) == {"A": 1, "B": 2, "C": 2, "A1": 2}
    assert hops_to_farthest([], ["A"]) == {"A": 0}


def test_brokers_that_join_one_after_the_other_form_an_even_tree() -> None:
    """All equally near: nobody has more than three neighbours, and none is farther than need be."""
    links: list[tuple[str, str]] = []
    brokers = ["B0"]
    for number in range(1, 22):
        hops = hops_to_farthest(links, brokers)
        neighbours = {b: sum(b in link for link in links) for b in brokers}
        found = place([Candidate(b, 0.0001, neighbours[b], hops[b]) for b in brokers], 3)
        links.append((found.broker, f"B{number}"))
        brokers.append(f"B{number}")
    assert max(sum(b in link for link in links) for b in brokers) == 3
    # A tree of degree three and depth three has 1 + 3 + 6 + 12 = 22 brokers.
    assert min(hops_to_farthest(links, brokers).values()) == 3


def test_a_newcomer_is_referred_to_the_largest_beside_its_contact_that_has_room() -> None:
    beside = {"contact": 1, "hub": 7, "full": 8, "other": 7}
    assert referred(beside, 8) == "hub"
    assert referred(beside, 7) == "contact"
    assert referred(beside) == "full"


def test_the_heir_has_room_for_all_or_is_the_smallest() -> None:
    near = {"A": 2, "B": 5, "C": 4, "D": 4}  # with the one that leaves, whose place another takes
    assert heir_of(near) == "B"
    assert heir_of(near, 7) == "B"
    assert heir_of(near, 6) == "C"
    assert heir_of(near, 5) == "A"
    assert heir_of(near, 3) == "A"
    assert heir_of({"A": 9}, 3) == "A"
